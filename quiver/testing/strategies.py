"""Hypothesis strategies for schemas, batches and bundles: a modest zoo of Arrow types.

Values are such that equality holds after a round trip: no NaN, no text that is not Unicode.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st

__all__ = ["batches", "bundles", "record_batches", "schemas", "types"]

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_I64 = st.integers(-(2**63), 2**63 - 1)
_WORDS = st.sampled_from(["info", "warn", "error", "", "ä", "a longer word than the others"])

_METADATA: st.SearchStrategy[Any] = st.just({b"unit": b"ms"})

_LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): _I64,
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(18, 3): st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-3)),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.string_view(): _TEXT,
    pa.binary(): st.binary(max_size=8),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    pa.date32(): st.dates(),
    pa.timestamp("ns", "UTC"): _I64,
    pa.timestamp("us"): st.integers(-(2**52), 2**52),
    pa.duration("ns"): _I64,
    pa.dictionary(pa.int8(), pa.string()): _WORDS,
    pa.dictionary(pa.int32(), pa.string()): _WORDS,
    pa.dictionary(pa.uint16(), pa.int64()): st.integers(0, 5),
}


def types(*, depth: int = 2) -> st.SearchStrategy[pa.DataType]:
    """Draw a type: a leaf, or a list, struct or map that nests at most ``depth`` levels."""
    leaves: st.SearchStrategy[pa.DataType] = st.sampled_from(list(_LEAVES))
    if depth == 0:
        return leaves
    inner = types(depth=depth - 1)
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([pa.field(f"f{i}", kind) for i, kind in enumerate(kinds)])
    )
    maps = inner.map(lambda kind: pa.map_(pa.string(), kind))
    nested = st.one_of(inner.map(pa.list_), structs, maps)
    return st.integers(0, 3).flatmap(lambda roll: leaves if roll else nested)


@st.composite
def schemas(draw: st.DrawFn, *, columns_max: int = 5) -> pa.Schema:
    """Draw a schema: distinct names, some columns not nullable, now and then metadata."""
    names = draw(st.lists(_TEXT, unique=True, max_size=columns_max))
    fields = []
    for name in names:
        kind = draw(types())
        nullable = pa.types.is_null(kind) or draw(st.booleans())
        metadata = draw(st.none() | _METADATA)
        fields.append(pa.field(name, kind, nullable=nullable, metadata=metadata))
    return pa.schema(fields, metadata=draw(st.none() | _METADATA))


@st.composite
def batches(draw: st.DrawFn, schema: pa.Schema, *, rows_max: int = 6) -> pa.RecordBatch:
    """Draw a batch of this schema, often empty, with nulls where they are allowed."""
    rows = draw(st.integers(0, rows_max)) if len(schema) else 0
    columns = []
    for field in schema:
        one = _values(field.type)
        values = st.none() | one if field.nullable else one
        drawn = draw(st.lists(values, min_size=rows, max_size=rows))
        columns.append(pa.array(drawn, type=field.type))
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        # A null struct around a dictionary without values: pyarrow builds what it calls invalid.
        reject()
    return batch


@st.composite
def record_batches(draw: st.DrawFn, *, columns_max: int = 5, rows_max: int = 6) -> pa.RecordBatch:
    """Draw a schema and a batch of it."""
    return draw(batches(draw(schemas(columns_max=columns_max)), rows_max=rows_max))


@st.composite
def bundles(
    draw: st.DrawFn, slots: Sequence[str], *, rows_max: int = 6
) -> dict[str, pa.RecordBatch]:
    """Draw a bundle: at least one of the slots, each with a batch of a schema of its own."""
    present = draw(st.lists(st.sampled_from(slots), unique=True, min_size=1))
    return {slot: draw(record_batches(rows_max=rows_max)) for slot in present}


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Draw a value that ``pa.array`` takes for this type, never None at the top but for null."""
    if kind in _LEAVES:
        return _LEAVES[kind]
    if pa.types.is_map(kind):
        pairs = st.tuples(_TEXT, st.none() | _values(kind.item_type))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    if pa.types.is_list(kind):
        return st.lists(st.none() | _values(kind.value_type), max_size=3)
    members = [kind.field(index) for index in range(kind.num_fields)]
    return st.fixed_dictionaries({field.name: st.none() | _values(field.type) for field in members})
