"""Rows delivered against rows of the source, value for value.

Both sides are bags of rows. Two rows are the same if every column is: null only equals null, and
floats are compared by their bits, so that not even the sign of a zero may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Difference", "compare"]

_ZERO: Final = pa.scalar(0, pa.int64())

Column: TypeAlias = Any
"""An Arrow array, whole or chunked; the stubs know them only as generics."""


@dataclass(frozen=True)
class Difference:
    """What became of the rows of one slot."""

    rows_in: int
    rows_out: int
    lost: int
    """Rows of the source that did not arrive, or not as often as they are in the source."""
    duplicates: int
    """Rows that arrived more often than they are in the source."""
    foreign: int
    """Rows that arrived and are not in the source: some value differs."""
    columns: str = ""
    """How the columns differ in name, order or type; empty if they do not."""

    @property
    def is_none(self) -> bool:
        """Whether all is as it should be."""
        return not (self.lost or self.duplicates or self.foreign or self.columns)


def compare(source: pa.Table, delivered: pa.Table) -> Difference:
    """Count what is lost, doubled, or different; the order of rows is nobody's promise."""
    rows_in, rows_out = source.num_rows, delivered.num_rows
    columns = _columns(source.schema, delivered.schema)
    if columns:
        return Difference(rows_in, rows_out, rows_in, 0, rows_out, columns)
    bag = pa.concat_tables([_marked(source, came=0), _marked(delivered, came=1)])
    keys = [name for name in bag.column_names if not name.startswith("#")]
    counts = bag.group_by(keys).aggregate([("#sent", "sum"), ("#came", "sum")])
    sent: Column = counts["#sent_sum"]
    came: Column = counts["#came_sum"]
    surplus = _excess(came, sent)
    known = pc.greater(sent, _ZERO)
    return Difference(
        rows_in,
        rows_out,
        lost=_sum(_excess(sent, came)),
        duplicates=_sum(pc.if_else(known, surplus, _ZERO)),
        foreign=_sum(pc.if_else(known, _ZERO, surplus)),
    )


def _columns(source: pa.Schema, delivered: pa.Schema) -> str:
    expected = [(field.name, str(field.type)) for field in source]
    found = [(field.name, str(field.type)) for field in delivered]
    if expected == found:
        return ""
    odd = sorted(set(expected) ^ set(found)) or found
    return "columns differ: " + ", ".join(f"{name} {kind}" for name, kind in odd)


def _marked(table: pa.Table, *, came: int) -> pa.Table:
    """Give the rows as keys to group by, and one for the side that each is on."""
    arrays: list[Any] = [_bits(column) for column in table.columns]
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    zeros = pa.repeat(_ZERO, table.num_rows)
    pair = [zeros, ones] if came else [ones, zeros]
    return pa.table([*arrays, *pair], names=[*table.column_names, "#sent", "#came"])


def _bits(column: Column) -> Column:
    if not pa.types.is_float64(column.type):
        return column
    return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())


def _excess(counts: Column, others: Column) -> Column:
    difference: Column = pc.subtract(counts, others)
    return pc.if_else(pc.greater(difference, _ZERO), difference, _ZERO)


def _sum(numbers: Column) -> int:
    return pc.sum(numbers).as_py() or 0
