"""Commands: for each row a key, and the value that it has from now on, or none, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.errors import InputError
from quiver.promote import union_schema
from quiver.schemas import same_type
from quiver.upsert.rows.columns import concat, taken, whole
from quiver.upsert.rows.definition import ERROR, HASH, KEY, VALUE, Definition
from quiver.upsert.rows.fitting import fit, struct_of

__all__ = ["ORDER", "Commands", "wire_schema"]

ORDER: Final = "order"
"""On the wire: a struct of what orders commands for one key, absent where their place does."""


@dataclass(frozen=True, eq=False)
class Commands:
    """Rows of commands, in the order of the stream.

    ``values`` is null where a key is to go, and where ``errors`` is not. ``order`` holds what
    orders commands for one key; None means that a later row wins.
    """

    hashes: npt.NDArray[np.uint64]
    keys: pa.StructArray
    values: pa.StructArray
    errors: pa.StringArray
    order: pa.StructArray | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        """How much memory the rows take, about."""
        arrays: list[Any] = [self.keys, self.values, self.errors]
        arrays += [] if self.order is None else [self.order]
        return int(self.hashes.nbytes + sum(array.nbytes for array in arrays))

    def take(self, rows: npt.NDArray[np.int64]) -> Commands:
        """Give these rows, in this order."""
        order = None if self.order is None else taken(self.order, rows)
        return Commands(
            self.hashes[rows],
            taken(self.keys, rows),
            taken(self.values, rows),
            taken(self.errors, rows),
            order,
        )

    def slice(self, start: int, stop: int) -> Commands:
        """Give the rows from one to another, without a copy."""
        count = max(min(stop, len(self)) - start, 0)
        order: Any = None if self.order is None else self.order.slice(start, count)
        return Commands(
            self.hashes[start : start + count],
            self.keys.slice(start, count),
            self.values.slice(start, count),
            self.errors.slice(start, count),
            order,
        )

    @staticmethod
    def concat(parts: Sequence[Commands]) -> Commands:
        """Put commands one behind the other; all must have the same types."""
        if len(parts) == 1:
            return parts[0]
        if len({str(part.values.type) for part in parts}) > 1:
            raise InputError("commands have values of several types", hint="conform them first")
        return Commands(
            np.concatenate([part.hashes for part in parts]),
            concat([part.keys for part in parts]),
            concat([part.values for part in parts]),
            concat([part.errors for part in parts]),
            _orders([part.order for part in parts]),
        )

    def conform(self, definition: Definition) -> Commands:
        """Give the same commands with values of a definition that holds them."""
        count, kind = len(self), definition.value
        columns = fit(self.values.flatten(), _names(self.values), kind, rows=count)
        values = struct_of(columns, kind, count, mask=self.values.is_null())
        return Commands(self.hashes, self.keys, values, self.errors, self.order)

    def to_table(self) -> pa.Table:
        """Give the form in which commands travel: the hash as int64 of the same bits, for Spark."""
        columns: dict[str, Any] = {
            HASH: pa.array(self.hashes.view(np.int64)),
            KEY: self.keys,
            VALUE: self.values,
            ERROR: self.errors,
        }
        if self.order is not None:
            columns[ORDER] = self.order
        return pa.table(columns)

    @staticmethod
    def from_table(table: pa.Table) -> Commands:
        """Read what ``to_table`` gave, rows in any order and from many tables."""
        named = {name: whole(table, name) for name in table.schema.names}
        hashes = named[HASH].to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        order = named.get(ORDER)
        parts = named[KEY], named[VALUE], named[ERROR]
        return Commands(hashes.view(np.uint64), *parts, order)


def _orders(orders: Sequence[pa.StructArray | None]) -> pa.StructArray | None:
    """Put orders one behind the other, under types that hold them all."""
    found = [order for order in orders if order is not None]
    if not found:
        return None
    if len(found) < len(orders):
        raise InputError("some commands have an order and others have none")
    if all(same_type(order.type, found[0].type) for order in found):
        joined: pa.StructArray = concat(found)
        return joined
    wider = union_schema(pa.schema(list(order.type)) for order in found)
    wide = []
    for order in found:
        columns = fit(order.flatten(), _names(order), wider, rows=len(order))
        wide.append(struct_of(columns, wider, len(order)))
    return _orders(wide)


def _names(rows: pa.StructArray) -> list[str]:
    return [field.name for field in rows.type]


def wire_schema(definition: Definition, order: pa.Schema | None = None) -> pa.Schema:
    """Give the schema of ``to_table`` for commands of a collection, ordered by these columns."""
    fields = [
        pa.field(HASH, pa.int64()),
        pa.field(KEY, pa.struct(list(definition.key))),
        pa.field(VALUE, pa.struct(list(definition.value))),
        pa.field(ERROR, pa.string()),
    ]
    if order is not None:
        fields.append(pa.field(ORDER, pa.struct(list(order))))
    return pa.schema(fields)
