"""Both steps of a batch as tasks do them, without a JVM, against a dictionary."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from quiver.errors import InputError
from quiver.ship.objects import FolderBucket
from quiver.spark.upsert import preparing, wire
from quiver.spark.upsert.applying import Applied, Applying
from quiver.spark.upsert.preparing import Preparing, Reading
from quiver.spark.upsert.splits import SplitPlan
from quiver.spark.upsert.wire import PROGRESS, read_progress
from quiver.upsert.persist import Collection, changes, rows_as_of
from quiver.upsert.rows import Definition, Plan

TYPES = pa.schema(
    [
        pa.field("k", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("gone", pa.bool_()),
    ]
)
PLAN = Plan(("k",), ("v",), ("seq",), "gone")
DEFINITION = Definition(pa.schema([TYPES.field("k")]), pa.schema([TYPES.field("v")]), 5)


@dataclass
class Rig:
    """A collection, and batches that go into it the way Spark brings them."""

    store: FolderBucket
    reading: Reading = field(default_factory=lambda: Reading(TYPES, PLAN))
    definition: Definition = DEFINITION
    parts: int = 2

    def __post_init__(self) -> None:
        self.collection = Collection.open(self.store, self.definition, create=True)
        self.writer = self.collection.writer()

    def packed(self, tasks: Iterable[list[pa.RecordBatch]], **how: Any) -> list[pa.RecordBatch]:
        step = Preparing(self.reading, self.definition, self.parts, **how)
        return [row for task in tasks for row in pickle.loads(pickle.dumps(step))(iter(task))]

    def applied(self, packed: list[pa.RecordBatch]) -> tuple[list[Applied], dict[str, int]]:
        """Have each partition applied; twice, as a task that is done again."""
        step = Applying(self.store, self.writer.snapshot())
        found: list[Applied] = []
        ends: dict[str, int] = {}
        for part in range(self.parts):
            mine = [row for row in packed if row.column("part")[0].as_py() == part]
            mine.sort(key=lambda row: row.column("bucket")[0].as_py())
            for _ in range(2):
                told = list(pickle.loads(pickle.dumps(step))(iter(mine)))
            for row in told:
                bucket, data = (row.column(name)[0].as_py() for name in ("bucket", "data"))
                if bucket == PROGRESS:
                    ends |= read_progress(data)
                else:
                    found.append(Applied.decode(data))
        return found, ends

    def put(self, *tasks: list[pa.RecordBatch], **how: Any) -> dict[str, int]:
        found, ends = self.applied(self.packed(tasks, **how))
        self.writer.append([each.run for each in found], self.writer.snapshot().upper)
        return ends

    def state(self) -> list[dict[str, Any]]:
        snapshot = self.collection.snapshot()
        return [
            row
            for bucket in range(snapshot.buckets)
            for batch in rows_as_of(self.store, snapshot, bucket)
            for row in batch.to_pylist()
        ]

    def values(self) -> dict[Any, Any]:
        return {row["key"]["k"]: (row["value"] or {}).get("v") for row in self.state()}


@pytest.fixture
def rig(tmp_path) -> Rig:
    return Rig(FolderBucket(str(tmp_path)))


def batch(*rows: Mapping[str, Any], types: pa.Schema = TYPES) -> pa.RecordBatch:
    """Give rows as Spark does, whose names for columns say nothing."""
    made = pa.RecordBatch.from_pylist(list(rows), schema=types)
    return pa.RecordBatch.from_arrays(made.columns, names=[f"c{at}" for at in range(len(types))])


def put(k: int | None, v: Any, seq: int, *, gone: bool | None = False) -> dict[str, Any]:
    return {"k": k, "v": v, "seq": seq, "gone": gone}


def test_whatever_comes_in_whatever_pieces_the_last_command_of_each_key_holds(
    rig, monkeypatch
) -> None:
    monkeypatch.setattr(preparing, "ROWS", 7)
    monkeypatch.setattr(wire, "PIECE_BYTES", 200)
    rng, model, seq = random.Random(5), dict[int, str | None](), 0
    for _ in range(12):
        tasks: list[list[pa.RecordBatch]] = [[] for _ in range(rng.randrange(4))]
        for task in tasks:
            for _ in range(rng.randrange(5)):
                rows = []
                for _ in range(rng.randrange(9)):
                    seq += 1
                    gone = rng.choice((False, False, True, None))
                    rows.append(
                        put(rng.randrange(30), rng.choice(("x", None, str(seq))), seq, gone=gone)
                    )
                task.append(batch(*rows))
        for row in sorted((r for t in tasks for b in t for r in plain(b)), key=lambda r: r["seq"]):
            if row["gone"]:
                model.pop(row["k"], None)
            else:
                model[row["k"]] = row["v"]
        rng.shuffle(tasks)
        rig.put(*tasks)
        assert rig.values() == model
    assert counts_of_changes(rig) == dict.fromkeys(model.items(), 1)


def plain(made: pa.RecordBatch) -> list[dict[str, Any]]:
    return pa.RecordBatch.from_arrays(made.columns, schema=TYPES).to_pylist()


def counts_of_changes(rig: Rig) -> dict[Any, int]:
    """Add up all differences there ever were."""
    snapshot = rig.collection.snapshot()
    found: dict[Any, int] = {}
    for bucket in range(snapshot.buckets):
        for some in changes(rig.store, snapshot, bucket, after=0):
            for row in some.to_pylist():
                at = row["key"]["k"], row["value"]["v"]
                found[at] = found.get(at, 0) + row["diff"]
    return {at: count for at, count in found.items() if count}


def test_keys_that_repeat_are_sent_once_and_others_are_not_held_back(rig, monkeypatch) -> None:
    monkeypatch.setattr(preparing, "ROWS", 100)
    hot = [batch(*(put(n % 3, str(n), n) for n in range(at, at + 50))) for at in range(0, 1000, 50)]
    rows = rig.packed([hot])
    assert sum(len(wire.unpack([row.column("data")[0].as_py()])) for row in rows) == 3
    cold = iter(batch(*(put(n, "x", n) for n in range(at, at + 100))) for at in range(0, 300, 100))
    step = Preparing(rig.reading, rig.definition, rig.parts)(cold)
    next(step)
    assert next(cold).num_rows == 100  # The first were packed before the second were asked for.


def test_a_task_that_was_done_twice_wrote_a_file_that_nobody_names(rig) -> None:
    rig.put([batch(*(put(n, "x", n) for n in range(40)))])
    named = {ref.name for ref in rig.collection.snapshot().files}
    there = {found.key for found in rig.store.list("runs/")}
    assert named < there
    assert len(there) == 2 * len(named)


def test_what_changes_nothing_writes_nothing(rig) -> None:
    rig.put([batch(put(1, "x", 1))])
    found, _ = rig.applied(rig.packed([[batch(put(1, "x", 2), put(2, None, 3, gone=True))]]))
    assert [each.run for each in found] == [None, None]
    assert sum(each.commands for each in found) == 2
    assert rig.packed([[], [batch()]]) == []


def test_a_key_of_null_is_an_error_until_it_is_deleted(rig) -> None:
    rig.put([batch(put(None, "x", 1), put(1, "y", 2))])
    (error,) = (row for row in rig.state() if row["error"])
    assert (error["key"], error["value"]) == ({"k": None}, None)
    assert "null in column k" in error["error"]
    rig.put([batch(put(None, None, 3, gone=True))])
    assert rig.values() == {1: "y"}


def test_a_value_that_does_not_fit_is_an_error_until_a_good_one_comes(rig) -> None:
    types = TYPES.set(1, pa.field("v", pa.int64()))
    rig.reading = Reading(types, PLAN)
    rows = [put(n, n, n) for n in (0, 2)]
    rig.put([batch(*rows, put(8, 8, 9, gone=True), types=types)], misfit="error")
    found = {row["key"]["k"]: (row["value"], row["error"]) for row in rig.state()}
    bad = (None, "column 'v' is int64, which string does not hold")
    assert found == {0: bad, 2: bad}
    with pytest.raises(InputError, match="'v'"):
        rig.packed([[batch(*rows, types=types)]])
    rig.reading = Reading(TYPES, PLAN)
    rig.put([batch(put(0, "good", 10))])
    assert rig.values() == {0: "good", 2: None}


def test_keys_may_have_no_value_at_all(tmp_path) -> None:
    definition = Definition(DEFINITION.key, pa.schema([]), 2)
    plan = Plan(("k",), (), ("seq",), "gone")
    rig = Rig(FolderBucket(str(tmp_path)), Reading(TYPES, plan), definition)
    rig.put([batch(put(1, None, 1), put(2, None, 2), put(3, None, 3))])
    rig.put([batch(put(2, None, 4, gone=True), put(3, None, 5))])
    assert sorted(rig.values()) == [1, 3]


def test_how_far_a_task_came_is_told_also_where_all_of_it_was_in(rig) -> None:
    rig.reading = Reading(TYPES, PLAN, SplitPlan((), ("seq",), form="rows"))
    tasks = [[batch(put(1, "x", 1), put(2, "y", 2))], [batch(put(3, "z", 3))], []]
    assert rig.put(*tasks) == {"rows": 4}
    assert rig.put(*tasks, floors={"rows": 4}) == {"rows": 4}
    assert rig.put([batch(put(1, "old", 3), put(2, "new", 4))], floors={"rows": 4}) == {"rows": 5}
    assert rig.values() == {1: "x", 2: "new", 3: "z"}


def test_a_zone_of_the_session_and_wide_strings_do_not_matter(tmp_path) -> None:
    noon = datetime(2020, 6, 1, 12, tzinfo=UTC)
    kinds = pa.struct([("at", pa.timestamp("us", "UTC"))])
    types = pa.schema([("k", pa.string()), ("v", kinds), ("seq", pa.int64())])
    plan = Plan(("k",), ("v",), ("seq",))
    definition = Definition(pa.schema([types.field("k")]), pa.schema([types.field("v")]), 3)
    rig = Rig(FolderBucket(str(tmp_path)), Reading(types, plan), definition)
    there = pa.struct([("at", pa.timestamp("us", "Europe/Berlin"))])
    arrays = [pa.array(["a"], pa.large_string()), pa.array([{"at": noon}], there), pa.array([1])]
    rig.put([pa.RecordBatch.from_arrays(arrays, names=["c0", "c1", "c2"])])
    assert [(row["key"], row["value"]) for row in rig.state()] == [
        ({"k": "a"}, {"v": {"at": noon}})
    ]
