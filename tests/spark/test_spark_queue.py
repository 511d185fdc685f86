"""Spark reads from a queue on a real S3 server: a batch, a stream, and a query that takes over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from seaweed import SECRET, SeaweedServer, running, seaweed_missing
from spark_queue_kit import Depot, Machine, log

from quiver.ship.objects import open_bucket

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(bool(seaweed_missing()), reason=seaweed_missing()),
]

SECONDS = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SeaweedServer]:
    with running(tmp_path / "weed") as started:
        yield started


@pytest.fixture
def depot(server: SeaweedServer) -> Depot:
    return Depot(open_bucket(f"{server.url}/some/queue", options=server.options))


def test_a_queue_is_read_by_a_batch_and_by_one_query_at_a_time(
    spark: SparkSession, server: SeaweedServer, depot: Depot, tmp_path: Path
) -> None:
    url = f"{server.url}/some/queue"
    bucket = {f"bucket.{name}": value for name, value in server.options.items()}
    depot.put(depot.machine.segment(log(0, 1)), depot.machine.segment(log(2)))
    depot.put(Machine("metrics", "logs").segment(log(3, s="x")))
    frame = spark.read.format("quiver").options(slot="logs", **bucket).load(url)
    assert sorted(row.n for row in frame.collect()) == [0, 1, 2, 3]
    plan = frame._jdf.queryExecution().toString()
    assert "quiver" in plan
    assert SECRET not in plan

    def start(name: str) -> Any:
        places = {"checkpointLocation": str(tmp_path / f"checkpoint-{name}"), "sink": "synced"}
        made = spark.readStream.format("quiver").options(slot="logs", **bucket, **places)
        made = made.option("pollInterval", "0s")  # What is put is to be there at once.
        if name == "two":  # By then all is acked, and the queue tells no columns.
            made = made.schema("n long")
        writer = made.load(url).writeStream.format("memory").queryName(f"queue_{name}")
        return writer.option("checkpointLocation", places["checkpointLocation"]).start()

    def arrived(name: str) -> list[int]:
        return sorted(row.n for row in spark.table(f"queue_{name}").collect())

    first = start("one")
    first.processAllAvailable()
    assert arrived("one") == [0, 1, 2, 3]
    second = start("two")
    second.processAllAvailable()
    with pytest.raises(StreamingQueryException, match="has taken over s3://quiver/some/queue"):
        first.awaitTermination(SECONDS)
    depot.put(depot.machine.segment(log(4)))
    second.processAllAvailable()
    second.stop()
    assert arrived("two")[-1] == 4
    for path in tmp_path.glob("checkpoint-*/**/*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
