"""The lattice of all types: a join has no order, and values survive it or are refused by name."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import types as kinds

from quiver.casts.nested import decode
from quiver.errors import InputError
from quiver.promote import common_type, union_schema
from quiver.scan import conform
from quiver.testing.drawn_types import types
from quiver.testing.drawn_values import arrays
from quiver.testing.same import plain
from quiver.testing.strategies import batches
from tests.kit.every_type import TYPES, column

MANY = settings(
    max_examples=70,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
WORDS = pa.dictionary(pa.int32(), pa.string())

RELATED: list[list[Any]] = [
    [pa.null(), pa.dictionary(pa.int8(), pa.null()), pa.run_end_encoded(pa.int16(), pa.null())],
    [pa.dictionary(pa.int64(), pa.null()), pa.int8(), pa.uint64(), pa.int64(), pa.uint16()],
    [pa.float16(), pa.float32(), pa.int32(), pa.decimal32(5, 0), pa.decimal64(9, -2), pa.float64()],
    [pa.decimal32(5, 2), pa.decimal256(60, 9), pa.decimal128(9, 0), pa.uint8(), pa.uint64()],
    [
        pa.string(),
        pa.string_view(),
        pa.large_string(),
        WORDS,
        pa.json_(),
        pa.json_(pa.string_view()),
    ],
    [
        pa.dictionary(pa.uint8(), pa.string_view()),
        pa.dictionary(pa.int64(), pa.large_string()),
        WORDS,
    ],
    [pa.uuid(), pa.binary(16), pa.binary(0), pa.binary(), pa.binary_view(), pa.large_binary()],
    [
        pa.run_end_encoded(pa.int16(), pa.uuid()),
        pa.run_end_encoded(pa.int64(), pa.uuid()),
        pa.uuid(),
    ],
    [pa.opaque(WORDS, "t", "v"), pa.opaque(pa.string(), "t", "v"), WORDS, pa.string()],
    [
        pa.dictionary(pa.int8(), pa.run_end_encoded(pa.int16(), pa.uuid())),
        pa.dictionary(pa.int8(), pa.run_end_encoded(pa.int32(), pa.uuid())),
        pa.dictionary(pa.int8(), pa.binary(16)),
    ],
    [pa.bool8(), pa.int8(), pa.int16(), pa.run_end_encoded(pa.int16(), pa.int8())],
    [pa.date32(), pa.date64()],
    [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    [pa.timestamp("s", "UTC"), pa.timestamp("ms", "+01:00"), pa.timestamp("ns", "Asia/Tokyo")],
    [pa.duration("s"), pa.duration("ms"), pa.duration("ns"), pa.month_day_nano_interval()],
]
"""Types that have common ones among them, so that a draw says more than that there is none."""


def nestings(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.builds(
        lambda name, kind, nullable: pa.field(name, kind, nullable or kinds.is_null(kind)),
        st.sampled_from("ab"),
        inner,
        st.booleans(),
    )
    fields = st.lists(named, max_size=2, unique_by=lambda field: field.name)
    return st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(pa.list_view, inner),
        st.builds(pa.large_list_view, inner),
        st.builds(pa.list_, inner, st.integers(0, 2)),
        fields.map(pa.struct),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.large_string()]), inner, st.booleans()),
        st.builds(lambda kind: pa.run_end_encoded(pa.int32(), kind), inner),
        st.builds(lambda kind: pa.sparse_union([pa.field("u", kind)]), inner),
    )


@st.composite
def related(draw: st.DrawFn, count: int) -> list[Any]:
    """Draw types that are likely to have a common one: equal nestings of related leaves."""
    leaves = st.sampled_from(draw(st.sampled_from(RELATED)))
    kinds_of = st.recursive(leaves, nestings, max_leaves=3)
    if draw(st.booleans()):
        return [draw(leaves) for _ in range(count)]
    return [draw(kinds_of) for _ in range(count)]


def joined(left: Any, right: Any) -> Any:
    return None if left is None or right is None else common_type(left, right)


def unordered(kind: Any) -> Any:
    """Describe a type with the children of structs sorted: their order is that of appearance."""
    if kind is None or isinstance(kind, pa.BaseExtensionType):
        return str(kind)
    if isinstance(kind, pa.DictionaryType):
        return "dictionary", str(kind.index_type), kind.ordered, unordered(kind.value_type)
    if isinstance(kind, pa.RunEndEncodedType):
        return "runs", str(kind.run_end_type), unordered(kind.value_type)
    fields = [kind.field(index) for index in range(kind.num_fields)]
    children = [(field.name, field.nullable, unordered(field.type)) for field in fields]
    if kinds.is_struct(kind):
        return "struct", sorted(children)
    return kind.id, str(kind) if not children else "", getattr(kind, "list_size", 0), children


@MANY
@given(related(3))
def test_joining_is_commutative_and_associative_up_to_the_order_of_children(drawn):
    first, second, third = drawn
    assert unordered(joined(first, second)) == unordered(joined(second, first))
    one = joined(joined(first, second), third)
    assert unordered(one) == unordered(joined(first, joined(second, third)))
    assert unordered(one) == unordered(joined(joined(third, first), second))


@MANY
@given(st.one_of(related(2), st.tuples(types(), types())))
def test_joining_is_idempotent_and_the_result_holds_both(drawn):
    left, right = drawn
    assert joined(left, left).equals(left, check_metadata=True)
    both = joined(left, right)
    if both is not None:
        assert both.equals(joined(both, both), check_metadata=True)
        assert unordered(joined(both, left)) == unordered(both)
        assert unordered(joined(both, right)) == unordered(both)


def meaning(array: Any) -> list[Any]:  # noqa: C901 - a case for each kind of type
    """What values say, however they are written: numbers as numbers, times in nanoseconds."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return meaning(array.storage)
    if isinstance(kind, pa.DictionaryType):
        words = meaning(array.dictionary)
        return [None if index is None else words[index] for index in array.indices.to_pylist()]
    if isinstance(kind, pa.RunEndEncodedType):
        rows_at = np.arange(array.offset, array.offset + len(array))
        runs = meaning(array.values)
        return [runs[run] for run in np.searchsorted(array.run_ends, rows_at, side="right")]
    if kinds.is_null(kind):
        return [None] * len(array)
    valid = array.is_valid().to_pylist()
    if kinds.is_union(kind):
        return [None if value[1] is None else value for value in members(array)]
    if kinds.is_struct(kind):
        rows: list[dict[str, Any]] = [{} for _ in valid]
        for index, field in enumerate(kind):
            for row, value in zip(rows, meaning(array.field(index)), strict=True):
                if value is not None:
                    row[field.name] = value
        return [row if ok else None for ok, row in zip(valid, rows, strict=True)]
    if kind.num_fields:
        return [meaning(array[row].values) if ok else None for row, ok in enumerate(valid)]
    if kinds.is_interval(kind):
        return plain(array)
    if kinds.is_temporal(kind):
        width = {32: (pa.int32(), "<i"), 64: (pa.int64(), "<q")}[kind.bit_width][1]
        raw = [None if v is None else struct.unpack(width, v)[0] for v in plain(array)]
        unit = NS[kind.unit] if hasattr(kind, "unit") else 10**6 if kinds.is_date64(kind) else DAY
        return [None if v is None else v * unit for v in raw]
    values = array.to_pylist()
    return ["nan" if isinstance(v, float) and math.isnan(v) else v for v in values]


