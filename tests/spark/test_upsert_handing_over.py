"""A feeder and a query of Spark take turns on one collection: each goes on where the other was.

Only with ``QUIVER_UPSERT=all``: how each reads the other's places is tried without Spark as well.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

import quiver
from quiver.spark import upsert
from quiver.upsert import Feeder, FeedOptions, open_view

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        os.environ.get("QUIVER_UPSERT") != "all", reason="QUIVER_UPSERT=all has a query started"
    ),
]


def write(store, *bundles: dict[int, str]) -> None:
    with quiver.open(store, slots=["users"], worker=False) as opened:
        opened.subscribe("keeper")  # So that whoever comes new finds all of it.
        for rows in bundles:
            opened.append({"users": pa.table({"id": list(rows), "name": list(rows.values())})})
        opened.finalize()


def feed(store, into) -> tuple[int, int]:
    with quiver.subscribe(store, "feeder", slots=["users"]) as subscriber:
        tally = Feeder(subscriber, str(into), FeedOptions("users", key="id")).run()
    return tally.bundle_count, tally.repeated_count


def query(spark, store, into, checkpoint) -> None:
    options = {"slot": "users", "includeMetadata": "true"}
    stream = spark.readStream.format("quiver").options(**options).load(str(store))
    how = {"key": "id", "into": str(into), "source": "quiver:users"}
    writer = upsert(stream, checkpoint=str(checkpoint), **how)
    writer.trigger(availableNow=True).start().awaitTermination()


def held(into) -> dict[int, str]:
    return {row["id"]: row["name"] for row in open_view(str(into)).to_table().to_pylist()}


def test_each_goes_on_where_the_other_was(spark, tmp_path) -> None:
    store, into = tmp_path / "store", tmp_path / "users"
    write(store, {1: "a", 2: "b"}, {2: "B"})
    assert feed(store, into) == (2, 0)
    write(store, {3: "c"}, {1: "A"})
    query(spark, store, into, tmp_path / "checkpoint")
    assert held(into) == {1: "A", 2: "B", 3: "c"}
    write(store, {4: "d"}, {1: "AA"})
    assert feed(store, into) == (2, 2)
    assert held(into) == {1: "AA", 2: "B", 3: "c", 4: "d"}
    # 1 came and changed twice, 2, 3 and 4 came; that 2 was b for a while nobody saw.
    times = open_view(str(into)).changes(after=0).read_all().column("_time").to_pylist()
    assert sorted(times) == [1, 1, 2, 2, 2, 3, 3, 3]
