"""Views in Spark itself: one epoch for all that is derived, streams that add up, secrets unseen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from seaweed import SECRET, SeaweedServer, running, seaweed_missing
from view_kit import Board, State, total

from quiver.ship.objects import FolderBucket, open_bucket

pytestmark = pytest.mark.spark

A, B, C = ("a", 1), ("b", 2), ("c", 3)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SeaweedServer]:
    with running(tmp_path / "weed") as started:
        yield started


def state_of(frame: Any) -> State:
    return {row[0]: tuple(row[1:]) for row in frame.collect()}


def test_all_that_comes_of_a_load_sees_one_epoch(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "collection")
    board = Board(FolderBucket(place))
    board.put({1: A, 2: B})
    board.put({1: None, 3: C})
    spark.sql(f"CREATE TEMPORARY VIEW pinned USING `quiver-view` OPTIONS (path '{place}')")
    try:
        twice = "SELECT * FROM pinned WHERE id < 99 UNION ALL SELECT * FROM pinned"
        before = [(key, *value) for key, value in board.states[2].items()]
        assert sorted(map(tuple, spark.sql(twice).collect())) == sorted(before * 2)
        board.put({2: None, 4: ("d", (1 << 32) - 1)})
        board.fold()
        assert sorted(map(tuple, spark.sql(twice).collect())) == sorted(before * 2)
    finally:
        spark.catalog.dropTempView("pinned")
    one = spark.read.format("quiver-view").option("pushdown", "once").load(place)
    assert one.where("id = 4").collect() == [(4, "d", (1 << 32) - 1)]
    board.put({4: "no number"})
    with pytest.raises(PySparkException, match="has one error row"):
        spark.read.format("quiver-view").load(place).collect()
    with pytest.raises(PySparkException, match="a view is only read"):
        one.write.format("quiver-view").mode("append").save(place)


def test_a_stream_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    place, checkpoint = str(tmp_path / "collection"), str(tmp_path / "checkpoint")
    board = Board(FolderBucket(place))
    board.put({1: A, 2: B})
    rows: list[Any] = []

    def run() -> None:
        stream = spark.readStream.format("quiver-view")
        stream = stream.options(changes="true", maxEpochsPerTrigger="1", pollInterval="0s")
        query = (
            stream.load(place)
            .writeStream.foreachBatch(lambda frame, _: rows.extend(map(tuple, frame.collect())))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert total(rows) == board.states[1]
    board.put({1: None, 3: C})
    board.put({2: ("b2", 9)})
    board.fold()
    run()
    assert [total(rows, through=epoch) for epoch in (1, 2, 3)] == board.states[1:]


@pytest.mark.skipif(bool(seaweed_missing()), reason=seaweed_missing())
def test_credentials_are_options_and_shown_nowhere(
    spark: SparkSession, server: SeaweedServer, tmp_path: Path
) -> None:
    url = f"{server.url}/some/collection"
    board = Board(open_bucket(url, options=server.options))
    board.put({1: A, 2: B})
    bucket = {f"bucket.{name}": value for name, value in server.options.items()}
    frame = spark.read.format("quiver-view").options(**bucket).load(url)
    assert state_of(frame) == board.states[1]
    plan = frame._jdf.queryExecution().toString()
    assert "quiver-view" in plan
    assert SECRET not in plan
    stream = spark.readStream.format("quiver-view").options(changes="true", **bucket).load(url)
    rows: list[Any] = []
    query = (
        stream.writeStream.foreachBatch(lambda some, _: rows.extend(map(tuple, some.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert total(rows) == board.states[1]
    assert SECRET not in str(query.lastProgress)
    for path in tmp_path.glob("checkpoint/**/*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
