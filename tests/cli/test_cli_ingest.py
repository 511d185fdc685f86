"""``ingest``: every format comes back value for value, slots align, bad files leave no mess."""

from __future__ import annotations

import itertools
import json

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import quiver
from quiver.cli.align import regroup
from quiver.cli.sources import open_source

ROWS = 1_000
FORMATS = ["parquet", "arrow", "arrows", "csv", "ndjson"]


def table(rows: int = ROWS) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "score": pa.array([i / 7 for i in range(rows)]),
            "text": pa.array([None if i % 5 == 0 else f'row, "{i}"\n' for i in range(rows)]),
            "flag": pa.array([i % 3 == 0 for i in range(rows)]),
        }
    )


def save(data: pa.Table, path) -> str:
    kind = path.suffix[1:]
    if kind == "parquet":
        pq.write_table(data, path)
    elif kind == "arrow":
        with pa.ipc.new_file(path, data.schema) as writer:
            writer.write_table(data, max_chunksize=300)
    elif kind == "arrows":
        with pa.ipc.new_stream(path, data.schema) as writer:
            writer.write_table(data, max_chunksize=300)
    elif kind == "csv":
        pc.write_csv(data, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in data.to_pylist()))
    return str(path)


def bundles(folder) -> list[dict[str, pa.RecordBatch]]:
    with quiver.open(folder, worker=False) as store:
        found = []
        subscription = store.subscribe("test")
        while (handle := subscription.poll()) is not None:
            found.append(dict(handle))
            handle.ack()
    return found


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_comes_back_value_for_value(run, tmp_path, suffix) -> None:
    path = save(table(), tmp_path / f"t.{suffix}")
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}", "--batch-rows", 256, "--json")
    assert result.code == 0
    assert result.document["created"] is True
    assert (result.document["bundle_count"], result.document["row_count"]) == (4, ROWS)
    assert result.document["segment_count"] == 1
    found = quiver.scan(tmp_path / "s", slot="x").to_table()
    assert found.cast(table().schema).equals(table())
    assert [bundle["x"].num_rows for bundle in bundles(tmp_path / "s")] == [256, 256, 256, 232]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_format_is_known_without_its_suffix(tmp_path, suffix) -> None:
    path = save(table(10), tmp_path / f"t.{suffix}")
    names = {"arrow": "arrow file", "arrows": "arrow stream"}
    bare = tmp_path / "bare"
    bare.write_bytes((tmp_path / f"t.{suffix}").read_bytes())
    assert open_source("x", path, ()).format_name == names.get(suffix, suffix)
    assert open_source("x", str(bare), ()).format_name == names.get(suffix, suffix)


def test_slots_come_in_the_order_given_and_side_by_side(run, tmp_path) -> None:
    long = save(pa.table({"n": range(5)}), tmp_path / "long.parquet")
    short = save(pa.table({"m": range(3)}), tmp_path / "short.parquet")
    result = run(
        "ingest", tmp_path / "s", "--slot", f"b={long}", "--slot", f"a={short}", "--batch-rows", 2
    )
    assert result.code == 0
    assert "b      5 rows from" in result.out
    assert "store  3 bundles, wal_seq 0 to 2, 1 segment in" in result.out
    with quiver.open(tmp_path / "s", worker=False) as store:
        assert [slot.name for slot in store.slots] == ["b", "a"]
    found = bundles(tmp_path / "s")
    assert [{slot: batch.num_rows for slot, batch in b.items()} for b in found] == [
        {"b": 2, "a": 2},
        {"b": 2, "a": 1},
        {"b": 1},
    ]


def keyed(*keys, kind=None) -> pa.Table:
    return pa.table({"k": pa.array(keys, kind), "place": range(len(keys))})


