"""Commands: for each row a key, and the value that it has from now on, or none, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.errors import InputError
from quiver.upsert.rows.columns import concat, taken, whole
from quiver.upsert.rows.definition import ERROR, HASH, KEY, VALUE, Definition

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
        ordered = [part.order for part in parts if part.order is not None]
        if ordered and len(ordered) < len(parts):
            raise InputError("some commands have an order and others have none")
        return Commands(
            np.concatenate([part.hashes for part in parts]),
            concat([part.keys for part in parts]),
            concat([part.values for part in parts]),
            concat([part.errors for part in parts]),
            concat(ordered) if ordered else None,
        )

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
