"""The comparison of the streaming demo finds each kind of difference."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quiver
from bench.demo_stream.compare import committed, compare, deleted_early
from bench.demo_stream.processes import Actor, descendants, python
from bench.demo_stream.writer import SCHEMA, SLOTS, expected

BUNDLES = {0: 9, 1: 3}


@pytest.fixture
def sink(tmp_path):
    """Write tables as batches of a file sink."""

    def write(*tables: pa.Table) -> str:
        (tmp_path / "sink" / "_spark_metadata").mkdir(parents=True)
        for number, table in enumerate(tables):
            path = tmp_path / "sink" / f"part {number}.parquet"
            pq.write_table(table, path)
            line = json.dumps({"path": path.as_uri()})
            (tmp_path / "sink" / "_spark_metadata" / str(number)).write_text(f"v1\n{line}")
        (tmp_path / "sink" / "torn.parquet").touch()
        return str(tmp_path / "sink")

    return write


def test_the_same_rows_in_any_order_are_the_same(sink) -> None:
    outcome = compare(sink(expected(1, 3), expected(0, 9)), BUNDLES)
    assert outcome.is_exact
    assert outcome.rows_in == outcome.rows_out == (9 - 2 + 3 - 1) * 50


def test_a_row_that_is_lost_or_twice_or_differs_is_found(sink, tmp_path) -> None:
    whole = expected(0, 9)
    wrong = [*whole.column("value").to_pylist()[:-1], -1.0]
    changed = whole.set_column(3, "value", pa.array(wrong))
    other = [None, *whole.column("text").to_pylist()[1:]]
    nulled = whole.set_column(2, "text", pa.array(other, pa.string()))
    for number, (table, found) in enumerate(
        [
            (whole.slice(1), (1, 0, 0)),
            (pa.concat_tables([whole, whole.slice(5, 2)]), (0, 2, 0)),
            (changed, (0, 0, 1)),
            (nulled, (0, 0, 1)),
        ]
    ):
        place = sink(table, expected(1, 3))
        outcome = compare(place, BUNDLES)
        assert (outcome.lost, outcome.twice, outcome.differ) == found, number
        assert not outcome.is_exact
        (tmp_path / "sink").rename(tmp_path / f"done {number}")
    stranger = pa.table({"core": [7], "n": [1], "text": [""], "value": [0.0]}).cast(SCHEMA)
    assert compare(sink(whole, expected(1, 3), stranger), BUNDLES).problems


def test_a_segment_that_goes_before_its_commit_is_found(tmp_path) -> None:
    path, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    with quiver.open(path, slots=SLOTS, core=0, worker=False) as store:
        for number in range(4):
            store.append({"events": pa.record_batch({"n": [number]})})
            store.finalize()
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    offset = {"splits": {"core_0": {"segment_seq": 1, "bundle_index": 0}}}
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n" + json.dumps(offset))
    assert committed(str(checkpoint)) == {0: 1}
    folder = path / "core_0" / "segments"
    (folder / f"{0:016}.qseg").unlink()
    assert deleted_early(str(path), str(checkpoint), cores=2) == []
    (folder / f"{1:016}.qseg").unlink()
    (found,) = deleted_early(str(path), str(checkpoint), cores=2)
    assert "segment 1 of core 0" in found


def test_a_writer_goes_on_where_a_kill_left_it(tmp_path) -> None:
    store = str(tmp_path / "store")
    with quiver.open(store, slots=SLOTS, core=0):
        pass
    writer = Actor("w", python("bench.demo_stream.writer", store, "0"), log=str(tmp_path / "log"))
    for _ in range(2):
        writer.start()
        assert writer.await_that(lambda: writer.has_said("durable"), 60), writer.lines
        assert writer.pid in descendants(0) or writer.is_alive
        writer.kill()
        assert not writer.is_alive
    with quiver.open(store, core=0) as opened:
        said = [line for line in writer.lines if line.startswith("durable")]
        assert opened.info().next_wal_seq > int(said[-1].split()[1]) >= 1
