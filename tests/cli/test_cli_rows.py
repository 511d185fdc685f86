"""Values at the edges of what text and Parquet can hold: made exact, or refused with the column."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

import quiver
from quiver.export.text import csv_batch, csv_schema, json_rows

SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0, 1], pa.int8()),
    [pa.array([1, 2, 1 << 60, 4]), pa.array([b"a", b"\xff", b"c", None])],
    ["i", "b"],
    [0, 1],
)
DENSE = pa.UnionArray.from_dense(
    pa.array([5, 7, 5, 7], pa.int8()),
    pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([0, 1], pa.timestamp("s", "UTC")), pa.array([[1.5], None], pa.list_(pa.float32()))],
    ["t", "l"],
    [5, 7],
)
RUNS = pa.RunEndEncodedArray.from_arrays([2, 3, 4], ["a", "b", None])


def lists(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 3, 4], pa.int32()), values)


VALUES = [
    (SPARSE, [1, "/w==", str(1 << 60), None]),
    (DENSE, ["1970-01-01T00:00:00.000000000Z", [1.5], "1970-01-01T00:00:01.000000000Z", None]),
    (lists(SPARSE), [[1, "/w==", str(1 << 60)], [None]]),
    (
        lists(DENSE),
        [["1970-01-01T00:00:00.000000000Z", [1.5], "1970-01-01T00:00:01.000000000Z"], [None]],
    ),
    (
        pa.StructArray.from_arrays([SPARSE], ["u"]),
        [{"u": v} for v in (1, "/w==", str(1 << 60), None)],
    ),
    (lists(RUNS), [["a", "a", "b"], [None]]),
    (
        pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None], pa.string_view())),
        ["a", "a", None],
    ),
    (
        pa.RunEndEncodedArray.from_arrays([1, 3], pa.array([b"a", b""], pa.binary_view())),
        ["YQ==", "", ""],
    ),
    (
        pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", "b"]).dictionary_encode()),
        ["a", "a", "b"],
    ),
    (pa.array([b"x" * 16], pa.uuid()), ["eHh4eHh4eHh4eHh4eHh4eA=="]),
    (pa.array([1, None], pa.bool8()), [1, None]),
    (
        pa.array(np.array([1.1, 16_777_217, 1e-45, np.nan], np.float32)),
        [1.1, 16_777_216, 1e-45, "NaN"],
    ),
    (pa.array(np.array([1.1, 65_504], np.float16)), [1.099609375, 65_504]),
    (
        pa.array([-719_529 * 86_400, -62_200_000_000, 10**12], pa.timestamp("s")),
        ["-0001-12-31T00:00:00", "-0002-12-17T14:13:20", "+33658-09-27T01:46:40"],
    ),
    (pa.array([-719_528, -719_529, 2_932_896, 2_932_897], pa.date32()), None),
]


def expected(values: list) -> list:
    """Nine digits of the second, written here only where they are not all noughts."""
    return [f"{v}.000000000" if isinstance(v, str) and v[-9:-8] == "T" else v for v in values]


@pytest.mark.parametrize("array, values", VALUES, ids=lambda v: str(getattr(v, "type", "")))
def test_values_keep_to_the_rules_at_any_depth(array, values) -> None:
    if values is None:
        values = ["0000-01-01", "-0001-12-31", "9999-12-31", "+10000-01-01"]
    values = expected(values)
    batch = pa.record_batch({"v": array})
    assert [json.loads(row)["v"] for row in json_rows(batch)] == values
    assert [json.loads(row)["v"] for row in json_rows(batch.slice(1))] == values[1:]
    assert [json.loads(row)["v"] for row in json_rows(batch.slice(0, 1))] == values[:1]


@pytest.mark.parametrize("array", [v for v, _ in VALUES], ids=lambda v: str(v.type))
def test_csv_has_the_schema_that_it_announced_and_can_be_written(tmp_path, array) -> None:
    batch = pa.record_batch({"v": array, "n": range(len(array))})
    assert csv_batch(batch).schema == csv_schema(batch.schema)
    with pc.CSVWriter(tmp_path / "t.csv", csv_schema(batch.schema)) as writer:
        writer.write_batch(csv_batch(batch))
    rows = pc.read_csv(tmp_path / "t.csv", parse_options=pc.ParseOptions(newlines_in_values=True))
    assert rows.num_rows == batch.num_rows


def test_csv_of_a_union_is_json_text() -> None:
    column = csv_batch(pa.record_batch({"v": DENSE})).column(0)
    assert column.to_pylist() == [
        '"1970-01-01T00:00:00.000000000Z"',
        "[1.5]",
        '"1970-01-01T00:00:01.000000000Z"',
        None,
    ]


def test_floats_of_csv_are_as_the_page_says(tmp_path, run) -> None:
    values = pa.array([1.0, float("nan"), float("inf"), float("-inf"), None])
    single = pa.array(np.array([1.1] * 5, np.float32))
    store = put(tmp_path, pa.record_batch({"d": values, "f": single}))
    text = run("cat", store, "--slot", "x", "--format", "csv").out
    assert text == '"d","f"\n1,1.1\nnan,1.1\ninf,1.1\n-inf,1.1\n,1.1\n'


def put(folder, batch: pa.RecordBatch):
    with quiver.open(folder / "s", slots=["x"], worker=False) as store:
        store.append({"x": batch})
    return folder / "s"


PAIR = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])


@pytest.mark.parametrize(
    "array",
    [
        PAIR,
        pa.StructArray.from_arrays([PAIR], ["inner"]),
        pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), PAIR),
        pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["k"]), PAIR),
    ],
    ids=lambda v: str(v.type),
)
@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_structs_that_have_a_name_twice_are_refused_and_not_halved(
    run, tmp_path, array, kind
) -> None:
    store = put(tmp_path, pa.record_batch({"v": array, "n": [1]}))
    result = run("cat", store, "--slot", "x", "--format", kind)
    assert (result.code, result.out) == (2, "")
    assert "column 'v' has structs with 'a' twice: a JSON object cannot hold both" in result.err
    assert "hint: the arrow format keeps both" in result.err
    assert run("cat", store, "--slot", "x", "--format", kind, "--columns", "n").code == 0


def test_columns_that_have_a_name_twice_are_refused_in_json_and_kept_in_csv(run, tmp_path) -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    store = put(tmp_path, twice)
    result = run("cat", store, "--slot", "x", "--format", "ndjson")
    assert (result.code, result.out) == (2, "")
    assert "column 'a' is there twice: a JSON object cannot hold both" in result.err
    assert run("cat", store, "--slot", "x", "--format", "csv").out == '"a","a"\n1,2\n'


NOT_NULL = pa.RecordBatch.from_arrays(
    [pa.array([1, 2]), pa.array([1, None])],
    schema=pa.schema([("n", pa.int64()), pa.field("v", pa.int64(), nullable=False)]),
)


@pytest.mark.parametrize(
    "batch, reason",
    [
        (pa.record_batch({"n": [1], "v": pa.array([1 << 55], pa.timestamp("s"))}), "overflow"),
        (NOT_NULL, "non-nullable"),
        (pa.record_batch({"v": pa.nulls(1, pa.decimal128(5, -3)), "n": [1]}), "Scale"),
        (pa.record_batch({"n": [1, 2, 3, 4], "v": DENSE}), "dense_union"),
        (pa.record_batch({"n": [1, 2], "v": lists(RUNS)}), "run_end_encoded"),
        (pa.record_batch({"n": [1], "v": pa.array([[]], pa.list_(pa.int8(), 0))}), "size 0"),
    ],
    ids=["overflow", "not null", "decimal", "union", "runs", "lists of size 0"],
)
def test_parquet_names_the_column_that_it_cannot_hold(run, tmp_path, batch, reason) -> None:
    store = put(tmp_path, batch)
    result = run("cat", store, "--slot", "x", "--format", "parquet")
    assert result.code == 2
    assert "Traceback" not in result.err
    error, hint = result.err.splitlines()
    assert error.startswith("quiver: Parquet cannot hold column 'v': ")
    assert reason in error
    assert hint == "hint: --format arrow can; or leave the column out"
    command = ("cat", store, "--slot", "x", "--format", "parquet", "--columns", "n")
    assert run(*command).code == 0
