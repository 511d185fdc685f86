"""What reading with Spark tells: what it plans to read, and what was lost before it could."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark_queue_kit import Depot, source
from store_kit import writer
from upsert_frames import Query
from view_kit import Board
from view_kit import source as view
from view_kit import stream as changes

from quiver.errors import DamagedEntry
from quiver.ship.objects import FolderBucket
from quiver.spark import QuiverDataSource
from quiver.spark.upsert.preparing import Reading
from quiver.upsert.rows import Definition, Plan
from quiver.upsert.tending import Tender


def _events(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "quiver.spark"]


def test_a_plan_is_told_and_so_is_each_segment_that_is_lost(tmp_path, caplog) -> None:
    caplog.set_level("INFO", "quiver.spark")
    bundle = {"logs": pa.record_batch({"n": [1]})}
    store = writer(tmp_path / "store")([bundle], [bundle])
    source = QuiverDataSource({"path": store, "slot": "logs", "failOnDataLoss": "false"})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert _events(caplog) == ["spark.planned"]
    planned = caplog.records[-1]
    assert (planned.partition_count, planned.segment_count, planned.row_count) == (1, 2, 2)
    Path(store, "core_0", "segments", f"{0:016}.qseg").unlink()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 1
    assert _events(caplog) == ["spark.planned", "spark.segment_lost"]
    assert (caplog.records[-1].core, caplog.records[-1].segment_seq) == (0, 0)


def test_rows_that_went_before_they_were_read_are_told_one_time(heard, tmp_path) -> None:
    numbers = [[{"logs": pa.record_batch({"n": [n]})}] for n in range(3)]
    store = writer(tmp_path / "store")(*numbers)
    source = QuiverDataSource({"path": store, "slot": "logs", "failOnDataLoss": "false"})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    (tmp_path / "store" / "core_0" / "segments" / f"{1:016}.qseg").unlink()
    for _ in range(2):
        reader.latestOffset(start, ReadAllAvailable())
    (fields,) = heard.of("spark.rows_lost")
    assert fields["split"] == "core_0"
    assert fields["error"].startswith("segment 1 of core 0 is gone")


def test_what_is_planned_of_a_queue_is_told_and_so_is_each_batch_that_is_lost(
    tmp_path, heard
) -> None:
    depot = Depot(FolderBucket(str(tmp_path / "queue")))
    depot.logs(1)
    key = depot.logs(2)
    made = source(f"file://{tmp_path}/queue", slot="logs", failOnDataLoss="false")
    reader = made.reader(made.schema())
    (partition, *rest) = reader.partitions()
    assert not rest
    (planned,) = heard.of("spark.queue_planned")
    assert (planned["partition_count"], planned["batch_count"]) == (1, 2)
    depot.bucket.delete([key])
    assert sum(batch.num_rows for batch in reader.read(partition)) == 1
    (lost,) = heard.of("spark.batch_lost")
    assert (lost["sequence"], lost["location"]) == (1, key)


def test_what_is_planned_of_a_collection_is_told_and_so_is_what_it_forgot(tmp_path, heard) -> None:
    board = Board(FolderBucket(str(tmp_path)))
    board.put({1: ("a", 1)})
    made = view(str(tmp_path))
    assert made.reader(made.schema()).partitions()
    (planned,) = heard.of("spark.view_planned")
    assert (planned["partition_count"], planned["bucket_count"]) == (1, 1)
    reader = changes(str(tmp_path), fromEpoch="1", failOnDataLoss="false")
    start = reader.initialOffset()
    board.put({2: ("b", 2)})
    board.forget(2)
    for _ in range(2):
        reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    (lost,) = heard.of("spark.changes_lost")
    assert lost["split"] == str(tmp_path)
    assert "has forgotten epoch 1" in lost["error"]


def test_what_becomes_of_micro_batches_that_are_upserted_is_told(tmp_path, heard) -> None:
    types = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.int64())])
    reading = Reading(types, Plan(("k",), ("v",), ("at",)))
    definition = Definition(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]), 2)
    query = Query(str(tmp_path), definition, reading)
    for _ in range(2):
        query.put([{"k": 1, "v": 2, "at": 3}, {"k": 4, "v": 5, "at": 6}], commits=False)
    again = Query(str(tmp_path), definition, reading, name="again")
    again.put([{"k": 1, "v": 7, "at": 8}])
    first, second = heard.of("spark.batch_upserted")
    assert [told.pop("way") for told in (first, second)] == ["rows", "rows"]
    assert first == {"query": "query", "batch": 0, "epoch": 1, "command_count": 2, "row_count": 2}
    assert second == {"query": "again", "batch": 0, "epoch": 2, "command_count": 1, "row_count": 2}
    assert heard.of("spark.batch_repeated") == [{"query": "query", "batch": 0}]
    assert heard.of("spark.batches_again") == [{"query": "again", "replaces": "query"}]


def test_tending_that_fails_is_told_behind_the_batch(heard, tmp_path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise DamagedEntry("a file is damaged")

    monkeypatch.setattr(Tender, "fold", refuse)
    types = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.int64())])
    definition = Definition(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]), 2)
    query = Query(str(tmp_path), definition, Reading(types, Plan(("k",), ("v",), ("at",))))
    query.put([{"k": 1, "v": 2, "at": 3}])
    assert heard.of("spark.tending_failed") == [{"error": str(DamagedEntry("a file is damaged"))}]
    assert query.snapshot().upper == 2
