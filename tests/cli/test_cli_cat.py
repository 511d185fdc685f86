"""``cat``: every format comes back value for value, and text formats are exact."""

from __future__ import annotations

import decimal
import io
import json
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import quiver
from quiver.export.text import csv_batch, json_rows

NS = 1_700_000_000_123_456_789
BIG = 1 << 60


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop") / "s"
    with quiver.open(folder, slots=["sales", "empty"], worker=False) as store:
        for first in (0, 3, 6):
            ids = range(first, first + 3)
            store.append({"sales": pa.table({"id": ids, "name": [f"é{i}" for i in ids]})})
    return folder


@pytest.fixture
def cat(run, shop):
    """Give what it writes in this process, in bytes."""

    def cat(*arguments: str) -> bytes:
        found = run("cat", shop, "--slot", "sales", *arguments)
        assert (found.code, found.err) == (0, "")
        return found.raw

    return cat


def read(kind: str, data: bytes) -> pa.Table:
    if kind == "arrow":
        return pa.ipc.open_stream(data).read_all()
    if kind == "parquet":
        return pq.read_table(io.BytesIO(data))
    if kind == "csv":
        return pc.read_csv(io.BytesIO(data))
    return pa.Table.from_pylist([json.loads(line) for line in data.decode().splitlines()])


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "ndjson"])
def test_each_format_gives_the_rows_of_the_slot(cat, shop, kind) -> None:
    whole = quiver.scan(shop, slot="sales").to_table()
    found = read(kind, cat("--format", kind, "--columns", "name, id", "--limit", "4"))
    assert found.column_names == ["name", "id"]
    assert found.to_pylist() == whole.select(["name", "id"]).slice(0, 4).to_pylist()
    assert read(kind, cat("--format", kind)).to_pylist() == whole.to_pylist()


def test_without_a_terminal_the_default_is_an_arrow_stream(cat, shop) -> None:
    assert read("arrow", cat()).num_rows == 9
    command = [sys.executable, "-m", "quiver", "cat", str(shop), "--slot", "sales"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, cat(), b"")


@pytest.mark.parametrize("limit, rows", [(0, 0), (1, 1), (3, 3), (5, 5), (100, 9)])
def test_limit_cuts_anywhere(cat, limit, rows) -> None:
    assert len(cat("--format", "ndjson", "--limit", str(limit)).splitlines()) == rows
    assert read("arrow", cat("--limit", str(limit))).num_rows == rows


def test_what_cat_writes_ingest_reads(run, cat, shop, tmp_path) -> None:
    for kind in ("arrow", "parquet", "csv", "ndjson"):
        path = tmp_path / f"rows.{kind}"
        path.write_bytes(cat("--format", kind))
        assert run("ingest", tmp_path / kind, "--slot", f"sales={path}").code == 0
        found = quiver.scan(tmp_path / kind, slot="sales").to_table()
        assert found.to_pylist() == quiver.scan(shop, slot="sales").to_table().to_pylist()


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--slot", "nope"], 2, "its slots are: sales, empty"),
        (["--slot", "sales", "--columns", "id,zz"], 2, "no column 'zz'"),
        (["--slot", "sales", "--columns", "id,id"], 2, "named twice"),
        (["--slot", "empty"], 3, "no finalized segment"),
        (["--slot", "sales", "--format", "xml"], 2, "'xml' is not one of"),
        (["--slot", "sales", "--limit", "-1"], 2, "--limit"),
    ],
)
def test_what_cannot_be_read_is_said(run, shop, arguments, code, message) -> None:
    result = run("cat", shop, *arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_damaged_segment_is_exit_code_9_and_names_file_and_offset(run, store, kit) -> None:
    path = store / "core_0/segments/0000000000000000.qseg"
    kit.flip(path, 200)
    result = run("cat", store, "--slot", "logs", "--format", "ndjson")
    assert result.code == 9
    assert f"in {path} at byte 0" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "ndjson"])
