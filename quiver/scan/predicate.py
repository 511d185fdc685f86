"""What a filter says about data that nobody has read: which chunks cannot have a row that passes.

A filter is a ``pyarrow.compute.Expression``, and Arrow can tell whether one may be true for rows of
which something is known; it does so for the fragments of a dataset. So each thing that may be left
out becomes a fragment without a file, and what Arrow keeps of those is read.

A range says nothing of nulls, and Arrow gives up where a column may be null. Therefore rows are
looked at in parts, one of which each row belongs to: those without a null in any column of the
filter, and for each column that has nulls those where it is null.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyarrow import types as kinds

from quiver.scan.expressions import text_of
from quiver.segment.bounds import value_type

__all__ = ["ColumnFacts", "Facts", "possible"]

Expression: TypeAlias = Any
Scalar: TypeAlias = Any

_FORMAT: Final = ds.IpcFileFormat()
_INTEGER_BITS: Final = 64
_NOWHERE: Final = fs.LocalFileSystem()
_NAN: Final = re.compile(r"\bnan\b", re.IGNORECASE)
_FAULTS: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is known of a column in some rows: its range, both ends included, and its nulls."""

    low: Scalar | None = None
    high: Scalar | None = None
    may_be_null: bool = True
    all_null: bool = False


Facts: TypeAlias = Mapping[str, ColumnFacts]
"""By column name; nothing is known of columns that are not in it."""


def possible(where: Expression, schema: pa.Schema, facts: Sequence[Facts]) -> list[bool]:
    """Tell of each set of rows whether one of them may pass the filter.

    ``schema`` is that of the rows. False is certain; True says nothing. Where a filter names NaN
    nothing is certain, for Arrow then takes a range for an answer that it is not.
    """
    text = text_of(where)
    if text is None or _NAN.search(text):
        return [True] * len(facts)
    plain = pa.schema([pa.field(f.name, _comparable(f.type)) for f in schema])
    exact = {f.name for f in schema if not _is_small_decimal(value_type(f.type))}
    # The path carries the number back, for Arrow gives fragments of its own.
    fragments = [
        _FORMAT.make_fragment(str(owner), filesystem=_NOWHERE, partition_expression=guarantee)
        for owner, columns in enumerate(facts)
        for guarantee in _guarantees(columns, plain, exact)
    ]
    try:
        dataset = ds.FileSystemDataset(fragments, plain, _FORMAT, _NOWHERE)
        kept = {int(fragment.path) for fragment in dataset.get_fragments(filter=where)}
    except _FAULTS:  # It fits the real types only, a dictionary's for instance.
        return [True] * len(facts)
    return [owner in kept for owner in range(len(facts))]


def _is_small_decimal(kind: Any) -> bool:  # noqa: ANN401
    return kind is not None and kinds.is_decimal(kind) and kind.bit_width <= _INTEGER_BITS


def _comparable(kind: Any) -> Any:  # noqa: ANN401
    """Give the type in which Arrow compares a column with its bounds.

    It cannot compare two small decimals while it simplifies; wider ones have the same values.
    """
    plain = value_type(kind) or kind
    return pa.decimal128(plain.precision, plain.scale) if _is_small_decimal(plain) else plain


def _guarantees(columns: Facts, schema: pa.Schema, exact: Container[str]) -> list[Expression]:
    """Say what holds, for the rows without nulls and for those with one in each of the columns.

    ``exact`` are the columns whose real type is the one here: a value may stand in for the column.
    """
    valid = {name: _range(name, known, schema, exact=exact) for name, known in columns.items()}
    found = []
    if not any(known.all_null for known in columns.values()):
        found.append(_all_of([known for known in valid.values() if known is not None]))
    for name, known in columns.items():
        if not known.may_be_null:
            continue
        null = pc.field(name).is_null()
        others = [
            _or_null(other, valid[other], columns[other]) for other in columns if other != name
        ]
        found.append(_all_of([null, *(other for other in others if other is not None)]))
    return found


def _range(
    name: str, known: ColumnFacts, schema: pa.Schema, *, exact: Container[str]
) -> Expression | None:
    if known.low is None or known.high is None:
        return None
    kind = schema.field(name).type
    if kinds.is_decimal(known.low.type) and kinds.is_floating(kind):
        return None  # Arrow would round the bounds.
    try:
        low, high = known.low.cast(kind), known.high.cast(kind)
    except _FAULTS:
        return None
    if low.equals(high) and name in exact and not kinds.is_floating(kind):
        return pc.field(name) == low  # Arrow puts it in the place of the column; -0.0 is no 0.0.
    return (pc.field(name) >= low) & (pc.field(name) <= high)


def _or_null(name: str, valid: Expression | None, known: ColumnFacts) -> Expression | None:
    null: Expression = pc.field(name).is_null()
    if known.all_null:
        return null
    if valid is None:
        return None
    return valid | null if known.may_be_null else valid


def _all_of(parts: Sequence[Expression]) -> Expression:
    whole: Expression = pc.scalar(True)
    for part in parts:
        whole = whole & part
    return whole
