"""``readStream``: every row once, whatever comes, goes and is started again meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import quiver
from quiver.checkpoint import CheckpointFolder

pytestmark = pytest.mark.spark


def log(*numbers: int, **more: Any) -> dict[str, pa.RecordBatch]:
    columns = {name: [value] * len(numbers) for name, value in more.items()}
    return {"logs": pa.record_batch({"n": list(numbers), **columns})}


class Query:
    """A query that writes what it reads into Parquet, started anew with each run."""

    def __init__(self, spark: SparkSession, folder: Path, store: str, **options: str) -> None:
        self.spark, self.store = spark, store
        self.out, self.checkpoint = folder / "out", folder / "ck"
        self.options = {"slot": "logs"} | options

    def start(self, **trigger: Any) -> Any:
        reader = self.spark.readStream.format("quiver").options(**self.options)
        frame = reader.load(self.store)
        places = {"path": str(self.out), "checkpointLocation": str(self.checkpoint)}
        writer = frame.writeStream.format("parquet").options(**places)
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, **trigger: Any) -> list[int]:
        """Run to the end of what is there; give the numbers of rows of its batches."""
        query = self.start(**trigger)
        query.awaitTermination()
        self.progress = query.recentProgress
        return [one.numInputRows for one in self.progress if one.numInputRows]

    def subscribed(self, name: str = "spark") -> Query:
        self.options |= {
            "subscriber": name,
            "checkpointLocation": str(self.checkpoint),
            "sink": str(self.out),
        }
        return self

    def tables(self) -> Iterator[pa.Table]:
        """Give what the sink holds, as Spark reads it: only files that its log names."""
        for path in (self.out / "_spark_metadata").glob("[0-9]*"):
            for line in path.read_text().splitlines()[1:]:
                yield pq.read_table(json.loads(line)["path"].removeprefix("file://"))

    def rows(self) -> list[int]:
        return sorted(n for table in self.tables() for n in table.column("n").to_pylist())

    def names(self) -> set[tuple[str, ...]]:
        return {tuple(table.schema.names) for table in self.tables()}


@pytest.fixture
def query(spark, write, tmp_path) -> Any:
    store = write([log(0)], [log(1)], [log(2)])
    return lambda **options: Query(spark, tmp_path, store, **options)


def test_limits_hold_where_spark_lets_them_and_progress_tells_what_is_left(query, write) -> None:
    limited = query(maxSegmentsPerTrigger="2")
    assert limited.run() == [2, 1]
    told = [json.loads(one.json)["sources"][0] for one in limited.progress]
    assert [one["latestOffset"]["behind"]["segments"] for one in told[:2]] == [1, 0]
    folder = CheckpointFolder(str(limited.checkpoint))
    assert folder.offsets(1)[0] == told[1]["endOffset"]
    write([log(3), log(4)], [{"metrics": pa.record_batch({"m": [1.0]})}], core=1)
    assert limited.run(once=True) == [2]
    assert limited.rows() == [0, 1, 2, 3, 4]


def test_acks_follow_commits_and_a_lost_checkpoint_repeats_nothing(query) -> None:
    ours = query(maxSegmentsPerTrigger="2").subscribed()
    with quiver.open(ours.store, core=0, worker=False) as store:

        def left() -> int:
            store.maintain()
            return store.info().segments

        ours.run()
        # Spark tells of the end of a batch when it plans the next, and once more at the end.
        assert left() == 0
        # With nothing left to tell the columns, the checkpoint does.
        assert ours.run() == []
        assert ours.rows() == [0, 1, 2]
        shutil.rmtree(ours.checkpoint)
        shutil.rmtree(ours.out)
        store.append(log(3))
        store.finalize()
        ours.run()
        assert ours.rows() == [3], "on from where the subscriber is"


def test_new_columns_stop_a_query_and_are_there_once_it_is_restarted(query, write) -> None:
    plain = query()
    running = plain.start(processingTime="100 milliseconds")
    running.processAllAvailable()
    write([log(3, word="new")])
    with pytest.raises(StreamingQueryException, match="new columns of slot 'logs': word"):
        running.awaitTermination(60)
    plain.run()
    assert plain.rows() == [0, 1, 2, 3]
    assert plain.names() == {("n",), ("n", "word")}


def test_a_second_query_of_one_subscriber_ends_the_first(query, tmp_path) -> None:
    first, second = query().subscribed(), query()
    second.out, second.checkpoint = tmp_path / "out2", tmp_path / "ck2"
    second.subscribed()
    running = first.start(processingTime="100 milliseconds")
    running.processAllAvailable()
    second.run()
    with pytest.raises(StreamingQueryException, match="no longer the subscriber 'spark'"):
        running.awaitTermination(60)
