"""A mirror of a cluster, read by Spark while a node is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_kit import row, running
from pyspark.sql import SparkSession

import quiver
from quiver.chain import LoaderRules, Mirror

pytestmark = pytest.mark.spark
PATIENCE = 60.0


def test_spark_reads_what_was_mirrored(spark: SparkSession, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    config = {"segment": {"time": "caller", "target_size": 4_000}}
    with (
        running(tmp_path / "nodes", "a", "b", "c") as nodes,
        nodes.cluster() as cluster,
        quiver.open(store, slots=["events"], core=0, config=config, worker=False) as opened,
    ):
        loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=2, soft_bytes=5_000))
        times = [loader.send(row(n), timeout=PATIENCE).time_ns for n in range(30)]
        loader.close(timeout=PATIENCE)
        nodes.stop("a")
        with Mirror(opened, cluster) as mirror:
            assert mirror.run(once=True).bundle_count == 30
    frame = spark.read.format("quiver").options(slot="events").load(store)
    assert sorted(found["n"] for found in frame.collect()) == list(range(30))
    some = {"startingTime": str(times[10]), "endingTime": str(times[19])}
    frame = spark.read.format("quiver").options(slot="events", **some).load(store)
    assert sorted(found["n"] for found in frame.collect()) == list(range(10, 19))  # Up to an end.