def test_a_reader_who_hangs_up_ends_it_quietly(tmp_path, kind) -> None:
    folder = tmp_path / "s"
    with quiver.open(folder, slots=["x"], worker=False) as store:
        # Random enough that Parquet cannot fold it into what a pipe holds.
        values = [(i * 2_654_435_761) % (1 << 40) for i in range(200_000)]
        store.append({"x": pa.table({"n": values})})
    command = [sys.executable, "-m", "quiver", "cat", str(folder), "--slot", "x", "--format", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() in (0, -signal.SIGPIPE)


VALUES = [
    (pa.array([1, None, BIG, -BIG], pa.int64()), [1, None, str(BIG), str(-BIG)], None),
    (pa.array([(1 << 64) - 1], pa.uint64()), [str((1 << 64) - 1)], [(1 << 64) - 1]),
    (
        pa.array([1.5, float("nan"), float("inf"), float("-inf"), None]),
        [1.5, "NaN", "Infinity", "-Infinity", None],
        None,
    ),
    (pa.array([1.5, None], pa.float16()), [1.5, None], None),
    (pa.array([True, None]), [True, None], None),
    (pa.array(["é\x85", "", None]), ["é\x85", "", None], None),
    (pa.array(["a", None], pa.string_view()), ["a", None], ["a", None]),
    (pa.array([b"\x00\xff", b"", None]), ["AP8=", "", None], ["AP8=", "", None]),
    (
        pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-3E-2")], pa.decimal128(20, 2)),
        ["1.20", None, "-0.03"],
        ["1.20", None, "-0.03"],
    ),
    (
        pa.array([NS, -1, None], pa.timestamp("ns", tz="Europe/Paris")),
        ["2023-11-14T22:13:20.123456789Z", "1969-12-31T23:59:59.999999999Z", None],
        ["2023-11-14T22:13:20.123456789Z", "1969-12-31T23:59:59.999999999Z", None],
    ),
    (pa.array([5, None], pa.timestamp("ms")), ["1970-01-01T00:00:00.005000000", None], None),
    (pa.array([0], pa.timestamp("s", tz="UTC")), ["1970-01-01T00:00:00.000000000Z"], None),
    (pa.array([0, None], pa.date32()), ["1970-01-01", None], ["1970-01-01", None]),
    (pa.array([86_400_000], pa.date64()), ["1970-01-02"], ["1970-01-02"]),
    (pa.array([1, None], pa.time32("s")), ["00:00:01.000000000", None], None),
    (pa.array([1], pa.time64("ns")), ["00:00:00.000000001"], ["00:00:00.000000001"]),
    (pa.array([2, None, BIG], pa.duration("us")), [2000, None, str(BIG * 1000)], None),
    (
        pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
        [{"months": 1, "days": 2, "nanoseconds": 3}, None],
        ['{"months":1,"days":2,"nanoseconds":3}', None],
    ),
    (pa.array(["x", None]).dictionary_encode(), ["x", None], ["x", None]),
    (
        pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]),
        ["a", "a", "b"],
        ["a", "a", "b"],
    ),
    (
        pa.array([[1, BIG], None, []], pa.list_(pa.int64())),
        [[1, str(BIG)], None, []],
        [f'[1,"{BIG}"]', None, "[]"],
    ),
    (pa.array([["a"], None, []], pa.large_list(pa.string())), [["a"], None, []], None),
    (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), [[1, 2], None, [3, 4]], None),
    (pa.array([["a"], None, []], pa.list_view(pa.string())), [["a"], None, []], None),
    (
        pa.array(
            [{"a": 1, "t": 0}, None, {"a": None, "t": 2}],
            pa.struct([("a", pa.int8()), ("t", pa.timestamp("us"))]),
        ),
        [
            {"a": 1, "t": "1970-01-01T00:00:00.000000000"},
            None,
            {"a": None, "t": "1970-01-01T00:00:00.000002000"},
        ],
        None,
    ),
    (
        pa.array([[("k", 1), ("k", 2)], None, []], pa.map_(pa.string(), pa.int64())),
        [[{"key": "k", "value": 1}, {"key": "k", "value": 2}], None, []],
        ['[{"key":"k","value":1},{"key":"k","value":2}]', None, "[]"],
    ),
    (pa.nulls(2), [None, None], [None, None]),
]


@pytest.mark.parametrize("array, values, texts", VALUES, ids=lambda v: str(getattr(v, "type", "")))
def test_values_of_every_type_become_exact_json_and_csv(array, values, texts) -> None:
    batch = pa.record_batch({"v": array})
    assert [json.loads(row)["v"] for row in json_rows(batch)] == values
    tail = batch.slice(1)
    assert [json.loads(row)["v"] for row in json_rows(tail)] == values[1:]
    if texts is not None:
        assert csv_batch(batch).column(0).to_pylist() == texts


def test_control_characters_of_values_never_reach_a_terminal() -> None:
    (row,) = json_rows(pa.record_batch({"v": ["\x1b[31m\x9b\x7f\n"]}))
    assert row == '{"v":"\\u001b[31m\\u009b\\u007f\\n"}'


def test_csv_quotes_empty_text_and_leaves_null_empty(tmp_path, run) -> None:
    with quiver.open(tmp_path / "s", slots=["x"], worker=False) as store:
        store.append({"x": pa.table({"a": ["", None, 'q"'], "b": [1, None, 3]})})
    text = run("cat", tmp_path / "s", "--slot", "x", "--format", "csv").out
    assert text == '"a","b"\n"",1\n,\n"q""",3\n'


def test_parquet_says_what_it_cannot_hold(tmp_path, run) -> None:
    with quiver.open(tmp_path / "s", slots=["x"], worker=False) as store:
        store.append({"x": pa.table({"v": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})})
    result = run("cat", tmp_path / "s", "--slot", "x", "--format", "parquet")
    assert (result.code, result.out) == (2, "")
    assert "Parquet cannot hold column 'v'" in result.err


def test_a_range_of_time_begins_with_since_and_ends_before_until(run, tmp_path) -> None:
    config = {"segment": {"time": "caller"}}
    with quiver.open(tmp_path / "s", slots=["a"], worker=False, config=config) as store:
        for day in range(1, 6):
            store.append({"a": pa.table({"day": [day]})}, time=f"2026-01-0{day}")

    def days(*arguments: str) -> list[int]:
        found = run("cat", tmp_path / "s", "--slot", "a", "--format", "ndjson", *arguments)
        assert found.code == 0
        return [json.loads(line)["day"] for line in found.raw.splitlines()]

    assert days("--since", "2026-01-02", "--until", "2026-01-04") == [2, 3]
    assert days("--since", "2026-01-04T00:00Z") == [4, 5]
    assert days("--until", "1767312000000000000") == [1]
    found = run("cat", tmp_path / "s", "--slot", "a", "--since", "soon")
    assert found.code != 0
    assert "soon" in found.err