@pytest.mark.parametrize(
    "left, right",
    [
        (keyed(3, 1, 1, 2), keyed(3, 5, 1, 3)),
        (keyed(3, 1, 1, 2, kind=pa.int8()), keyed(3, 5, 1, 3, kind=pa.uint32())),
        (keyed(3.5, 1.0, 1.0, 2.0), keyed(3.5, 5.0, 1.0, 3.5)),
        (keyed("c", "a", "a", "b"), keyed("c", "é", "a", "c")),
        (
            pa.table({"k": pa.array(["c", "a", "a", "b"]).dictionary_encode(), "place": range(4)}),
            keyed("c", "z", "a", "c", kind=pa.large_string()),
        ),
        (keyed(b"c", b"a", b"a", b"b"), keyed(b"c", b"z", b"a", b"c")),
        (
            keyed(3, 1, 1, 2, kind=pa.timestamp("ns", tz="UTC")),
            keyed(3, 5, 1, 3, kind=pa.timestamp("ns", tz="UTC")),
        ),
        (keyed(3, 1, 1, 2, kind=pa.date32()), keyed(3, 5, 1, 3, kind=pa.date32())),
        (keyed(True, False, False, True), keyed(True, True, False, False)),
    ],
    ids=["int", "widths", "float", "text", "dictionary", "bytes", "time", "date", "bool"],
)
def test_by_aligns_the_rows_of_each_value_in_ascending_order(run, tmp_path, left, right) -> None:
    paths = [save(left, tmp_path / "l.arrow"), save(right, tmp_path / "r.arrow")]
    slots = itertools.chain(*(("--slot", f"{n}={p}") for n, p in zip("lr", paths, strict=True)))
    assert run("ingest", tmp_path / "s", *slots, "--by", "k").code == 0
    found = bundles(tmp_path / "s")
    expected = []
    by_slot = {"l": left, "r": right}
    keys = {slot: raw(data["k"]) for slot, data in by_slot.items()}
    for key in sorted(set(itertools.chain(*keys.values()))):
        places = {
            slot: [i for i, other in enumerate(column) if other == key]
            for slot, column in keys.items()
        }
        expected.append({slot: rows for slot, rows in places.items() if rows})
    assert [{slot: b["place"].to_pylist() for slot, b in bundle.items()} for bundle in found] == (
        expected
    )
    for bundle in found:
        for slot, batch in bundle.items():
            assert batch.schema.equals(by_slot[slot].schema)


