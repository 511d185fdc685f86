"""A scan as a pyarrow dataset: what engines ask of it, and what of that reaches the scan."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import pickle
import shutil
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from store_kit import writer

from quiver.errors import DamageError, InputError, MissingError
from quiver.scan import Scan, scan, view
from quiver.scan.dataset import SlotDataset, SlotFragment

MOMENT = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)


def part(first: int, kind: pa.DataType) -> dict[str, pa.RecordBatch]:
    numbers = range(first, first + 5)
    columns = {
        "n": pa.array(numbers, kind),
        "text": pa.array([None if n % 3 == 0 else f"t{n}" for n in numbers]),
        "x": pa.array([n / 2 for n in numbers]),
        "level": pa.array(["low" if n < 10 else "high" for n in numbers]).dictionary_encode(),
        "moment": pa.array(
            [MOMENT + dt.timedelta(hours=n) for n in numbers], pa.timestamp("us", tz="UTC")
        ),
        "price": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
        "nested": pa.array([{"a": n, "b": [n] * (n % 3)} for n in numbers]),
    }
    return {"logs": pa.record_batch(columns)}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> str:
    """Twenty rows in four segments, of which two have narrower numbers and one has none."""
    return writer(tmp_path_factory.mktemp("dataset") / "store")(
        [part(0, pa.int32())],
        [part(5, pa.int32())],
        [{"metrics": pa.record_batch({"m": [1.0]})}],
        [part(10, pa.int64()), part(15, pa.int64())],
    )


@pytest.fixture
def rows(shelf) -> Scan:
    return scan(shelf, slot="logs")


@pytest.fixture
def asked(monkeypatch) -> list[tuple[list[str] | None, pc.Expression | None]]:
    """What scans were asked for: columns and filters, one pair for each narrowing."""
    calls: list[tuple[list[str] | None, pc.Expression | None]] = []
    honest = Scan.select

    def select(self: Scan, columns: Any = None, where: Any = None) -> Scan:
        calls.append((columns, where))
        return honest(self, columns, where)

    monkeypatch.setattr(Scan, "select", select)
    return calls


def read(calls: list[tuple[list[str] | None, pc.Expression | None]]) -> set[str]:
    """Name the columns that were asked for; all of them if one call named none."""
    return {
        name for columns, _ in calls for name in (["everything"] if columns is None else columns)
    }


FILTERS = {
    "none": None,
    "range": (pc.field("n") > 3) & (pc.field("n") <= 16),
    "text": pc.field("text") == "t8",
    "null": pc.field("text").is_null(),
    "member": pc.field("n").isin([1, 8, 19]),
    "dictionary": pc.field("level") == "high",
    "time": pc.field("moment") >= pa.scalar(MOMENT + dt.timedelta(hours=7)),
    "decimal": pc.field("price") == pa.scalar(decimal.Decimal("2.25")),
    "nested": pc.field("nested", "a") < 2,
    "computed": pc.field("n") * 2 > pc.field("x") + 20,
    "no row": pc.field("n") < 0,
    "always": pc.scalar(True),
}


@pytest.mark.parametrize("filter_", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("columns", [None, ["x", "n"], ["text"], []], ids=str)
def test_columns_and_filters_give_what_pyarrow_gives_on_the_whole(rows, columns, filter_) -> None:
    whole = pads.dataset(rows.to_table())
    expected = whole.to_table(columns=columns, filter=filter_)
    dataset = rows.dataset()
    found = dataset.to_table(columns=columns, filter=filter_)
    assert found.equals(expected)
    assert found.num_rows == expected.num_rows
    assert dataset.count_rows(filter=filter_) == expected.num_rows
    batches = list(dataset.to_batches(columns=columns, filter=filter_))
    assert sum(batch.num_rows for batch in batches) == expected.num_rows
    by_fragment = [
        fragment.to_table(columns=columns, filter=filter_)
        for fragment in dataset.get_fragments(filter_)
    ]
    assert sum(table.num_rows for table in by_fragment) == expected.num_rows
    if columns:
        assert pa.concat_tables(by_fragment or [found]).equals(expected)


def test_a_projection_may_be_computed_repeated_or_in_another_order(rows, asked) -> None:
    whole = pads.dataset(rows.to_table())
    for columns in ({"twice": pc.field("n") * 2, "a": pc.field("nested", "a")}, ["x", "n", "x"]):
        expected = whole.to_table(columns=columns)
        assert rows.dataset().to_table(columns=columns).equals(expected)
    assert rows.dataset().to_table(columns={}).num_rows == 20
    assert [columns for columns, _ in asked] == [["n", "nested"], ["x", "n"], []]


def test_the_scan_is_asked_for_no_more_than_the_columns_and_the_filter(rows, asked) -> None:
    rows.dataset().to_table(columns=["text"], filter=pc.field("n") > 12)
    ((columns, where),) = asked
    assert columns == ["text"]
    assert where.equals(pc.field("n") > 12)
    asked.clear()
    rows.dataset().count_rows(filter=pc.field("x") > 1)
    assert asked[0][0] == []


def test_one_dataset_answers_one_question_after_the_other(rows) -> None:
    dataset = rows.dataset()
    for first in (5, 5, 15, 7):
        found = dataset.to_table(columns=["n"], filter=pc.field("n") >= first)
        assert found["n"].to_pylist() == [*range(first, 20)]
    assert dataset.to_table(columns=["x"], filter=pc.field("n") >= 7).column_names == ["x"]
    assert dataset.count_rows(filter=pc.field("n") >= 7) == 13
    assert dataset.to_table(columns=["n"]).num_rows == 20


def test_nothing_is_read_before_a_scanner_is(rows, monkeypatch) -> None:
    _ = rows.schema
    opened: list[object] = []
    honest = Scan.to_reader
    monkeypatch.setattr(Scan, "to_reader", lambda self: opened.append(self) or honest(self))
    scanner = rows.dataset().scanner(columns=["n"])
    list(rows.dataset().get_fragments())
    assert not opened
    assert scanner.to_table().num_rows == 20
    assert opened


def test_each_segment_that_has_the_slot_is_a_fragment_under_the_whole_schema(rows) -> None:
    dataset = rows.dataset()
    fragments = list(dataset.get_fragments())
    assert [fragment.count_rows() for fragment in fragments] == [5, 5, 10]
    assert [f.physical_schema.field("n").type for f in fragments] == [
        pa.int32(),
        pa.int32(),
        pa.int64(),
    ]
    for fragment in fragments:
        assert fragment.schema == dataset.schema
        scanner = fragment.scanner(dataset.schema, columns=["n"], batch_size=2)
        assert scanner.projected_schema.field("n").type == pa.int64()
    numbers = [
        n for f in fragments for b in f.to_batches(columns=["n"]) for n in b["n"].to_pylist()
    ]
    assert numbers == list(range(20))
    assert fragments[2].head(2, columns=["n"]).to_pydict() == {"n": [10, 11]}
    assert fragments[1].take([4, 0], columns=["n"]).to_pydict() == {"n": [9, 5]}
    again = pickle.loads(pickle.dumps(fragments[2]))
    assert (again.count_rows(), repr(again)) == (10, repr(fragments[2]))
    with pytest.raises(InputError, match="under the schema of its dataset alone"):
        fragments[0].scanner(pa.schema([("n", pa.int8())]))


def test_segments_that_cannot_match_are_no_fragments(rows) -> None:
    assert len(list(rows.dataset().get_fragments())) == 3
    (fragment,) = rows.dataset().get_fragments(pc.field("n") > 12)
    found = fragment.to_table(columns=["n"], filter=pc.field("n") > 12)
    assert found["n"].to_pylist() == [*range(13, 20)]


ENGINES = {
    "pyarrow": lambda ds: ds.to_table(columns=["n"], filter=pc.field("n") > 12),
    "duckdb": lambda ds: duckdb.sql("select n from ds where n > 12").to_arrow_table(),
    "polars": lambda ds: (
        pl.scan_pyarrow_dataset(ds).filter(pl.col("n") > 12).select("n").collect().to_arrow()
    ),
    "datafusion": lambda ds: ds._source.scan.to_datafusion().filter("n > 12").to_arrow_table(),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_reads_a_segment_that_cannot_match(rows, monkeypatch, engine) -> None:
    read: set[int] = set()
    honest = view.read_piece

    def reading(disk: Any, piece: Any, *args: Any, **named: Any) -> Any:
        read.add(piece.part.segment.segment_seq)
        return honest(disk, piece, *args, **named)

    monkeypatch.setattr(view, "read_piece", reading)
    found = ENGINES[engine](rows.dataset())
    assert sorted(found["n"].to_pylist()) == [*range(13, 20)]
    assert read == {3}
    rows.dataset().to_table()
    assert read == {0, 1, 3}


def test_filters_of_a_dataset_add_up(rows) -> None:
    dataset = rows.dataset().filter(pc.field("n") > 5)
    narrow = dataset.filter(pc.field("level") == "low")
    assert narrow.to_table(columns=["n"])["n"].to_pylist() == [6, 7, 8, 9]
    assert narrow.count_rows() == 4
    assert narrow.count_rows(filter=pc.field("n") < 8) == 2
    assert dataset.head(2, columns=["n"])["n"].to_pylist() == [6, 7]
    assert sum(f.count_rows() for f in narrow.get_fragments()) == 4


def test_rows_are_taken_sorted_and_joined_as_pyarrow_does(rows) -> None:
    dataset, whole = rows.dataset(), pads.dataset(rows.to_table(), schema=rows.schema)
    assert dataset.take([19, 0, 7]).equals(whole.take(pa.array([19, 0, 7])))
    order = [("n", "descending")]
    assert dataset.sort_by(order).to_table().equals(whole.sort_by(order).to_table())
    other = pads.dataset(pa.table({"n": [3, 4], "more": ["a", "b"]}))
    columns = rows.dataset().filter(pc.field("n") < 5).to_table(columns=["n", "x"])
    assert columns.num_rows == 5
    plain = scan(rows.path, slot="logs", columns=["n", "x"]).dataset()
    joined = plain.join(other, "n", join_type="inner").to_table().sort_by("n")
    assert joined.to_pydict() == {"n": [3, 4], "x": [1.5, 2.0], "more": ["a", "b"]}
    assert plain.join(plain, "n", right_suffix="_r").count_rows() == 20
    near = plain.join_asof(other, on="n", by=[], tolerance=0).to_table()
    assert near["more"].to_pylist()[:5] == [None, None, None, "a", "b"]


def test_what_pyarrow_writes_from_a_dataset_is_the_slot(rows, tmp_path) -> None:
    flat = scan(rows.path, slot="logs", columns=["n", "text"]).dataset()
    pads.write_dataset(flat, tmp_path / "out", format="parquet")
    written = pads.dataset(tmp_path / "out").to_table()  # In whatever order its threads had them.
    assert written.sort_by("n").equals(flat.to_table().sort_by("n"))


@pytest.mark.parametrize("ours", [SlotDataset, SlotFragment])
def test_no_method_is_left_that_would_look_for_an_object_of_c(ours) -> None:
    (base,) = (kind for kind in ours.__mro__ if kind.__module__ == "pyarrow._dataset")
    inherited = {
        name
        for name in dir(base)
        if not hasattr(object, name) and inspect.getattr_static(ours, name) is vars(base).get(name)
    }
    assert inherited - {"__pyx_vtable__", "__setstate__"} == set()


def test_what_cannot_be_is_refused(rows) -> None:
    dataset = rows.dataset()
    with pytest.raises(InputError, match="no column 'zz'"):
        dataset.to_table(columns=["n", "zz"])
    for wrong in (pc.field("zz") > 1, pc.field("text") > 1):
        with pytest.raises((pa.ArrowInvalid, NotImplementedError)):
            dataset.scanner(filter=wrong)
    with pytest.raises(InputError, match="cannot be replaced"):
        dataset.replace_schema(pa.schema([]))
    with pytest.raises(InputError, match="no scanner options"):
        dataset._scanner_options({})
    with pytest.raises(TypeError, match="nope"):
        dataset.scanner(nope=1)


def test_a_dataset_is_pickled_and_used_again_and_again(rows) -> None:
    dataset = pickle.loads(pickle.dumps(rows.dataset().filter(pc.field("n") > 17)))
    for _ in range(2):
        assert dataset.to_table(columns=["n"])["n"].to_pylist() == [18, 19]
    assert repr(rows.dataset()) == f"SlotDataset({rows!r})"
    assert dataset.partition_expression.equals(pc.scalar(True))


def test_a_slot_without_a_segment_has_no_schema_to_make_a_table_of(write) -> None:
    store = write([{"metrics": pa.record_batch({"m": [1.0]})}])
    with pytest.raises(MissingError, match="no finalized segment"):
        _ = scan(store, slot="logs").dataset().schema


def test_errors_behind_an_engine_are_kept(shelf, tmp_path) -> None:
    rows = scan(shutil.copytree(shelf, tmp_path / "copy"), slot="logs")
    path = Path(rows.path, rows.segments[0].path)
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes(data)
    dataset = rows.dataset()
    with pytest.raises(DamageError, match=str(path)):
        dataset.to_table()
    with pytest.raises(Exception, match=r"\.qseg"):
        duckdb.sql("select sum(n) from dataset").fetchall()
    assert [type(error) for error in dataset.failures] == [type(dataset.failures[0])] * 2
    assert isinstance(dataset.failures[0], DamageError)


def test_duckdb_hands_down_columns_and_filters(rows, asked) -> None:
    dataset = rows.dataset()
    found = duckdb.sql("select text from dataset where n > 12 and level = 'high' order by n")
    expected = [text for text, n in zip(*_columns(rows, "text", "n"), strict=True) if n > 12]
    asked.clear()
    assert [text for (text,) in found.fetchall()] == expected
    assert "x" not in read(asked)
    assert "nested" not in read(asked)
    assert any(where is not None and "(n > 12)" in str(where) for _, where in asked)
    asked.clear()
    connection = duckdb.connect()
    connection.register("logs", dataset)
    for _ in range(2):
        assert connection.execute("select count(*) from logs").fetchall() == [(20,)]
        assert connection.execute(
            "select count(*), max(x) from logs where n between 3 and 7 "
            "and moment < timestamptz '2026-02-01 00:00:00+00'"
        ).fetchall() == [(5, 3.5)]
    assert read(asked) <= {"n", "x", "moment"}


def test_a_relation_of_duckdb_reads_what_it_needs_each_time_it_is_run(rows, asked) -> None:
    connection = duckdb.connect()
    relation = rows.to_duckdb(connection).filter("n >= 18").project("n, text")
    for _ in range(2):
        assert relation.fetchall() == [(18, None), (19, "t19")]
    assert read(asked) == {"n", "text"}
    named = rows.to_duckdb(connection, name="the logs")
    assert named.aggregate("count(*)").fetchall() == [(20,)]
    assert connection.sql('select min(n) from "the logs"').fetchall() == [(0,)]
    assert rows.to_duckdb().aggregate("sum(n)").fetchall() == [(190,)]


def test_a_scan_itself_is_read_whole_by_duckdb(rows, asked) -> None:
    for _ in range(2):
        assert duckdb.sql("select count(*) from rows where n > 12").fetchall() == [(7,)]
    assert asked == []


def test_polars_hands_down_columns_and_filters(rows, asked) -> None:
    frame = pl.scan_pyarrow_dataset(rows.dataset())
    query = frame.filter(pl.col("n") > 12).select("text")
    for _ in range(2):
        asked.clear()
        assert query.collect()["text"].to_list() == [
            None if n % 3 == 0 else f"t{n}" for n in range(13, 20)
        ]
        assert read(asked) <= {"n", "text"}
        assert all(where is not None for _, where in asked)
    assert frame.select(pl.len()).collect().item() == 20
    assert frame.filter(pl.col("text") == "t7").collect().height == 1


def test_datafusion_reads_segments_as_partitions_with_columns_and_filters(rows, asked) -> None:
    context = datafusion.SessionContext()
    context.register_dataset("logs", rows.dataset())
    for _ in range(2):
        asked.clear()
        found = context.sql("select text from logs where n > 12 order by n").to_arrow_table()
        assert found["text"].to_pylist() == [None if n % 3 == 0 else f"t{n}" for n in range(13, 20)]
        assert "x" not in read(asked)
        assert "everything" not in read(asked)
        assert all("(n > 12)" in str(where) for _, where in asked)
    count = context.sql("select count(*) as rows, sum(x) as x from logs where level = 'low'")
    assert count.to_arrow_table().to_pylist() == [{"rows": 10, "x": 22.5}]
    frame = rows.to_datafusion()
    for _ in range(2):
        assert frame.count() == 20
    named = rows.to_datafusion(context, name="A b")
    assert named.count() == 20
    assert context.sql('select max(n) as n from "A b"').to_arrow_table()["n"].to_pylist() == [19]
    plan = context.sql("select n from logs").execution_plan()
    assert plan.partition_count == 3


def _columns(rows: Scan, *names: str) -> list[list[Any]]:
    table = rows.to_table()
    return [table[name].to_pylist() for name in names]
