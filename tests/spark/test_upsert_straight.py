"""Batches whose rows are read from the segments themselves, whichever way, without a JVM."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from upsert_frames import Context, Died, Frame

import quiver
from quiver.checkpoint import encode_offset
from quiver.errors import FencedError
from quiver.scan import Scan
from quiver.ship.objects import FolderBucket
from quiver.source.stores import Position
from quiver.spark import options as o
from quiver.spark.schema import arrow_schema, to_spark, to_spark_schema
from quiver.spark.stream_query import with_metadata
from quiver.spark.upsert import preparing, ways
from quiver.spark.upsert.batches import Batches, Target
from quiver.spark.upsert.formulas import Compared, Formula, Named, Value
from quiver.spark.upsert.places import ORDER, PLACE, QUIVER
from quiver.spark.upsert.preparing import Reading
from quiver.spark.upsert.relation import Relation
from quiver.spark.upsert.straight import straight_of
from quiver.upsert.persist import Collection, changes, rows_as_of
from quiver.upsert.rows import Definition, Plan

LOG = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("gone", pa.bool_()),
        pa.field("when", pa.timestamp("ns")),
    ]
)
WAYS = ("driver", "tasks", "shares")


class Covered:
    """A batch from one position of core 0 to another, and what Spark was told of it."""

    def __init__(self, store_id: str, start: Position, end: Position) -> None:
        self.start, self.end = (
            encode_offset({0: at}, store_id=store_id, slot="logs") for at in (start, end)
        )
        self.rows = 0

    def tell(self, rows: int) -> None:
        self.rows += rows


class Rig:
    """A store, a query that upserts from it, and what the query is asked to do."""

    def __init__(
        self,
        folder: Path,
        *,
        value: tuple[str, ...] = ("text", "when"),
        made: Mapping[str, Formula] | None = None,
    ) -> None:
        self.folder, self.value, self.made = folder, value, made or {}
        self.store = quiver.open(folder / "store", slots=["logs"], worker=False)
        self.bucket = FolderBucket(str(folder / "collection"))
        self.number, self.starts, self.name = 0, 0, "query"
        self.at = Position(0)
        self.covered: Covered | None = None

    def segment(self, *bundles: list[dict[str, Any]]) -> None:
        for rows in bundles:
            self.store.append({"logs": pa.RecordBatch.from_pylist(rows, schema=LOG)})
        self.store.finalize()

    def start(self, name: str = "query") -> None:
        """Start a query: with another name it has lost its checkpoint."""
        if name != self.name:
            self.name, self.number, self.at = name, 0, Position(0)
        self.starts += 1
        options = {"path": str(self.folder / "store"), "slot": "logs", "includeMetadata": "true"}
        found = with_metadata(o.Options(options), Scan(options["path"], slot="logs").schema)
        schema = to_spark_schema(found, nanoseconds="us")
        names = ("id", *self.value, *(n for n in PLACE if n not in self.value), "gone")
        columns = tuple(self.made.get(name, Named(name)) for name in names)
        nothing = to_spark(pa.RecordBatch.from_pylist([], found), arrow_schema(schema))
        types = [column.of(nothing).type for column in columns]
        whole = pa.schema([pa.field(*each) for each in zip(names, types, strict=True)])
        plan = Plan(("id",), self.value, ORDER, "gone")
        reading = Reading(pa.schema([whole.field(n) for n in names]), plan, QUIVER, has_place=True)
        how = straight_of(Relation(options, schema, columns), reading)
        assert how is not None
        value = pa.schema([pa.field(n, whole.field(n).type) for n in self.value])
        definition = Definition(pa.schema([("id", pa.int64())]), value, 5)
        target = Target(self.bucket, definition, "quiver:logs")
        self.batches = Batches(target, reading, how, look=self.look)
        self.store_id = how.query.store_id

    def look(self, query: str, number: int) -> Covered | None:
        assert (query, number) == (self.name, self.number)
        return self.covered

    def put(self, until: Position, *, commits: bool = True, **how: Any) -> int:
        """Do the batch up to a position; says how many rows Spark was told of."""
        self.covered = Covered(self.store_id, self.at, until)
        context = Context(
            self.name,
            f"{self.name} {self.starts}",
            attempts=how.pop("attempts", 1),
            master=how.pop("master", "local[2]"),
            defaultParallelism=how.pop("cores", 2),
        )
        self.batches(Frame(context, [], **how), self.number)
        self.batches.wait()
        if commits:
            self.number, self.at = self.number + 1, until
        return self.covered.rows

    def state(self) -> Iterator[Mapping[str, Any]]:
        snapshot = Collection.open(self.bucket).snapshot()
        for bucket in range(snapshot.buckets):
            for batch in rows_as_of(self.bucket, snapshot, bucket):
                yield from batch.to_pylist()

    def texts(self) -> dict[int, str | None]:
        return {row["key"]["id"]: row["value"]["text"] for row in self.state()}

    def change_count(self) -> int:
        snapshot = Collection.open(self.bucket).snapshot()
        return sum(
            batch.num_rows
            for bucket in range(snapshot.buckets)
            for batch in changes(self.bucket, snapshot, bucket, after=snapshot.since)
        )


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.store.close()


@pytest.fixture(params=WAYS)
def way(request, monkeypatch) -> str:
    if request.param != "driver":
        monkeypatch.setattr(ways, "DRIVER_BYTES", -1)
    if request.param == "shares":
        monkeypatch.setattr(ways, "TASKS_BYTES", -1)
    monkeypatch.setattr(preparing, "ROWS", 9)
    return request.param


@pytest.fixture
def went(monkeypatch) -> list[str]:
    """Which way batches went."""
    found: list[str] = []
    made = ways.Found.of.__func__

    def of(cls: Any, way: str, rows: Any) -> Any:
        found.append(way)
        return made(cls, way, rows)

    monkeypatch.setattr(ways.Found, "of", classmethod(of))
    return found


def op(number: int, text: str | None, *, gone: bool = False) -> dict[str, Any]:
    return {"id": number, "text": text, "gone": gone, "when": None}


def test_whichever_way_the_last_command_of_each_key_holds(rig, way, went) -> None:
    rng, model, rows = random.Random(3), dict[int, str | None](), 0
    for segment in range(8):
        bundles = []
        for bundle in range(rng.randrange(1, 5)):
            commands = []
            for row in range(rng.randrange(1, 12)):
                key, gone = rng.randrange(20), rng.random() < 0.3
                commands.append(op(key, f"{segment} {bundle} {row}", gone=gone))
                if gone:
                    model.pop(key, None)
                else:
                    model[key] = commands[-1]["text"]
            rows += len(commands)
            bundles.append(commands)
        rig.segment(*bundles)
        if not segment:
            rig.start()
        if segment % 2:
            assert rig.put(Position(segment + 1), attempts=1 + segment % 3) == rows
            assert rig.texts() == model
            rows = 0
    assert went == [way] * 4
    assert rig.put(Position(8)) == 0  # A batch that has nothing is in as well.


def test_a_local_spark_of_few_cores_does_larger_batches_in_its_driver(
    rig, went, monkeypatch
) -> None:
    for _ in range(4):
        rig.segment([op(1, "a")])
    rig.start()
    monkeypatch.setattr(ways, "LOCAL_TIMES", 1 << 20)
    monkeypatch.setattr(ways, "DRIVER_BYTES", 1)
    rig.put(Position(1), master="local[4]", cores=4)
    rig.put(Position(2), master="local[8]", cores=8)
    rig.put(Position(3), master="spark://there:7077", cores=2)
    monkeypatch.setattr(ways, "LOCAL_TIMES", 1)
    rig.put(Position(4), master="local[4]", cores=4)
    assert went == ["driver", "tasks", "tasks", "tasks"]


def test_a_batch_that_is_done_again_is_in_once_and_one_that_died_leaves_nothing(rig, way) -> None:
    rig.segment([op(1, "a"), op(2, "b")], [op(1, "c")])
    rig.start()
    if way != "driver":
        with pytest.raises(Died):
            rig.put(Position(1), dies_at=2, commits=False)
        assert rig.texts() == {}
        rig.start()
    rig.put(Position(1), commits=False)
    before = Collection.open(rig.bucket).snapshot()
    for _ in range(2):
        assert rig.put(Position(1), commits=False) == 0
        rig.start()
    assert Collection.open(rig.bucket).snapshot().manifest.files == before.manifest.files
    assert rig.texts() == {1: "c", 2: "b"}


def test_a_write_that_fails_in_the_middle_leaves_garbage_and_no_row(rig, way, monkeypatch) -> None:
    rig.segment([op(key, "a") for key in range(30)])
    rig.start()
    write, written = FolderBucket.write, list[str]()

    def failing(self: FolderBucket, name: str, data: Any) -> Any:
        if name.startswith("runs/"):
            written.append(name)
            if len(written) == 3:
                raise Died
        return write(self, name, data)

    monkeypatch.setattr(FolderBucket, "write", failing)
    with pytest.raises(Died):
        rig.put(Position(1), commits=False)
    assert rig.texts() == {}
    monkeypatch.undo()
    rig.start()
    rig.put(Position(1))
    assert rig.texts() == dict.fromkeys(range(30), "a")
    assert rig.change_count() == 30


def test_a_bucket_that_fails_fails_its_batch_when_nothing_is_at_work_any_more(
    rig, monkeypatch
) -> None:
    rig.segment([op(key, "a") for key in range(30)])
    rig.start()
    write, turns = FolderBucket.write, itertools.count()
    failed, written = threading.Event(), list[str]()
    writers = set[threading.Thread]()

    def failing(self: FolderBucket, name: str, data: Any) -> None:
        if name.startswith("runs/"):
            writers.add(threading.current_thread())
            turn = next(turns)
            if turn == 1:
                failed.set()
                raise Died
            assert turn or failed.wait(60)  # The first one is at work while the second one fails.
            written.append(name)
        write(self, name, data)

    monkeypatch.setattr(FolderBucket, "write", failing)
    with pytest.raises(Died):
        rig.put(Position(1), commits=False)
    assert not any(writer.is_alive() for writer in writers - {threading.current_thread()})
    assert all((rig.folder / "collection" / name).exists() for name in written)
    assert written
    assert Collection.open(rig.bucket).snapshot().files == ()
    monkeypatch.undo()
    rig.start()
    rig.put(Position(1))
    assert rig.texts() == dict.fromkeys(range(30), "a")


def test_a_lost_checkpoint_repeats_nothing(rig, way) -> None:
    rig.segment([op(1, "a")], [op(2, "b"), op(1, "c")])
    rig.segment([op(2, None, gone=True)], [op(3, "d")])
    rig.start()
    rig.put(Position(1))
    rig.put(Position(1, 1))
    count = rig.change_count()
    rig.start("again")
    assert rig.put(Position(2)) == 1  # Only what is new is read.
    assert rig.texts() == {1: "c", 3: "d"}
    assert rig.change_count() == count + 1
    splits = Collection.open(rig.bucket).snapshot().sources["quiver:logs"].splits
    assert list(splits.values()) == [(1 << 32) + 2]


def test_an_older_query_is_fenced(rig, way) -> None:
    rig.segment([op(1, "a")])
    rig.segment([op(1, "b")])
    rig.start()
    rig.put(Position(1))
    older = rig.batches
    rig.start()
    rig.put(Position(1, 0))
    rig.covered = Covered(rig.store_id, Position(1), Position(2))
    with pytest.raises(FencedError, match="somebody else writes"):
        older(Frame(Context("query", "query 1"), []), 2)
    rig.put(Position(2))
    assert rig.texts() == {1: "b"}


def test_places_may_be_values_and_times_are_those_of_spark(tmp_path, way) -> None:
    rig = Rig(tmp_path, value=("text", "when", "_bundle_index", "_row_index"))
    with rig.store:
        rows = [op(1, "a"), op(2, "b") | {"when": pa.scalar(1_999, pa.timestamp("ns"))}]
        rig.segment([op(9, "x")], rows)
        rig.start()
        assert rig.put(Position(1)) == 3
        found = {row["key"]["id"]: row["value"] for row in rig.state()}
        assert [found[key]["_bundle_index"] for key in (9, 1, 2)] == [0, 1, 1]
        assert [found[key]["_row_index"] for key in (9, 1, 2)] == [0, 0, 1]
        assert found[2]["when"].microsecond == 1


def test_what_is_simply_made_of_columns_is_made_by_who_reads_them(tmp_path, way, went) -> None:
    made = {
        "gone": Compared("equal", Named("text"), Value("gone", "string")),
        "place": Named("_bundle_index"),
    }
    for value in (("text",), ("text", "place")):
        rig = Rig(tmp_path / str(len(value)), value=value, made=made)
        with rig.store:
            rig.segment([op(1, "a", gone=True), op(2, "gone")], [op(3, None), op(1, "b")])
            rig.segment([op(3, "gone"), op(4, "c")])
            rig.start()
            assert rig.put(Position(1)) == 4
            assert rig.texts() == {1: "b", 3: None}
            assert rig.put(Position(2)) == 2
            found = {row["key"]["id"]: tuple(row["value"].values()) for row in rig.state()}
            assert found == {1: ("b", 1)[: len(value)], 4: ("c", 0)[: len(value)]}
    assert went == [way] * 4


def test_what_cannot_be_read_straight_comes_through_spark(rig, went) -> None:
    rig.segment([op(1, "a")])
    rig.start()
    rig.covered = None
    rig.batches(Frame(Context("query", "query 1"), []), 0)  # Spark does not say what it covers.
    rig.number = 1
    other = Covered("another store", Position(0), Position(1))
    rig.look = lambda *_: other
    rig.batches._look = rig.look
    rig.batches(Frame(Context("query", "query 1"), []), 1)
    assert went == ["rows", "rows"]
    assert other.rows == 0


def test_of_a_stream_whose_columns_may_have_been_named_nothing_is_known(rig) -> None:
    rig.segment([op(1, "a")])
    options = {"path": str(rig.folder / "store"), "slot": "logs"}
    schema = to_spark_schema(Scan(options["path"], slot="logs").schema, nanoseconds="us")
    reading = Reading(arrow_schema(schema), Plan(("id",), ("text",), ("when",)))
    names = tuple(Named(field.name) for field in schema)
    assert straight_of(Relation(options, schema, names), reading) is not None
    fewer = type(schema)(schema.fields[:3])
    assert straight_of(Relation(options, fewer, names[:3]), reading) is None
    named = options | {"columns": "id,text,gone"}
    assert straight_of(Relation(named, fewer, names[:3]), reading) is not None
    for path in ("s3://bucket/queue", str(rig.folder / "nowhere")):
        assert straight_of(Relation(options | {"path": path}, schema, names), reading) is None
