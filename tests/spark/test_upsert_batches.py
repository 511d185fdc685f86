"""What the driver of an upserting query does, played without a JVM."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from upsert_frames import Context, Died, Frame, Query

from quiver.errors import ConfigError, FencedError, InputError, SourceError
from quiver.spark.upsert import tending
from quiver.spark.upsert.preparing import Reading
from quiver.spark.upsert.recovery import BEFORE
from quiver.spark.upsert.splits import SplitPlan
from quiver.upsert.rows import Definition, Plan

TYPES = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.int64())])
BARE = Reading(TYPES, Plan(("k",), ("v",), ("at",)))
PLACED = Reading(TYPES, BARE.plan, SplitPlan((), ("at",), form="rows"))
DEFINITION = Definition(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]), 3)


def row(k: int, v: int | None, at: int) -> dict[str, Any]:
    return {"k": k, "v": v, "at": at}


@pytest.fixture
def query(tmp_path) -> Query:
    return Query(str(tmp_path / "collection"), DEFINITION, PLACED)


def values(query: Query) -> dict[int, int]:
    return {found["key"]["k"]: found["value"]["v"] for found in query.state()}


def test_a_batch_is_one_epoch_also_if_it_has_nothing(query) -> None:
    query.put([row(1, 10, 0)], [row(2, 20, 1)], [])
    query.put([])
    query.put([row(1, None, 2), row(3, 30, 3)])
    assert values(query) == {2: 20, 3: 30}
    assert query.snapshot().upper == 4
    assert query.snapshot().sources["spark"].batch == 2


def test_a_batch_that_is_done_again_does_nothing_after_a_restart_too(query) -> None:
    query.put([row(1, 10, 0)])
    query.put([row(1, 11, 1)], commits=False)
    before = query.snapshot().manifest.files
    query.put([row(1, 11, 1)], commits=False)
    query.start()
    query.put([row(1, 11, 1)])
    assert query.snapshot().manifest.files == before
    assert query.sums() == {(1, 11): 1}


def test_a_start_fences_the_one_before_for_good(query) -> None:
    query.put([row(1, 10, 0)])
    older, context = query.batches, Context("query", "query 1")
    query.start()
    query.put([row(1, 11, 1)])
    for _ in range(2):
        with pytest.raises(FencedError, match="somebody else writes"):
            older(Frame(context, []), 2)
    query.put([row(1, 12, 2)])
    assert values(query) == {1: 12}


def test_one_writer_that_is_started_twice_is_two(query) -> None:
    query.put([row(1, 10, 0)])
    query.starts += 1  # Spark was told to start what upsert gave once more.
    query.put([row(1, 11, 1)])
    with pytest.raises(FencedError):
        query.batches(Frame(Context("query", "query 1"), []), 2)


def test_who_cannot_go_on_fences_nobody(query, tmp_path) -> None:
    query.put([row(1, 10, 0)])
    stray = Query(query.place, DEFINITION, PLACED, name="stray", number=7)
    with pytest.raises(SourceError, match="query stray is at batch 7"):
        stray.put([row(1, 99, 9)])
    wrong = Definition(DEFINITION.key, pa.schema([("v", pa.string())]), 3)
    types = TYPES.set(1, pa.field("v", pa.string()))
    other = Query(query.place, wrong, Reading(types, BARE.plan), name="other")
    with pytest.raises(InputError, match="'v' does not fit"):
        other.put([])
    query.put([row(1, 11, 1)])
    nowhere = Query(str(tmp_path / "nowhere"), DEFINITION, PLACED, number=3)
    with pytest.raises(SourceError, match="the collection has nothing of it"):
        nowhere.put([])
    assert not (tmp_path / "nowhere").exists()


def test_a_lost_checkpoint_plays_nothing_twice_where_rows_have_offsets(query) -> None:
    batches = [[row(n % 4, n, n)] for n in range(12)]
    for rows in batches[:8]:
        query.put(rows)
    again = Query(query.place, DEFINITION, PLACED, name="again")
    for first in range(0, 12, 3):  # It need not find the same batches.
        again.put([one for rows in batches[first : first + 3] for one in rows])
        if first < 6:
            assert values(again) == {n % 4: n for n in range(4, 8)}
    assert again.sums() == {(n % 4, n): 1 for n in range(8, 12)}
    assert again.snapshot().sources["spark" + BEFORE].splits == {"rows": 8}
    with pytest.raises(SourceError, match="has what query again read since"):
        query.start()
        query.put([])


def test_without_offsets_what_comes_again_is_applied_again(query) -> None:
    query.reading = BARE
    query.start()
    for n in range(3):
        query.put([row(1, n, n)])
    again = Query(query.place, DEFINITION, BARE, name="again")
    again.put([row(1, 0, 0)])
    assert values(again) == {1: 0}
    again.put([row(1, 1, 1), row(1, 2, 2)])
    assert again.sums() == {(1, 2): 1}


def test_a_row_that_comes_later_than_its_split_is_in_as_long_as_the_query_lives(query) -> None:
    query.put([row(1, 1, 10)])
    query.put([row(2, 2, 3)])
    assert values(query) == {1: 1, 2: 2}
    assert query.snapshot().sources["spark"].splits == {"rows": 11}


def test_sources_of_two_names_write_one_after_the_other(query) -> None:
    query.put([row(1, 1, 5)])
    other = Query(query.place, DEFINITION, PLACED, name="other", how={"source": "side"})
    other.put([row(2, 2, 0)])
    query.start()
    query.put([row(3, 3, 6)])
    assert values(query) == {1: 1, 2: 2, 3: 3}
    assert sorted(query.snapshot().sources) == ["side", "spark"]


def test_a_wider_value_comes_with_the_batch_that_has_it(query) -> None:
    query.put([row(1, 10, 0)])
    types = TYPES.append(pa.field("w", pa.string()))
    value = pa.schema([("v", pa.int64()), ("w", pa.string())])
    reading = Reading(types, Plan(("k",), ("v", "w"), ("at",)), PLACED.splits)
    wider = Query(query.place, Definition(DEFINITION.key, value, 3), reading, number=1)
    wider.put([{**row(2, 20, 1), "w": "x"}])
    found = {each["key"]["k"]: each["value"] for each in wider.state()}
    assert found == {1: {"v": 10, "w": None}, 2: {"v": 20, "w": "x"}}
    narrow = Query(query.place, DEFINITION, PLACED, number=2)
    narrow.put([row(3, 30, 2)])
    assert {each["key"]["k"]: each["value"]["w"] for each in narrow.state()}[3] is None


def test_history_is_kept_as_long_as_was_said(query) -> None:
    query.how = {"history": 2}
    query.start()
    for n in range(6):
        query.put([row(1, n, n)])
    assert query.snapshot().since > 0


def test_a_thread_of_no_query_is_refused(query) -> None:
    with pytest.raises(ConfigError, match="which query"):
        query.batches(Frame(Context("", ""), []), 0)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_dies_and_is_lost_each_command_is_in_once(tmp_path, seed) -> None:
    """Tasks die, drivers die before the append and behind it, checkpoints go, tasks come twice."""
    rng = random.Random(seed)
    commands = [row(rng.randrange(6), rng.choice((None, 0, 1)), at) for at in range(60)]
    query = Query(str(tmp_path), DEFINITION, PLACED, name="0", how={"history": 1000})
    begun, names = 0, 1
    ends: dict[int, int] = {}  # Of the offset log: where each batch ends, once it is planned.
    for _ in range(200):
        if begun >= len(commands):
            break
        end = ends.setdefault(query.number, min(begun + rng.randrange(1, 9), len(commands)))
        rows = commands[begun:end]
        middle = rng.randrange(len(rows) + 1)
        query.attempts = rng.choice((1, 2))
        fate = rng.choice(("lives", "lives", "dies", "dies behind", "loses"))
        fate = "lives" if fate == "loses" and names > 2 else fate
        try:
            dies_at = rng.randrange(1, 6) if fate == "dies" else None
            query.put(rows[:middle], rows[middle:], commits=fate != "dies behind", dies_at=dies_at)
        except Died:
            query.start()
            continue
        if fate == "dies behind":
            query.start()
        elif fate == "loses":
            query = Query(query.place, DEFINITION, PLACED, name=str(names), how=query.how)
            begun, names, ends = 0, names + 1, {}
        else:
            begun = end
    model: dict[int, int] = {}
    for one in commands[: max(begun, 0)]:
        model.pop(one["k"], None)
        if one["v"] is not None:
            model[one["k"]] = one["v"]
    assert begun == len(commands)
    assert values(query) == model
    assert query.sums() == dict.fromkeys(model.items(), 1)


def test_much_is_folded_by_tasks_and_little_by_the_driver(query, monkeypatch) -> None:
    def fill(count: int) -> int:
        frame = query.frame([row(n, query.number, 10**9 * query.number + n) for n in range(count)])
        query.batches(frame, query.number)
        query.batches.wait()
        query.number += 1
        return frame.context.tasks

    few = fill(10)
    assert fill(60_000) == few  # Three buckets of 20,000 are to be folded: not much.
    assert [ref.kind for ref in query.snapshot().files].count("base") == 3
    monkeypatch.setattr(tending, "ROWS_MIN", 1_000)
    assert fill(60_000) == few + 3
    snapshot = query.snapshot()
    assert {ref.last for ref in snapshot.files if ref.kind == "base"} == {snapshot.upper - 1}
    assert values(query) == dict.fromkeys(range(60_000), 2)
