"""The lattice of types: which two have a common one, and that order never matters."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.errors import InputError
from quiver.promote import common_type, union_schema

I8, U64 = pa.int8(), pa.uint64()

JOINS = [
    (pa.null(), pa.string(), pa.string()),
    (pa.null(), pa.dictionary(I8, pa.string()), pa.dictionary(I8, pa.string())),
    (pa.int8(), pa.int32(), pa.int32()),
    (pa.uint8(), pa.uint16(), pa.uint16()),
    (pa.uint8(), pa.int8(), pa.int16()),
    (pa.uint8(), pa.int64(), pa.int64()),
    (pa.uint16(), pa.int8(), pa.int32()),
    (pa.uint32(), pa.int32(), pa.int64()),
    (pa.uint64(), pa.int8(), pa.decimal128(20, 0)),
    (pa.float16(), pa.float32(), pa.float32()),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.int8(), pa.float32(), pa.float64()),
    (pa.uint64(), pa.float64(), pa.float64()),
    (pa.decimal128(20, 0), pa.float32(), pa.float64()),
    (pa.decimal32(5, 2), pa.decimal32(7, 1), pa.decimal32(8, 2)),
    (pa.decimal32(9, 0), pa.decimal32(9, 9), pa.decimal64(18, 9)),
    (pa.decimal128(38, 0), pa.decimal128(38, 2), pa.decimal256(40, 2)),
    (pa.decimal128(5, 2), pa.int8(), pa.decimal128(22, 2)),
    (pa.decimal128(3, -2), pa.decimal128(3, 1), pa.decimal128(6, 1)),
    (pa.string(), pa.large_string(), pa.large_string()),
    (pa.string(), pa.string_view(), pa.string_view()),
    (pa.string_view(), pa.large_string(), pa.large_string()),
    (pa.binary(4), pa.binary(8), pa.binary()),
    (pa.binary(4), pa.binary_view(), pa.binary_view()),
    (pa.binary(), pa.large_binary(), pa.large_binary()),
    (pa.date32(), pa.date64(), pa.date64()),
    (pa.time32("s"), pa.time32("ms"), pa.time32("ms")),
    (pa.time32("ms"), pa.time64("us"), pa.time64("us")),
    (pa.duration("ms"), pa.duration("ns"), pa.duration("ns")),
    (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns")),
    (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("ms", "UTC")),
    (pa.timestamp("us", "+02:00"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
    (
        pa.dictionary(pa.uint8(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
        pa.dictionary(pa.int16(), pa.large_string()),
    ),
    (
        pa.dictionary(pa.uint64(), pa.string()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int64(), pa.string()),
    ),
    (pa.dictionary(I8, pa.string()), pa.large_string(), pa.large_string()),
    (pa.run_end_encoded(pa.int32(), pa.int8()), pa.int16(), pa.int16()),
    (pa.run_end_encoded(pa.int32(), I8), pa.run_end_encoded(pa.int16(), I8), I8),
    (pa.uuid(), pa.binary(16), pa.binary(16)),
    (pa.uuid(), pa.binary(), pa.binary()),
    (pa.list_(pa.int8()), pa.list_(pa.int16()), pa.list_(pa.int16())),
    (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.large_list(pa.int8())),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int16(), 2), pa.list_(pa.int16(), 2)),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
    (pa.list_view(pa.int8()), pa.list_(pa.int8()), pa.list_(pa.int8())),
    (
        pa.struct([("a", pa.int8())]),
        pa.struct([("a", pa.uint8()), ("b", pa.string())]),
        pa.struct([("a", pa.int16()), ("b", pa.string())]),
    ),
    (
        pa.map_(pa.string(), pa.int8()),
        pa.map_(pa.large_string(), pa.int64()),
        pa.map_(pa.large_string(), pa.int64()),
    ),
]

STRANGERS = [
    (pa.string(), pa.int8()),
    (pa.string(), pa.binary()),
    (pa.bool_(), pa.int8()),
    (pa.decimal128(5, 2), pa.float64()),
    (pa.decimal256(76, 0), pa.decimal256(76, 1)),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.date32()),
    (pa.list_(pa.int8()), pa.list_(pa.string())),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())])),
    (pa.struct([("a", I8), ("a", I8)]), pa.struct([("a", I8)])),
    (pa.dictionary(I8, pa.string()), pa.dictionary(I8, pa.int8())),
    (pa.map_(pa.string(), I8), pa.map_(pa.int8(), I8)),
]


@pytest.mark.parametrize("left,right,joined", JOINS, ids=str)
def test_two_types_have_the_documented_common_type_either_way(left, right, joined) -> None:
    assert common_type(left, right) == joined
    assert common_type(right, left) == joined
    assert common_type(left, joined) == joined


@pytest.mark.parametrize("left,right", STRANGERS, ids=str)
def test_types_without_a_common_one_are_refused_by_name(left, right) -> None:
    assert common_type(left, right) is None
    with pytest.raises(InputError, match="'amount'") as caught:
        union_schema([pa.schema([("amount", left)]), pa.schema([("amount", right)])])
    assert str(left) in str(caught.value)
    assert str(right) in str(caught.value)


LEAVES = sorted({kind for row in JOINS for kind in row if not kind.num_fields}, key=str)


def _nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(lambda kind: pa.list_(kind, 2), inner),
        st.builds(lambda a: pa.struct([("a", a)]), inner),
        st.builds(lambda a, b: pa.struct([("a", a), ("b", b)]), inner, inner),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), _nest, max_leaves=3)


def _join(left: pa.DataType | None, right: pa.DataType | None) -> pa.DataType | None:
    return None if left is None or right is None else common_type(left, right)


def _unordered(kind: pa.DataType | None) -> object:
    """Describe a type with the children of structs sorted: their order is that of appearance."""
    if kind is None or not kind.num_fields or pa.types.is_run_end_encoded(kind):
        return str(kind)
    if pa.types.is_struct(kind):
        return sorted((field.name, field.nullable, _unordered(field.type)) for field in kind)
    return kind.id, getattr(kind, "list_size", 0), [_unordered(kind.field(0).type)]


@settings(max_examples=300, deadline=None)
@given(TYPES, TYPES, TYPES)
def test_the_order_in_which_types_are_joined_does_not_matter(first, second, third) -> None:
    one = _join(_join(first, second), third)
    assert _unordered(one) == _unordered(_join(first, _join(second, third)))
    assert _unordered(one) == _unordered(_join(_join(third, first), second))


def test_columns_come_in_order_of_first_appearance_and_are_nullable_where_missing() -> None:
    first = pa.schema(
        [pa.field("b", pa.int8(), nullable=False), pa.field("a", pa.string(), nullable=False)]
    )
    second = pa.schema(
        [pa.field("c", pa.bool_(), nullable=False), pa.field("b", pa.int8(), nullable=False)]
    )

    union = union_schema([first, second])

    assert union.names == ["b", "a", "c"]
    assert [field.nullable for field in union] == [False, True, True]


def test_metadata_stays_only_where_all_agree() -> None:
    def schema(unit: str, source: str) -> pa.Schema:
        return pa.schema(
            [
                pa.field("x", pa.int8(), metadata={"unit": unit}),
                pa.field("y", pa.int8(), metadata={"kept": "yes"}),
            ],
            metadata={"source": source},
        )

    union = union_schema([schema("m", "one"), schema("km", "one")])
    assert union.field("x").metadata is None
    assert union.field("y").metadata == {b"kept": b"yes"}
    assert union.metadata == {b"source": b"one"}
    assert union_schema([schema("m", "one"), schema("m", "two")]).metadata is None


def test_equal_schemas_come_back_as_they_are_even_with_repeated_names() -> None:
    twice = pa.schema([("a", pa.int8()), ("a", pa.int16())])
    assert union_schema([twice, twice]) == twice
    with pytest.raises(InputError, match="appears twice"):
        union_schema([twice, pa.schema([("b", pa.int8())])])


def test_no_schema_at_all_is_refused() -> None:
    with pytest.raises(InputError):
        union_schema([])
