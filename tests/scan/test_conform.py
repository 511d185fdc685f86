"""Batches under a wider schema: the same values, or an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from quiver.errors import InputError
from quiver.promote import common_type
from quiver.scan import conform

LIST = [[9], [1], None, [2, 3], []]
PAIRS = [[1, 2], None, [3, 4]]
MAP = [[("a", 1)], None, [("b", 2), ("c", None)], []]
STRUCT = [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]
AB = pa.struct([("a", pa.int8()), ("b", pa.string())])
CBA = pa.struct([("c", pa.bool_()), ("b", pa.large_string()), ("a", pa.int16())])

CASTS = [
    (pa.array([1, None], pa.uint8()), pa.int16()),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0)),
    (pa.array([2**53, -(2**53)]), pa.float64()),
    (pa.array([1.5, None], pa.float16()), pa.float64()),
    (pa.array([Decimal("1.25")], pa.decimal32(5, 2)), pa.decimal256(60, 3)),
    (pa.array(["a", None]), pa.string_view()),
    (pa.array(["a", None], pa.string_view()), pa.large_string()),
    (pa.array([b"abcd"], pa.binary(4)), pa.binary_view()),
    (pa.array([1], pa.date32()), pa.date64()),
    (pa.array([1], pa.time32("s")), pa.time64("us")),
    (pa.array([1], pa.timestamp("s", "UTC")), pa.timestamp("us", "UTC")),
    (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
    (pa.array(["a", None]).dictionary_encode(), pa.dictionary(pa.int64(), pa.large_string())),
    (pa.RunEndEncodedArray.from_arrays([2, 4], pa.array([1, None], pa.int8())), pa.int16()),
    (pa.array(LIST, pa.list_(pa.int8())), pa.list_(pa.int16())),
    (pa.array(LIST, pa.list_(pa.int8())), pa.large_list(pa.int16())),
    (pa.array(LIST, pa.list_view(pa.int8())), pa.list_(pa.int16())),
    (pa.array(LIST, pa.large_list_view(pa.int8())), pa.large_list(pa.int16())),
    (pa.array(PAIRS, pa.list_(pa.int8(), 2)), pa.list_(pa.int16(), 2)),
    (pa.array(PAIRS, pa.list_(pa.int8(), 2)), pa.list_(pa.int16())),
    (pa.array(MAP, pa.map_(pa.string(), pa.int8())), pa.map_(pa.large_string(), pa.int16())),
    (pa.array([None, None]), pa.list_(AB)),
    (pa.array([None, []], pa.list_(pa.null())), pa.list_(AB)),
    (
        pa.array([[{"a": 1, "b": "x"}], None], pa.list_(AB)),
        pa.list_(pa.struct([("a", pa.int16()), ("b", pa.string())])),
    ),
]


def _name(value: Any) -> str:
    return str(getattr(value, "type", value))


def _field(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("x", kind)])


def _conformed(array: Any, kind: pa.DataType) -> Any:
    batch = conform(pa.record_batch({"x": array}), _field(kind))
    batch.validate(full=True)
    assert batch.schema == _field(kind)
    return batch.column("x")


@pytest.mark.parametrize("array,kind", CASTS, ids=_name)
def test_values_survive_the_cast_to_a_wider_type_and_so_do_those_of_slices(
    array: Any, kind: pa.DataType
) -> None:
    assert common_type(array.type, kind) == kind
    for part in (array, array[1:], array[:1], array[:0]):
        assert _conformed(part, kind).to_pylist() == part.to_pylist()


def test_structs_gain_children_and_take_the_wanted_order() -> None:
    array = pa.array(STRUCT, AB)
    expected = [{"c": None, "b": "x", "a": 1}, None, {"c": None, "b": "y", "a": None}]
    assert _conformed(array, CBA).to_pylist() == expected
    assert _conformed(array[1:], CBA).to_pylist() == expected[1:]


def test_an_extension_falls_back_to_its_storage() -> None:
    array = pa.array([b"x" * 16, None], pa.uuid())
    assert _conformed(array, pa.binary(16)).to_pylist() == [b"x" * 16, None]


def test_instants_stay_the_same_when_zones_differ() -> None:
    array = pa.array([0], pa.timestamp("s", "Asia/Tokyo"))
    assert _conformed(array, pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == [0]


def test_columns_are_put_in_order_added_as_null_and_left_out() -> None:
    batch = pa.record_batch({"a": [1], "b": [2], "c": [3]})
    schema = pa.schema([("c", pa.int64()), ("new", pa.string()), ("a", pa.int64())])
    assert conform(batch, schema).to_pylist() == [{"c": 3, "new": None, "a": 1}]


def test_the_number_of_rows_survives_when_no_column_is_wanted() -> None:
    assert conform(pa.record_batch({"a": [1, 2]}), pa.schema([])).num_rows == 2


def test_a_batch_that_fits_is_given_back_without_a_copy() -> None:
    batch = pa.record_batch({"a": [1]})
    assert conform(batch, batch.schema) is batch
    wider = pa.schema([("b", pa.int8()), ("a", pa.int64())])
    column = conform(batch, wider).column("a")
    assert column.buffers()[1].address == batch.column("a").buffers()[1].address


@pytest.mark.parametrize(
    "array,kind",
    [
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([Decimal(2**53 + 1)], pa.decimal128(20, 0)), pa.float64()),
        (pa.array([2**50], pa.timestamp("s")), pa.timestamp("ns")),
        (pa.array([[2**53 + 1]]), pa.list_(pa.float64())),
    ],
    ids=_name,
)
def test_a_value_that_would_change_is_refused_and_its_column_named(
    array: Any, kind: pa.DataType
) -> None:
    assert common_type(array.type, kind) == kind
    with pytest.raises(InputError, match=r"column 'x'.* exactly"):
        _conformed(array, kind)


@pytest.mark.parametrize(
    "array,kind",
    [
        (pa.array([1]), pa.int32()),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1.0]), pa.int64()),
        (pa.array(["a"]), pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=_name,
)
def test_a_cast_that_does_not_widen_is_refused_whatever_the_values(
    array: Any, kind: pa.DataType
) -> None:
    with pytest.raises(InputError, match="does not hold"):
        _conformed(array, kind)


def test_a_null_in_a_column_that_must_have_none_is_refused() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(InputError, match="'x' has nulls"):
        conform(pa.record_batch({"x": [1, None]}), schema)
    with pytest.raises(InputError, match="'x' has nulls"):
        conform(pa.record_batch({"y": [1]}), schema)


def test_a_name_that_a_batch_has_twice_is_refused_when_it_must_be_chosen() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(InputError, match="appears twice"):
        conform(batch, pa.schema([("x", pa.int64())]))
