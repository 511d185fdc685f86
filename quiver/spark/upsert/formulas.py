"""What a column of a query is, in terms of the stream's: the same one, or a simple condition.

Only what means the same in Arrow as in Spark, null by null, is here. Values are of kinds that both
compare alike, texts by their bytes; two that are compared are of one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "KINDS",
    "Among",
    "Compared",
    "Formula",
    "IsNull",
    "Joined",
    "Named",
    "Negated",
    "Value",
    "Wider",
    "columns_of",
]

Rows: TypeAlias = pa.Table | pa.RecordBatch
Column: TypeAlias = Any
"""An array of Arrow's, chunked for a table."""
_Plain: TypeAlias = str | int | bool

KINDS: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Spark's names of what may be compared, and what of Arrow's it is; times are numbers inside."""


class Formula(Protocol):
    """Says what a column is made of, and makes it."""

    @property
    def names(self) -> frozenset[str]:
        """The columns of the stream that it needs."""
        ...

    def of(self, rows: Rows) -> Column:
        """Make the column, of rows as Spark has them."""
        ...


@dataclass(frozen=True)
class Named:
    """A column as it is."""

    name: str

    @property
    def names(self) -> frozenset[str]:
        """Itself."""
        return frozenset((self.name,))

    def of(self, rows: Rows) -> Column:
        """Give it."""
        return rows.column(self.name)


@dataclass(frozen=True)
class Value:
    """The same value in all rows; null there is not."""

    value: _Plain
    kind: str

    @property
    def names(self) -> frozenset[str]:
        """None at all."""
        return frozenset()

    def of(self, rows: Rows) -> Column:
        """Repeat it."""
        return pa.repeat(self.scalar, rows.num_rows)

    @property
    def scalar(self) -> Any:  # noqa: ANN401
        """The value as Arrow has it."""
        return pa.scalar(self.value, KINDS[self.kind])


@dataclass(frozen=True)
class Wider:
    """Whole numbers in more bits."""

    inner: Formula
    kind: str

    @property
    def names(self) -> frozenset[str]:
        """Those of the numbers."""
        return self.inner.names

    def of(self, rows: Rows) -> Column:
        """Widen them."""
        return self.inner.of(rows).cast(KINDS[self.kind])


@dataclass(frozen=True)
class Compared:
    """Two values compared; unknown where one is null."""

    sign: str
    """As Arrow names it: ``equal``, ``less``, ``less_equal``, ``greater``, ``greater_equal``."""
    left: Formula
    right: Formula

    @property
    def names(self) -> frozenset[str]:
        """Those of both."""
        return self.left.names | self.right.names

    def of(self, rows: Rows) -> Column:
        """Compare row by row."""
        return pc.call_function(self.sign, [_operand(self.left, rows), _operand(self.right, rows)])


@dataclass(frozen=True)
class Among:
    """Whether a value is one of some; unknown where it is null."""

    inner: Formula
    values: tuple[_Plain, ...]
    kind: str

    @property
    def names(self) -> frozenset[str]:
        """Those of the value."""
        return self.inner.names

    def of(self, rows: Rows) -> Column:
        """Look each up."""
        column = self.inner.of(rows)
        found = pc.is_in(column, pa.array(self.values, KINDS[self.kind]))
        if not column.null_count:
            return found
        return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.bool_()))


@dataclass(frozen=True)
class IsNull:
    """Whether there is no value; always known."""

    inner: Formula

    @property
    def names(self) -> frozenset[str]:
        """Those of the value."""
        return self.inner.names

    def of(self, rows: Rows) -> Column:
        """Look at each."""
        return self.inner.of(rows).is_null()


@dataclass(frozen=True)
class Negated:
    """Not; unknown stays unknown."""

    inner: Formula

    @property
    def names(self) -> frozenset[str]:
        """Those of the condition."""
        return self.inner.names

    def of(self, rows: Rows) -> Column:
        """Turn each around."""
        return pc.invert(self.inner.of(rows))


@dataclass(frozen=True)
class Joined:
    """Both conditions, or one of them at least, in the logic of three values."""

    sign: str
    """``and_kleene`` or ``or_kleene``."""
    parts: tuple[Formula, ...]

    @property
    def names(self) -> frozenset[str]:
        """Those of all."""
        return columns_of(self.parts)

    def of(self, rows: Rows) -> Column:
        """Join them row by row."""
        made = [part.of(rows) for part in self.parts]
        return reduce(lambda left, right: pc.call_function(self.sign, [left, right]), made)


def columns_of(formulas: Sequence[Formula]) -> frozenset[str]:
    """Give all columns that some formulas need."""
    return frozenset[str]().union(*(formula.names for formula in formulas))


def _operand(formula: Formula, rows: Rows) -> Column:
    return formula.scalar if isinstance(formula, Value) else formula.of(rows)
