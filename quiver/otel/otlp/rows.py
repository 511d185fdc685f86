"""Columns of payloads as vectors: whatever of the types that OTAP allows they came in."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quiver.errors import InputError
from quiver.otel.wire import Flags, Ints, Longs

__all__ = ["Rows"]

_COPIES_MAX: Final = 1 << 20
"""How many rows may be written that are copies: a scope may be in several resources."""


class Rows:
    """The columns of a batch or struct by name; one that is not there is all default values."""

    __slots__ = ("_columns", "count", "name")

    def __init__(self, columns: dict[str, pa.Array[Any]], *, count: int, name: str) -> None:
        """``name`` is that of the payload, for errors."""
        self._columns = columns
        self.count = count
        self.name = name

    @staticmethod
    def of(batch: pa.RecordBatch, name: str) -> Rows:
        """Take the columns of a payload."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return Rows(columns, count=batch.num_rows, name=name)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self._columns

    def take(self, rows: Ints) -> Rows:
        """Give these rows, in this order."""
        columns = {name: column.take(rows) for name, column in self._columns.items()}
        return Rows(columns, count=rows.size, name=self.name)

    def below(self, of: Ints) -> tuple[Rows, Ints]:
        """Give rows in the order of what they belong to, and how many each of that has.

        ``of`` are the ids of that, -1 where it has none. Rows of one id keep their order; those of
        an id that is not there are left out.
        """
        parents = self.ids("parent_id")
        in_order = self.count and not (parents[1:] < parents[:-1]).any()
        if in_order and int(parents[0]) >= 0 and int(parents[-1]) < of.size and _counts_up(of):
            return self, np.bincount(parents, minlength=of.size)
        order = np.argsort(parents, kind="stable")
        parents = parents[order]
        low = np.searchsorted(parents, of, side="left")
        counts = np.where(of < 0, 0, np.searchsorted(parents, of, side="right") - low)
        ends = np.cumsum(counts)
        if ends.size and int(ends[-1]) > self.count + _COPIES_MAX:
            raise InputError(
                f"payload {self.name}: of {self.count} rows, {int(ends[-1])} would be written",
                hint="rows of one id are shared by few",
            )
        within = np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - counts, counts)
        return self.take(order[np.repeat(low, counts) + within]), counts

    def inside(self, name: str) -> Rows:
        """Give the columns of a struct; a struct that is null has null in each."""
        column = self._columns.get(name)
        path = f"{self.name}.{name}"
        if column is None:
            return Rows({}, count=self.count, name=path)
        if not isinstance(column, pa.StructArray):
            raise InputError(f"column {path} is {column.type}, not a struct")
        names = [field.name for field in column.type]
        return Rows(dict(zip(names, column.flatten(), strict=True)), count=self.count, name=path)

    def there(self, name: str) -> Flags:
        """Tell which rows have a value in a column."""
        column = self._columns.get(name)
        if column is None:
            return np.zeros(self.count, np.bool_)
        if not column.null_count:
            return np.ones(self.count, np.bool_)
        return column.is_valid().to_numpy(zero_copy_only=False)

    def array(self, name: str, kind: pa.DataType) -> pa.Array[Any] | None:
        """Give a column as one of this type, None if it is not there."""
        column = self._columns.get(name)
        if column is None:
            return None
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        if column.type == kind:
            return column
        try:
            return column.cast(kind)
        except pa.ArrowException as error:
            said = f"column {self.name}.{name} is {column.type}, not {kind}"
            raise InputError(said) from error

    def numbers(self, name: str, kind: pa.DataType, default: int = 0) -> NDArray[Any]:
        """Give a column as a vector of this type, ``default`` where it is null."""
        column = self.array(name, kind)
        if column is None:
            return np.full(self.count, default, kind.to_pandas_dtype())
        if column.null_count:
            column = column.fill_null(pa.scalar(default).cast(kind))
        return column.to_numpy(zero_copy_only=False)

    def ids(self, name: str) -> Ints:
        """Give a column of ids, -1 where it is null."""
        column = self.array(name, pa.int64())
        if column is None:
            return np.full(self.count, -1, np.int64)
        return column.fill_null(-1).to_numpy(zero_copy_only=False)

    def times(self, name: str) -> Longs:
        """Give times as nanoseconds, 0 where there is none; negative ones are those after 2262."""
        column = self.array(name, pa.timestamp("ns"))
        if column is None:
            return np.zeros(self.count, np.uint64)
        return column.view(pa.int64()).fill_null(0).to_numpy().view(np.uint64)

    def counts(self, name: str) -> Longs:
        """Give numbers of 32 bits that are 0 where they are null."""
        return self.numbers(name, pa.uint32()).astype(np.uint64)

    def texts(self, name: str) -> pa.Array[Any] | None:
        """Give texts, null where they are empty: both are the same."""
        return self._filled(name, pa.string())

    def octets(self, name: str) -> pa.Array[Any] | None:
        """Give bytes, null where they are empty: both are the same."""
        return self._filled(name, pa.binary())

    def _filled(self, name: str, kind: pa.DataType) -> pa.Array[Any] | None:
        column: Any = self._columns.get(name)
        if column is not None and pa.types.is_fixed_size_binary(column.type):
            return column
        column = self.array(name, kind)
        if column is None or column.null_count == len(column):
            return None
        empty: Any = pc.equal(pc.binary_length(column), pa.scalar(0))
        if not pc.any(empty).as_py():
            return column
        return pc.if_else(empty, pa.scalar(None, kind), column)


def _counts_up(of: Ints) -> bool:
    return bool((of == np.arange(of.size)).all())
