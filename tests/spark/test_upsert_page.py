"""UPSERT.md of Spark: its samples run, and what it says of ways is so."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import quiver
import quiver.spark
from quiver.events import Events
from quiver.spark.upsert import ways
from quiver.upsert import open_view

pytestmark = pytest.mark.spark

PAGE = (Path(quiver.spark.__file__).parent / "UPSERT.md").read_text()
FLIGHTS = {
    "carrier": ["UA", "UA", "AA", "UA", "AA"],
    "flight": [1, 2, 1, 1, 1],
    "day": ["mon"] * 5,
    "status": ["planned", "planned", "planned", "cancelled", None],
}
PEOPLE = '{"partition": %d, "offset": %d, "value": "%s"}'


class Runner:
    """Runs samples where they do no harm: their places are below a folder, and they end."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def run(self, sample: str, **names: Any) -> None:
        for place in re.findall(r'"((?:s3a?://|store|collections/|checkpoints/)[^"]*)"', sample):
            below = str(self.folder / place.replace("://", "/"))
            sample = sample.replace(f'"{place}"', repr(below))
        assert "processingTime" in sample or ").start()" in sample
        sample = re.sub(
            r"(\n\)|query)(?:\.trigger\(.*\))?\.start\(\)",
            r"\1.trigger(availableNow=True).start().awaitTermination(60)",
            sample,
        )
        exec(sample, names)

    def kafka(self) -> Any:
        """Give what stands for Spark, and has a source that gives what Kafka's gives."""

        def load() -> DataFrame:
            schema = "partition int, offset bigint, value string"
            rows = self.spark.readStream.schema(schema).json(str(self.folder / "topic"))
            return rows.selectExpr("partition", "offset", "cast(value as binary) value")

        formats = {"kafka": SimpleNamespace(options=lambda **_: SimpleNamespace(load=load))}
        return SimpleNamespace(readStream=SimpleNamespace(format=formats.__getitem__))


def test_the_samples_of_the_page_run(spark, tmp_path, monkeypatch) -> None:
    told: list[Any] = []
    info = Events.info
    monkeypatch.setattr(
        Events, "info", lambda self, name, **how: (told.append(how), info(self, name, **how))
    )
    with quiver.open(tmp_path / "store", slots=["flights"], worker=False) as store:
        store.append({"flights": pa.table(FLIGHTS)})
        store.finalize()
    topic = tmp_path / "topic"
    topic.mkdir()
    values = [r"{\"id\": \"a\", \"name\": \"Ann\"}", r"{\"id\": \"a\", \"name\": \"Bob\"}"]
    (topic / "0.json").write_text("\n".join(PEOPLE % (0, *each) for each in enumerate(values)))
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    runner = Runner(spark, tmp_path)
    runner.run(first)
    flights = open_view(str(tmp_path / "collections/flights")).to_table()
    rows = flights.sort_by("carrier").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("AA", 1, "mon", None),
        ("UA", 2, "mon", "planned"),
    ]
    runner.run(
        second.replace('    options={"region": "eu-1"},\n', ""),
        spark=runner.kafka(),
        servers={},
        upsert=quiver.spark.upsert,
    )
    people = open_view(str(tmp_path / "s3/bucket/collections/people")).to_table()
    assert people.to_pylist() == [{"id": "a", "name": "Bob"}]
    assert [how["way"] for how in told if "way" in how] == ["driver", "rows"]


def test_what_the_page_says_of_ways_is_so() -> None:
    assert (
        f"up to {ways.DRIVER_BYTES >> 20} MiB, and a collection of at most {ways.DRIVER_BUCKETS}"
        in PAGE
    )
    local = ways.DRIVER_BYTES * ways.LOCAL_TIMES >> 20
    assert f"up to {local} MiB with a `local` master of at most {ways.LOCAL_CORES} cores" in PAGE
    assert f"of a store, up to {ways.TASKS_BYTES >> 20} MiB" in PAGE
    assert ways.TASKS_MAX == 8
    assert "at most eight tasks" in PAGE
