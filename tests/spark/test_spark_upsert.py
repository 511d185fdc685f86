"""A stream of commands becomes a collection, each command once, whatever is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from quiver.errors import ConfigError, InputError
from quiver.events import Events
from quiver.ship.objects import FolderBucket
from quiver.spark import upsert
from quiver.spark.upsert import ways
from quiver.upsert.persist import Collection, Snapshot, changes, rows_as_of

pytestmark = pytest.mark.spark


class Place:
    """A collection, as who reads it sees it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        self.store = FolderBucket(self.path)

    @property
    def snapshot(self) -> Snapshot:
        return Collection.open(self.store).snapshot()

    def rows(self) -> Iterator[dict[str, Any]]:
        snapshot = self.snapshot
        for bucket in range(snapshot.buckets):
            for batch in rows_as_of(self.store, snapshot, bucket):
                yield from batch.to_pylist()

    def values(self) -> dict[Any, Any]:
        return {tuple(row["key"].values()): row["value"] for row in self.rows()}

    def change_count(self) -> int:
        snapshot = self.snapshot
        return sum(
            batch.num_rows
            for bucket in range(snapshot.buckets)
            for batch in changes(self.store, snapshot, bucket, after=snapshot.since)
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "collection")


def run(stream: DataFrame, place: Place, checkpoint: Path, **how: Any) -> None:
    """Do all batches that there are."""
    writer = upsert(stream, into=place.path, checkpoint=str(checkpoint), **how)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def op(n: int, text: str | None) -> dict[str, Any]:
    return {"n": n, "text": text}


def log(*rows: dict[str, Any]) -> dict[str, pa.RecordBatch]:
    kinds = pa.schema([("n", pa.int64()), ("text", pa.string())])
    return {"logs": pa.RecordBatch.from_pylist(list(rows), schema=kinds)}


def test_a_store_is_followed_and_each_command_is_in_once_though_the_checkpoint_is_lost(
    spark, write, place, tmp_path
) -> None:
    store = write([log(op(1, "a"), op(2, "b"), op(1, "c"))], [log(op(2, None)), log(op(3, "d"))])
    checkpoint = tmp_path / "checkpoint"

    def follow() -> None:
        options = {"slot": "logs", "includeMetadata": "true"}
        stream = spark.readStream.format("quiver").options(**options).load(store)
        run(stream, place, checkpoint, key="n", buckets=3)

    write([log(op(3, "e"), op(4, "f"))], core=1)
    follow()
    expected = {(1,): {"text": "c"}, (3,): {"text": "e"}, (4,): {"text": "f"}}
    assert place.values() == expected
    splits = place.snapshot.sources["quiver:logs"].splits
    assert sorted(split.split("/")[1] for split in splits) == ["core_0", "core_1"]
    count = place.change_count()
    shutil.rmtree(checkpoint)
    write([log(op(1, None), op(4, "g"))], core=1)
    follow()
    del expected[1,]
    assert place.values() == expected | {(4,): {"text": "g"}}
    # Each change once: the delete, and an update of two rows. Nothing was played again.
    assert place.change_count() == count + 3


