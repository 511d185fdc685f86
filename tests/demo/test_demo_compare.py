import math
import struct

import pyarrow as pa
import pytest

from bench.demo.compare import Difference, compare

SOURCE = pa.table(
    {
        "name": ["a", "b", "b", None],
        "count": pa.array([1, 2, 2, None], pa.int64()),
        "value": pa.array([0.0, math.nan, math.nan, None], pa.float64()),
    }
)


def with_value(column, row, value):
    values = SOURCE[column].to_pylist()
    values[row] = value
    array = pa.array(values, SOURCE.schema.field(column).type)
    return SOURCE.set_column(SOURCE.column_names.index(column), column, array)


def test_the_same_rows_in_any_order_and_any_chunks_do_not_differ():
    shuffled = pa.concat_tables([SOURCE.take([3, 1]), SOURCE.take([2, 0])])
    found = compare(SOURCE, shuffled)
    assert found.is_none
    assert (found.rows_in, found.rows_out) == (4, 4)


def test_a_lost_row_is_counted():
    assert compare(SOURCE, SOURCE.slice(1)) == Difference(4, 3, lost=1, duplicates=0, foreign=0)


def test_one_of_two_equal_rows_that_is_lost_is_counted():
    found = compare(SOURCE, SOURCE.take([0, 1, 3]))
    assert found == Difference(4, 3, lost=1, duplicates=0, foreign=0)


def test_a_doubled_row_is_counted():
    found = compare(SOURCE, SOURCE.take([0, 0, 1, 2, 3, 3, 3]))
    assert found == Difference(4, 7, lost=0, duplicates=3, foreign=0)


@pytest.mark.parametrize(
    "column,row,value",
    [
        ("name", 0, "A"),
        ("name", 0, None),
        ("name", 3, ""),
        ("count", 0, 2),
        ("count", 3, 0),
        ("value", 0, -0.0),
        ("value", 0, math.nextafter(0.0, 1.0)),
        ("value", 0, None),
        ("value", 3, math.nan),
        ("value", 1, struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))[0]),
    ],
)
def test_one_differing_value_is_one_row_lost_and_one_foreign(column, row, value):
    found = compare(SOURCE, with_value(column, row, value))
    assert found == Difference(4, 4, lost=1, duplicates=0, foreign=1)
    assert not found.is_none


@pytest.mark.parametrize(
    "delivered",
    [
        SOURCE.rename_columns(["name", "number", "value"]),
        SOURCE.select(["count", "name", "value"]),
        SOURCE.select(["name", "count"]),
        SOURCE.set_column(1, "count", SOURCE["count"].cast(pa.int32())),
    ],
    ids=["renamed", "reordered", "missing", "another type"],
)
def test_columns_that_differ_are_named_and_no_row_counts_as_delivered(delivered):
    found = compare(SOURCE, delivered)
    assert found.columns.startswith("columns differ: ")
    assert (found.lost, found.foreign) == (4, 4)
    assert not found.is_none


def test_nothing_delivered_is_all_lost_and_nothing_expected_is_all_foreign():
    empty = SOURCE.slice(0, 0)
    assert compare(SOURCE, empty).lost == 4
    assert compare(empty, SOURCE).foreign == 4
    assert compare(empty, empty).is_none