def raw(column: pa.ChunkedArray) -> list:
    """Values of a key column that compare in Python as they do in Arrow."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    return column.to_pylist()


def test_a_second_ingest_goes_on_where_the_first_ended(run, tmp_path) -> None:
    first = save(pa.table({"n": [1]}), tmp_path / "a.parquet")
    second = save(pa.table({"m": [2.5]}), tmp_path / "b.parquet")
    run("ingest", tmp_path / "s", "--slot", f"a={first}", "--slot", f"b={second}")
    fields = run("ingest", tmp_path / "s", "--slot", f"b={second}", "--json").document
    assert (fields["created"], fields["wal_seq_first"], fields["wal_seq_last"]) == (False, 1, 1)
    assert quiver.scan(tmp_path / "s", slot="b").count_rows() == 2


def test_a_file_of_no_rows_appends_nothing(run, tmp_path) -> None:
    path = save(table(0), tmp_path / "t.parquet")
    fields = run("ingest", tmp_path / "s", "--slot", f"x={path}", "--json").document
    assert (fields["bundle_count"], fields["wal_seq_first"]) == (0, None)


def test_lines_of_json_may_widen_a_type_and_add_fields_on_the_way(
    run, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("quiver.cli.sources._BLOCK", 64)
    path = tmp_path / "t.ndjson"
    path.write_text('{"n":1}\n' * 20 + "\n" + '{"n":1.5,"late":"x"}\n' * 20 + '{"n":2}')
    assert run("ingest", tmp_path / "s", "--slot", f"x={path}").code == 0
    found = quiver.scan(tmp_path / "s", slot="x").to_table()
    assert found["n"].to_pylist() == [1.0] * 20 + [1.5] * 20 + [2.0]
    assert found["late"].to_pylist() == [None] * 20 + ["x"] * 20 + [None]
    path.write_text('{"n":1}\n' * 8 + '{"n":"x"}\n' * 8)
    refused = run("ingest", tmp_path / "t", "--slot", f"x={path}")
    assert refused.code == 2
    assert f"{path}: " in refused.err
    assert "'n'" in refused.err


def test_csv_keeps_empty_text_apart_from_null_and_takes_more_words_for_null(run, tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('s,n\n"",1\n,NA\nNA,3\n')
    run("ingest", tmp_path / "s", "--slot", f"x={path}")
    found = quiver.scan(tmp_path / "s", slot="x").to_table()
    assert found.to_pydict() == {"s": ["", None, "NA"], "n": ["1", "NA", "3"]}
    run("ingest", tmp_path / "t", "--slot", f"x={path}", "--null", "", "--null", "NA")
    found = quiver.scan(tmp_path / "t", slot="x").to_table()
    assert found.to_pydict() == {"s": ["", None, None], "n": [1, None, 3]}


def test_tabs_part_the_columns_of_a_tsv_file(run, tmp_path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\n1\tx,y\n")
    run("ingest", tmp_path / "s", "--slot", f"x={path}")
    assert quiver.scan(tmp_path / "s", slot="x").to_table().to_pydict() == {"a": [1], "b": ["x,y"]}


@pytest.fixture
def files(tmp_path):
    """One file of each kind of trouble."""
    save(keyed(1, 2), tmp_path / "good.parquet")
    save(keyed(1, None), tmp_path / "nulls.parquet")
    save(keyed(1.5, float("nan")), tmp_path / "nan.parquet")
    save(keyed("a", "b"), tmp_path / "text.parquet")
    save(pa.table({"k": [[1]]}), tmp_path / "nested.parquet")
    save(pa.table({"other": [1]}), tmp_path / "other.parquet")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "blank.ndjson").write_bytes(b"\n\n")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:100])
    (tmp_path / "cut.arrow").write_bytes(b"ARROW1\0\0" + bytes(100))
    (tmp_path / "cut.arrows").write_bytes(b"\xff\xff\xff\xff" + b"\1" * 100)
    (tmp_path / "bad.ndjson").write_text('{"a": 1}\n{"a": \n')
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "binary").write_bytes(b"\1\0\2")
    return tmp_path


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--slot", "x=empty"], "empty is empty"),
        (["--slot", "x=gone"], "cannot read gone: No such file"),
        (["--slot", "x=."], "cannot read .: Is a directory"),
        (["--slot", "x=cut.parquet"], "cut.parquet cannot be read as parquet"),
        (["--slot", "x=cut.arrow"], "cut.arrow cannot be read as arrow file"),
        (["--slot", "x=cut.arrows"], "cut.arrows cannot be read as arrow stream"),
        (["--slot", "x=bad.ndjson"], "bad.ndjson: in the lines from byte 0 on"),
        (["--slot", "x=bad.csv"], "bad.csv cannot be read as csv"),
        (["--slot", "x=binary"], "binary is of no format that can be ingested"),
        (["--slot", "x"], "--slot 'x' is not NAME=FILE"),
        (["--slot", "=good.parquet"], "is not NAME=FILE"),
        (["--slot", "x="], "is not NAME=FILE"),
        (["--slot", "x=good.parquet", "--slot", "x=good.parquet"], "'x' is given twice"),
        (["--slot", "a/b=good.parquet"], "slot name 'a/b' is not allowed"),
        (["--slot", "x=good.parquet", "--by", "zz"], "good.parquet has no column 'zz'"),
        (
            ["--slot", "x=good.parquet", "--slot", "y=other.parquet", "--by", "k"],
            "other.parquet has no column 'k'",
        ),
        (["--slot", "x=nulls.parquet", "--by", "k"], "nulls.parquet: 1 row without a value in 'k'"),
        (["--slot", "x=nan.parquet", "--by", "k"], "nan.parquet: 1 row without a value in 'k'"),
        (["--slot", "x=nested.parquet", "--by", "k"], "nested.parquet: 'k' is list"),
        (["--slot", "x=blank.ndjson", "--by", "k"], "blank.ndjson holds no rows"),
        (
            ["--slot", "x=good.parquet", "--slot", "y=text.parquet", "--by", "k"],
            "no common type (good.parquet: int64, text.parquet: string)",
        ),
        (["--slot", "x=good.parquet", "--batch-rows", "0"], "--batch-rows"),
    ],
)
def test_bad_input_is_exit_code_2_and_makes_no_store(
    run, files, monkeypatch, arguments, message
) -> None:
    monkeypatch.chdir(files)
    result = run("ingest", "store", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert not (files / "store").exists()


def test_an_unknown_slot_of_a_store_names_the_known_ones(run, files, store) -> None:
    result = run("ingest", store, "--slot", f"x={files}/good.parquet")
    assert (result.code, result.out) == (2, "")
    assert "its slots are: logs, traces" in result.err


def test_a_folder_that_is_not_empty_is_left_alone(run, files) -> None:
    result = run("ingest", files, "--slot", f"x={files}/good.parquet")
    assert result.code == 2
    assert "not empty" in result.err
    assert not (files / "quiver.json").exists()


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_what_was_appended_before_a_file_broke_is_told_and_stays(
    run, tmp_path, monkeypatch, suffix
) -> None:
    monkeypatch.setattr("quiver.cli.sources._BLOCK", 1 << 10)
    path = tmp_path / f"t.{suffix}"
    good, bad = {"ndjson": ('{"a":1}\n', '{"a":\n'), "csv": ("1\n", "x\n")}[suffix]
    path.write_text(("a\n" if suffix == "csv" else "") + good * 2_000 + bad)
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}", "--batch-rows", 100)
    assert (result.code, result.out) == (2, "")
    told, error, *_ = result.err.splitlines()
    assert str(path) in error
    kept = quiver.scan(tmp_path / "s", slot="x").count_rows()
    assert kept >= 1_000
    assert f"appended {kept // 100} bundles, wal_seq 0 to {kept // 100 - 1}" in told


def test_an_interrupt_tells_what_was_appended(run, tmp_path, monkeypatch) -> None:
    path = save(pa.table({"n": range(10)}), tmp_path / "t.parquet")

    def broken(*_):
        yield {"x": pa.table({"n": [1]})}
        raise KeyboardInterrupt

    monkeypatch.setattr("quiver.cli.align.align_by_position", broken)
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}", "--quiet")
    assert result.code == 130
    assert "appended 1 bundle, wal_seq 0 to 0; those stay in the store" in result.err
    assert quiver.scan(tmp_path / "s", slot="x").count_rows() == 1


def test_damage_met_while_opening_is_told(run, files, store, kit) -> None:
    kit.flip(store / "core_0/acks/ack.log", 80)
    result = run("ingest", store, "--slot", f"logs={files}/good.parquet")
    assert result.code == 0
    assert "set aside while opening: the frame fails its checksum" in result.err


def test_batches_are_cut_and_joined_to_the_size_wanted() -> None:
    numbers = pa.record_batch({"n": range(8)})
    batches = [numbers.slice(0, 3), numbers.slice(3, 0), numbers.slice(3)]
    other = pa.record_batch({"n": [8.5]})
    tables = list(regroup([*batches, other], 4))
    assert [t["n"].to_pylist() for t in tables] == [[0, 1, 2, 3], [4, 5, 6, 7], [8.5]]
    tables = list(regroup([*batches, other], 5))
    assert [t["n"].to_pylist() for t in tables] == [[0, 1, 2, 3, 4], [5, 6, 7], [8.5]]
    assert list(regroup([], 5)) == []
