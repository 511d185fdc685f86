"""Corners of filters in which a range, or Arrow's own way to read them, would say too much."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quiver
from quiver.errors import InputError

FIELD = pc.field
NAN = pc.scalar(float("nan"))


def fill(path, *tables):
    with quiver.open(path, slots=["rows"], worker=False) as store:
        for table in tables:
            store.append({"rows": table})
            store.finalize()
    return quiver.scan(path, slot="rows")


@pytest.mark.parametrize(
    "where",
    [
        FIELD("z").isin([-0.0]),
        FIELD("z").cast(pa.string()) == "-0",
        pc.divide(pc.scalar(1.0), FIELD("z")) > 0,
        ~(FIELD("z") < NAN),
        (~(FIELD("z") <= NAN)) | (FIELD("z") == 9),
        FIELD("z") == NAN,
        FIELD("z") != NAN,
    ],
    ids=str,
)
def test_signed_zeros_and_nan_in_a_filter_lose_no_row(tmp_path, where):
    scan = fill(tmp_path, pa.table({"z": [0.0, -0.0, 0.0]}), pa.table({"z": [-0.0]}))
    found = scan.select(where=where).to_table()
    assert str(found["z"].to_pylist()) == str(scan.to_table().filter(where)["z"].to_pylist())


def test_one_segment_is_filtered_and_counted_under_the_schema_of_the_scan(tmp_path):
    first = pa.table({"i": pa.array([1, 2, 3], pa.int32())})
    scan = fill(tmp_path, first, pa.table({"i": [0.5, 1.5, 2.5], "b": [7, 8, 9]}))
    halved = scan.select(where=pc.divide(FIELD("i"), pa.scalar(2)) > 0.4)
    one = halved.only(scan.segments[0])
    assert one.count_rows() == one.to_table().num_rows == 3
    assert scan.only(scan.segments[0]).select(columns=["b"]).to_table()["b"].null_count == 3
    for fragment in scan.dataset().get_fragments():
        wanted = FIELD("b").is_null()
        assert fragment.count_rows(filter=wanted) == fragment.to_table(filter=wanted).num_rows


def test_columns_by_number_are_refused(tmp_path):
    scan = fill(tmp_path, pa.table({"a": [1], "b": [2]}))
    with pytest.raises(InputError, match="by its number"):
        scan.select(where=FIELD(0) > 0)


@pytest.mark.parametrize("name", ["__filename", "__batch_index", "FieldPath(", "nan", 'a"b.c d'])
def test_columns_of_any_name_may_be_filtered_by(tmp_path, name):
    scan = fill(tmp_path, pa.table({name: [1, 2, 3], "other": [4, 5, 6]}))
    assert scan.select(where=FIELD(name) > 1).to_table()["other"].to_pylist() == [5, 6]
    assert scan.select(columns=[name], where=FIELD("other") > 5).to_table()[name].to_pylist() == [3]


def test_a_repeated_name_does_not_keep_others_from_being_filtered_by(tmp_path):
    table = pa.Table.from_arrays([pa.array([n]) for n in (1, 2, 3)], names=["a", "a", "b"])
    found = fill(tmp_path, table).select(where=FIELD("b") == 3).to_table()
    assert [column.to_pylist() for column in found.columns] == [[1], [2], [3]]


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.list_view(pa.int8())])
def test_rows_of_types_that_arrow_cannot_pick_from_are_picked(tmp_path, kind):
    values = [[1], [], [2], None] if pa.types.is_list_view(kind) else ["a", "", "c", None]
    if kind == pa.binary_view():
        values = [None if v is None else v.encode() for v in values]
    scan = fill(tmp_path, pa.table({"n": [1, 2, 3, 4], "v": pa.array(values, kind)}))
    for where in (FIELD("n") != 2, FIELD("n") > 4, FIELD("n") > 0):
        kept = scan.to_table()["n"].to_pylist()
        numbers = scan.select(columns=["n"], where=where).to_table()["n"].to_pylist()
        found = scan.select(where=where).to_table()
        assert found["v"].to_pylist() == [values[kept.index(n)] for n in numbers]


def test_times_at_the_ends_of_64_bits_are_found(tmp_path):
    ends = [-(2**63), 0, 2**63 - 1]
    table = pa.table({"at": pa.array(ends, pa.timestamp("ns"))})
    with quiver.open(tmp_path, slots=[quiver.Slot(0, "rows", 0, "at")], worker=False) as store:
        store.append({"rows": table})
    for span, count in [
        ((None, 2**63), 3),
        ((None, 2**63 - 1), 2),
        ((-(2**70), None), 3),
        ((2**63, None), 0),
        ((None, -(2**63)), 0),
    ]:
        assert quiver.scan(tmp_path, slot="rows", event_time=span).count_rows() == count


def test_a_column_may_be_called_as_what_is_true_is_shown(tmp_path):
    table = pa.table({"true": [True, False, False], "c": [1, 2, 3]})
    with quiver.open(tmp_path, slots=["s"], worker=False) as store:
        store.append({"s": table})
        store.finalize()
    for where in (pc.field("true"), ~pc.field("true"), pc.scalar(True)):
        found = quiver.scan(tmp_path, slot="s", where=where).to_table()
        assert found.equals(table.filter(where))


def test_a_filter_that_arrow_cannot_show_is_tried_all_the_same(tmp_path):
    """It cuts long values after so many bytes, in the midst of a character."""
    words = ["x" + "日本語" * 20, "y" * 100, "z"]
    where = pc.field("c").isin(words[:1])
    with pytest.raises(UnicodeDecodeError):
        str(where)
    table = pa.table({"c": words, "d": [1, 2, 3]})
    with quiver.open(tmp_path, slots=["s"], worker=False) as store:
        store.append({"s": table})
        store.finalize()
    scan = quiver.scan(tmp_path, slot="s", where=where)
    assert scan.to_table().equals(table.filter(where))
    assert scan.select(columns=["d"]).to_table().to_pylist() == [{"d": 1}]
    dataset = quiver.scan(tmp_path, slot="s").dataset()
    for _ in range(2):
        assert dataset.to_table(columns=["d"], filter=where).to_pylist() == [{"d": 1}]
    with pytest.raises(InputError, match="where: it does not fit the rows"):
        quiver.scan(tmp_path, slot="s", where=pc.field("d").isin(words)).to_table()