@pytest.mark.parametrize("way", ["driver", "tasks", "rows"])
def test_rows_of_a_store_are_read_straight_unless_spark_computed_something(
    spark, write, place, tmp_path, monkeypatch, way
) -> None:
    monkeypatch.setattr(ways, "DRIVER_BYTES", 1 << 20 if way == "driver" else -1)
    told: list[Any] = []
    info = Events.info
    monkeypatch.setattr(
        Events, "info", lambda self, name, **how: (told.append(how), info(self, name, **how))
    )
    store = write([log(op(1, "a"), op(2, "b"), op(1, "c"))], [log(op(2, None), op(3, "d"))])
    options = {"slot": "logs", "includeMetadata": "true"}
    stream = spark.readStream.format("quiver").options(**options).load(store).alias("s")
    named = stream.withColumnRenamed("n", "number").select("*")
    named = named.where("number < 9") if way == "rows" else named
    writer = upsert(named, into=place.path, key="number", checkpoint=str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert place.values() == {(1,): {"text": "c"}, (3,): {"text": "d"}}
    assert [how["way"] for how in told if "way" in how] == [way]
    assert sum(progress.numInputRows for progress in query.recentProgress) == 5


class Folder:
    """Files that are a stream, as one of another kind."""

    schema = "part int, at bigint, id string, who struct<name: string>, op string"

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark, self.count = folder, spark, 0
        folder.mkdir()

    def add(self, *rows: tuple[Any, ...]) -> None:
        names = ("part", "at", "id", "who", "op")
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        (self.folder / f"{self.count}.json").write_text("\n".join(lines))
        self.count += 1

    def stream(self, schema: str = schema) -> DataFrame:
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


def named(name: str | None) -> dict[str, str | None]:
    return {"name": name}


@pytest.fixture
def folder(spark, tmp_path) -> Folder:
    return Folder(tmp_path / "in", spark)


HOW: dict[str, Any] = {
    "key": ["id"],
    "value": ["who"],
    "delete_when": "op = 'd'",
    "offsets": ["part", "at"],
    "buckets": 2,
}


def test_any_stream_is_taken_and_a_batch_that_is_done_again_is_not_in_twice(
    folder, place, tmp_path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    folder.add((0, 1, "x", named("old"), "u"), (0, 2, "x", named("new"), "u"))
    folder.add((1, 5, "y", named(None), "u"), (0, 3, "z", None, "u"))
    run(folder.stream(), place, checkpoint, **HOW)
    assert place.values() == {
        ("x",): {"who": named("new")},
        ("y",): {"who": named(None)},
        ("z",): {"who": None},
    }
    before = place.snapshot
    for file in ("1", ".1.crc"):  # As a kill between our append and Spark's commit leaves it.
        (checkpoint / "commits" / file).unlink()
    run(folder.stream(), place, checkpoint, **HOW)
    assert place.snapshot.manifest.files == before.manifest.files
    assert place.snapshot.upper == before.upper == 3
    folder.add((0, 4, "x", None, "d"), (1, 6, "y", named("late"), None))
    run(folder.stream(), place, checkpoint, **HOW)
    assert place.values() == {("y",): {"who": named("late")}, ("z",): {"who": None}}


def test_of_two_queries_the_older_ends_and_says_why(folder, place, tmp_path) -> None:
    folder.add((0, 1, "x", named("one"), "u"))

    def start(name: str) -> Any:
        writer = upsert(folder.stream(), into=place.path, **HOW)
        return writer.option("checkpointLocation", str(tmp_path / name)).start()

    older = start("older")
    try:
        older.processAllAvailable()
        newer = start("newer")
        try:
            newer.processAllAvailable()
            folder.add((0, 2, "x", named("two"), "u"))
            newer.processAllAvailable()
            with pytest.raises(StreamingQueryException, match="somebody else writes"):
                older.processAllAvailable()
            assert newer.isActive
        finally:
            newer.stop()
    finally:
        older.stop()
    assert place.values() == {("x",): {"who": named("two")}}
    assert place.change_count() == 3
    with pytest.raises(StreamingQueryException, match=r"has what query .* read since"):
        run(folder.stream(), place, tmp_path / "older", **HOW)


def test_columns_that_grow_wider_are_taken_and_others_are_refused_or_errors(
    folder, place, tmp_path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    how = HOW | {"value": None, "delete_when": None, "order_by": f.col("at") + f.lit(0)}
    folder.add((0, 1, "x", named("one"), "u"))
    run(folder.stream("part int, at bigint, id string, op string"), place, checkpoint, **how)
    assert place.values() == {("x",): {"op": "u"}}
    folder.add((0, 2, "y", named("two"), "v"))
    run(folder.stream(), place, checkpoint, **how)
    assert place.values() == {
        ("x",): {"op": "u", "who": None},
        ("y",): {"op": "v", "who": named("two")},
    }
    other = folder.stream("part int, at bigint, id string, op string, who string")
    with pytest.raises(InputError, match="column 'who' does not fit into the collection"):
        upsert(other, into=place.path, **how)
    folder.add((0, 3, "x", named("bad"), "w"), (0, 4, "z", None, "w"))
    run(other, place, checkpoint, **how, misfit="error")
    errors = {row["key"]["id"]: row["error"] for row in place.rows()}
    assert errors.pop("x").startswith("column 'who' is string, which struct<")
    assert errors == {"y": None, "z": None}


def test_what_makes_no_sense_is_refused_before_anything_runs(folder, place, spark) -> None:
    stream, batch = folder.stream(), spark.range(3)

    def given(frame: DataFrame = stream, **how: Any) -> None:
        upsert(frame, **{"into": place.path, "key": "id", "order_by": "at"} | how)

    for error, message, how in (
        (InputError, "upsert takes a stream", {"frame": batch}),
        (InputError, "no DataFrame", {"frame": [1]}),
        (InputError, "column 'nope' is not there .*part, at, id, who, op", {"key": "nope"}),
        (InputError, "names no key", {"key": []}),
        (InputError, "column 'ID' is not there", {"key": "ID"}),
        (ConfigError, "key: 3 is no name of a column", {"key": [3]}),
        (ConfigError, "order_by: nothing says which", {"order_by": None}),
        (ConfigError, "order_by: it names no column", {"order_by": []}),
        (ConfigError, "delete_when: it gives no yes or no", {"delete_when": "op"}),
        (ConfigError, "Spark does not take these columns", {"delete_when": "nope > 3"}),
        (ConfigError, "buckets: 0 is none", {"buckets": 0}),
        (ConfigError, "history: True is none", {"history": True}),
        (ConfigError, "misfit: 'skip' is none", {"misfit": "skip"}),
        (ConfigError, "source: 'a/before' is no name", {"source": "a/before"}),
        (ConfigError, "memory: is of one process", {"into": "memory:"}),
        (ConfigError, "did you mean s3", {"into": "s4://bucket/x"}),
    ):
        with pytest.raises(error, match=message):
            given(**how)
    assert not Path(place.path).exists()