DAY = 86_400 * 10**9


def members(array: Any) -> list[Any]:
    """Give each value of a union with the place of its type, from the buffers."""
    children = [meaning(array.field(index)) for index in range(array.type.num_fields)]
    rows = slice(array.offset, array.offset + len(array))
    codes = np.frombuffer(array.buffers()[1] or b"", np.int8)[rows].tolist()
    offsets = list(range(len(array)))
    if array.type.mode == "dense":
        offsets = np.frombuffer(array.buffers()[2] or b"", np.int32)[rows].tolist()
    places = [array.type.type_codes.index(code) for code in codes]
    return [(place, children[place][at]) for place, at in zip(places, offsets, strict=True)]


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch | None:
    """Conform a batch; None if it is refused, by the name of a column."""
    refusal = ""
    try:
        return conform(batch, schema)
    except InputError as error:
        refusal = str(error)
    assert "column '" in refusal
    return None


def assert_kept(array: Any, kind: Any) -> None:
    """Conform a column: each value must mean what it did, or the column be refused by name."""
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    found = conformed(batch, pa.schema([("x", kind)]))
    if found is None:
        return
    found.validate(full=True)
    assert meaning(found.column(0)) == meaning(array)


@MANY
@given(st.data(), related(2))
def test_conforming_keeps_every_value_or_refuses(data, drawn):
    left, right = drawn
    kind = common_type(left, right)
    if kind is not None:
        array = data.draw(arrays(left, 5))
        assert_kept(array, kind)
        assert_kept(array[2:], kind)


@MANY
@given(st.data(), st.lists(related(2), min_size=1, max_size=3))
def test_batches_of_drifting_schemas_fit_their_union_or_are_refused(data, drawn):
    sides = [
        pa.schema([(f"c{place}", pair[side]) for place, pair in enumerate(drawn)][side:])
        for side in (0, 1)
    ]
    if any(common_type(*pair) is None for pair in drawn[1:]):
        with pytest.raises(InputError, match="column 'c"):
            union_schema(sides)
        return
    union = union_schema(sides)
    assert union.names == [f"c{place}" for place in range(len(drawn))]
    for side in sides:
        batch = data.draw(batches(side, rows_max=3))
        found = conformed(batch, union)
        if found is None:
            continue
        assert found.schema.equals(union, check_metadata=True)
        assert found.num_rows == batch.num_rows
        found.validate(full=True)
        for name in side.names:
            assert meaning(found.column(name)) == meaning(batch.column(name))


REFUSED_NULLS = [pa.sparse_union([]), pa.dense_union([])]


@pytest.mark.parametrize("place", range(len(TYPES)))
def test_each_type_conforms_to_whatever_it_has_a_common_type_with(place):
    array = column(TYPES[place], 3)
    wider = {str(k): k for other in TYPES if (k := common_type(TYPES[place], other)) is not None}
    assert str(TYPES[place]) in wider
    for kind in wider.values():
        assert_kept(array, kind)


@pytest.mark.parametrize("place", range(len(TYPES)))
def test_a_column_of_each_type_may_be_missing_or_null(place):
    kind = TYPES[place]
    schema = pa.schema([("x", kind)])
    for batch in (pa.record_batch({"y": [1, 2]}), pa.record_batch({"x": pa.nulls(2)})):
        if kind in REFUSED_NULLS:
            with pytest.raises(InputError, match="no values, not even null"):
                conform(batch, schema)
        else:
            found = conform(batch, schema)
            found.validate(full=True)
            assert found.num_rows == 2
            assert found.schema == schema


def test_a_dictionary_never_comes_to_hold_what_arrow_cannot_keep_in_one():
    left, right = (
        pa.dictionary(pa.int8(), pa.run_end_encoded(ends, pa.uuid()))
        for ends in (pa.int16(), pa.int32())
    )
    assert common_type(left, right) == pa.uuid()


def test_unions_that_differ_in_metadata_alone_are_the_same():
    left, right = (
        pa.dense_union([pa.field("a", pa.int8(), metadata=metadata), pa.field("b", pa.string())])
        for metadata in (None, {"k": "v"})
    )
    assert common_type(left, right).equals(left, check_metadata=True)
    assert common_type(right, left).equals(left, check_metadata=True)
    assert common_type(left, pa.sparse_union(list(left))) is None


def test_views_of_text_inside_of_lists_keep_their_bytes_when_runs_are_spread():
    lists = pa.array([[], ["longer than 12 bytes"], ["ä"]], pa.list_view(pa.string_view()))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), lists)
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 2, 0], pa.int8()), lists)
    for array in (runs, words):
        plain_lists = decode(array)
        plain_lists.validate(full=True)
        assert plain(plain_lists) == [
            each[0] if isinstance(each, tuple) else each for each in plain(array)
        ]
