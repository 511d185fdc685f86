"""The rules of the operator, M1 to M16, each by a small example."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from upsert_model import PLAN, Command, Memory, Model, definition, table

from quiver.errors import ClosedError, InputError
from quiver.upsert.operator import Step, Upsert
from quiver.upsert.rows import Commands, Plan, prepare, reduce
from quiver.upsert.stash import Stash


def commands(*given: tuple[Any, ...], time: int = 0) -> Commands:
    """Make commands from (key, value, from_time)."""
    return prepare(table([Command(k, v, time, at) for k, v, at in given]), PLAN, definition())


def rows(found: Commands) -> list[tuple[Any, Any]]:
    """Give key and value, None for none, in the order of keys."""
    keys, values = found.keys.to_pylist(), found.values.to_pylist()
    pairs = [(k["k"], v and v["v"]) for k, v in zip(keys, values, strict=True)]
    return sorted(pairs)


def merged(*parts: Commands) -> list[tuple[Any, Any]]:
    return rows(reduce(Commands.concat(parts)))


def run(operator: Upsert, collection: Memory, input_upper: int | None) -> list[Step]:
    """Step and append until the epochs below the input frontier are all appended."""
    steps = []
    for _ in range(50):
        step = operator.step(input_upper, collection)
        steps.append(step)
        if step.time is None or (input_upper is None and step.done and not step.diffs):
            break
        collection.append(step.time, step.diffs)
    return steps


def test_m1_the_greater_from_time_wins_and_on_a_tie_the_left() -> None:
    low, high, tie = commands((1, "a", 1)), commands((1, "b", 2)), commands((1, "c", 2))
    assert merged(low, high) == merged(high, low) == [(1, "b")]
    assert merged(high, tie) == [(1, "b")]
    assert merged(tie, high) == [(1, "c")]


def test_m1_merging_is_associative_and_idempotent_and_never_loses_a_tombstone() -> None:
    values = [commands((1, v, at)) for v, at in product(("a", None, "b"), (1, 2))]
    for x, y, z in product(values, repeat=3):
        left = reduce(Commands.concat([reduce(Commands.concat([x, y])), z]))
        right = reduce(Commands.concat([x, reduce(Commands.concat([y, z]))]))
        assert rows(left) == rows(right)
        assert merged(x, x) == rows(x)
    gone = commands((1, None, 3))
    assert merged(commands((1, "a", 1)), gone) == merged(gone, gone) == [(1, None)]


def test_m2_at_most_one_entry_for_each_key_and_time_and_memory_by_their_number() -> None:
    stash = Stash()
    rng = np.random.default_rng(5)
    most = 0
    for number in range(60):
        keys = rng.integers(0, 300, 2_000)
        stash.add(commands(*((int(k), f"v{number}", number) for k in keys)), number % 2)
        most = max(most, len(stash))
    for time in (0, 1):
        (found,) = stash.windows(time, 1_000)
        assert sorted(k for k, _ in rows(found)) == list(range(300))
        assert {v for _, v in rows(found)} == {f"v{58 + time}"}
    assert most < 2 * (2 * 300 + 20_000)  # 120,000 commands came.
    assert len(stash) == 600


def test_m3_a_later_time_wins_whatever_its_from_time() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "early", 9)), 0)
    operator.push(commands((1, "late", 1)), 1)
    run(operator, collection, 2)
    assert collection.state() == {1: "late"}
    assert "from" not in str(collection.rows.schema)


def test_m4_commands_that_are_taken_away_are_refused() -> None:
    operator = Upsert(definition(), 0)
    for bad in (-1, 0):
        with pytest.raises(InputError, match=f"its diff is {bad}"):
            operator.push(commands((1, "a", 1), (2, "b", 1)), 0, diffs=np.array([1, bad]))
    assert operator.waiting == 0
    operator.push(commands((1, "a", 1)), 0, diffs=np.array([1]))
    assert operator.waiting == 1


def test_m4_commands_below_the_resume_upper_are_ignored_until_the_input_is_past_it() -> None:
    collection = Memory()
    for time in range(3):
        collection.append(time, [])
    operator = Upsert(definition(), 3)
    operator.push(commands((1, "again", 1)), 2)
    operator.push(commands((2, "new", 1)), 3)
    assert (operator.ignored, operator.waiting) == (1, 1)
    run(operator, collection, 4)
    assert collection.state() == {2: "new"}
    with pytest.raises(InputError, match="comes late: the input is at 4"):
        operator.push(commands((1, "late", 1)), 2)
    with pytest.raises(InputError, match="comes late"):
        operator.push(commands((1, "late", 1)), 3)


def test_m5a_what_is_at_the_persist_frontier_is_eligible() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "a", 1)), 0)
    assert operator.step(0, collection).time is None  # Not sealed: more may come.
    step = operator.step(1, collection)
    assert (step.time, step.counts["eligible"], step.counts["added"]) == (0, 1, 1)


def test_m5b_what_is_behind_the_persist_frontier_is_put_back() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "a", 1)), 0)
    operator.push(commands((1, "b", 1), (2, "b", 1)), 1)
    step = operator.step(2, collection)
    assert step.counts["ineligible"] == 2
    assert (step.held, operator.waiting) == (1, 2)
    assert [d.num_rows for d in step.diffs] == [1]


def test_m5c_what_somebody_else_has_persisted_is_dropped_and_never_put_back() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "ours", 1)), 0)
    operator.push(commands((2, "next", 1)), 1)
    collection.append(0, [])  # By another.
    step = operator.step(1, collection)
    assert (step.time, step.counts["persisted"], step.held, step.sealed) == (None, 1, 1, False)
    step = operator.step(2, collection)
    assert (step.time, step.counts["eligible"], step.held, step.frontier) == (1, 1, None, 2)


OLD_NEW = [(None, "n"), ("o", "n"), ("o", None), (None, None)]
EMITTED = [{"n": 1}, {"o": -1, "n": 1}, {"o": -1}, {}]


@pytest.mark.parametrize("old_new, emitted", list(zip(OLD_NEW, EMITTED, strict=True)))
def test_m6_what_goes_and_what_comes(old_new: tuple[Any, Any], emitted: dict[str, int]) -> None:
    old, new = old_new
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, old, 1)), 0)
    operator.push(commands((1, new, 1)), 1)
    run(operator, collection, 2)
    assert collection.diffs(1) == Counter({(1, value): sign for value, sign in emitted.items()})
    assert set(collection.epochs[1]["time"].to_pylist()) <= {1}


def test_m8_the_same_value_again_changes_nothing() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "a", 1), (2, "b", 1)), 0)
    operator.push(commands((1, "a", 2), (2, "c", 2)), 1)
    run(operator, collection, 2)
    assert collection.epochs[1].num_rows == 2  # Of key 2 alone.
    assert collection.state() == {1: "a", 2: "c"}


def test_m9_what_is_out_adds_up_to_the_model_at_each_time() -> None:
    model, operator, collection = Model(), Upsert(definition(), 0), Memory()
    rng = np.random.default_rng(3)
    for time in range(8):
        made = [
            Command(int(k), None if v < 2 else f"v{v}", time, int(at))
            for k, v, at in rng.integers(0, 8, (30, 3))
        ]
        for command in made:
            model.push(command)
        operator.push(commands(*((c.key, c.value, c.at) for c in made)), time)
    for time in range(8):
        step = operator.step(8, collection)
        assert step.time == time
        collection.append(time, step.diffs)
        assert collection.state() == model.state(time)
        assert collection.diffs(time) == model.diffs(time)


def test_m10_an_operator_that_begins_anew_retracts_what_an_earlier_one_left() -> None:
    collection = Memory()
    first = Upsert(definition(), 0)
    first.push(commands((1, "old", 1), (2, "kept", 1)), 0)
    run(first, collection, 1)
    second = Upsert(definition(), collection.upper)
    assert second.step(1, collection).hydrated
    second.push(commands((1, "new", 1)), 1)
    run(second, collection, 2)
    assert collection.diffs(1) == Counter({(1, "old"): -1, (1, "new"): 1})
    assert collection.state() == {1: "new", 2: "kept"}


def test_m10_nothing_is_appended_before_the_collection_is_where_it_was_to_be_resumed() -> None:
    collection = Memory()
    operator = Upsert(definition(), 2)
    operator.push(commands((1, "ignored", 1)), 1)
    operator.push(commands((1, "ours", 1)), 2)
    for time in range(2):  # By others: what is read is behind what was appended.
        step = operator.step(4, collection)
        assert (step.time, step.hydrated, step.sealed, step.held) == (None, False, False, 2)
        collection.append(time, [])
    step = operator.step(4, collection)
    assert (step.time, step.hydrated, step.counts["eligible"]) == (2, True, 1)


def test_m11_an_epoch_waits_until_the_one_before_it_came_back() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "one", 1)), 0)
    operator.push(commands((1, "two", 1)), 1)
    first = operator.step(2, collection)
    for _ in range(3):  # The append is on its way.
        waiting = operator.step(2, collection)
        assert (waiting.time, waiting.diffs, waiting.sealed) == (None, (), False)
    collection.append(0, first.diffs)
    second = operator.step(2, collection)
    collection.append(1, second.diffs)
    assert collection.diffs(1) == Counter({(1, "one"): -1, (1, "two"): 1})


def test_m12_the_held_time_is_the_least_of_what_waits_and_never_goes_back() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    for time in (4, 1, 2):
        operator.push(commands((time, "x", 1)), time)
    seen = []
    for _ in range(5):
        step = operator.step(5, collection)
        seen.append((step.held, step.frontier))
        assert step.time is not None
        collection.append(step.time, step.diffs)
    assert seen == [(1, 1), (2, 2), (4, 4), (4, 4), (None, 5)]


def test_m13_nothing_is_sealed_unless_some_of_it_may_go_out() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    assert not operator.step(3, collection).sealed  # Nothing is there.
    collection.append(0, [])
    operator.push(commands((1, "x", 1)), 5)
    sealed = 0
    for upper in (4, 5, 6, 6):
        step = operator.step(upper, collection)  # Held at 5, which is behind the collection.
        sealed += step.sealed
        if step.time is not None:
            collection.append(step.time, step.diffs)
    assert sealed == 0
    steps = run(operator, collection, 6)
    assert sum(step.sealed for step in steps) == 1
    assert collection.state() == {1: "x"}


def test_m14_a_bad_key_or_value_is_an_error_row_that_a_good_one_retracts() -> None:
    kind = definition()
    operator, collection = Upsert(kind, 0), Memory()
    wrong = pa.table({"k": [1, None], "v": pa.array([7, 8]), "from": [1, 1]})
    operator.push(prepare(wrong, PLAN, kind, misfit="error"), 0)
    run(operator, collection, 1)
    told = "column 'v' is int64, which string does not hold"
    assert collection.state() == {1: told, None: "key is null in column k"}
    operator.push(commands((1, "good", 1), (None, None, 1)), 1)
    run(operator, collection, 2)
    assert collection.state() == {1: "good"}
    assert collection.diffs(1)[(1, told)] == -1
    operator.push(prepare(wrong, PLAN, kind, misfit="error"), 2)
    run(operator, collection, 3)
    assert collection.diffs(2)[(1, "good")] == -1


def test_m14_the_same_error_again_changes_nothing() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    for time in (0, 1):
        operator.push(commands((None, f"v{time}", 1)), time)
    run(operator, collection, 2)
    assert collection.epochs[1].num_rows == 0


def test_m14_another_error_takes_the_place_of_the_first() -> None:
    kind = definition()
    operator, collection = Upsert(kind, 0), Memory()
    for time, wrong in enumerate((pa.array([7]), pa.array([7.5]))):
        rows = pa.table({"k": [1], "v": wrong, "from": [1]})
        operator.push(prepare(rows, PLAN, kind, misfit="error"), time)
    run(operator, collection, 2)
    assert [sign for _, sign in sorted(collection.diffs(1).items())] == [1, -1]
    assert collection.state() == {1: "column 'v' is double, which string does not hold"}


def test_m15_the_end_of_the_input_ends_it() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    operator.push(commands((1, "a", 1)), 0)
    operator.push(commands((1, "b", 1)), 2)
    step = operator.step(None, collection)
    assert not step.done
    for _ in range(3):
        assert step.time is not None
        collection.append(step.time, step.diffs)
        if step.done:
            break
        step = operator.step(None, collection)
    assert (step.done, step.frontier, step.held) == (True, None, None)
    assert collection.state() == {1: "b"}
    with pytest.raises(ClosedError, match="after the end"):
        operator.push(commands((1, "c", 1)), 3)
    with pytest.raises(InputError, match="has ended"):
        operator.step(3, collection)


@pytest.mark.parametrize("window", [1_024, 1, 1_500, 400])
def test_m16_look_ups_go_in_windows_and_no_edge_shows(window: int) -> None:
    keys = 1_500 if window > 1 else 40
    operator, collection = Upsert(definition(), 0, window_keys=window), Memory()
    operator.push(commands(*((k, f"a{k}", 1) for k in range(keys))), 0)
    operator.push(commands(*((k, f"b{k}" if k % 3 else None, 1) for k in range(keys))), 1)
    steps = run(operator, collection, 2)
    assert collection.state() == {k: f"b{k}" for k in range(keys) if k % 3}
    assert max(collection.lookups) <= window
    assert steps[0].counts["windows"] == steps[1].counts["windows"] == -(-keys // window)
    assert [d.num_rows for d in steps[0].diffs][:-1] == [window] * (-(-keys // window) - 1)


def test_m16_windows_go_out_one_by_one_and_a_failed_one_is_given_again() -> None:
    operator, collection = Upsert(definition(), 0, window_keys=10), Memory()
    operator.push(commands(*((k, "a", 1) for k in range(35))), 0)
    got: list[pa.Table] = []

    def failing(diffs: pa.Table) -> None:
        got.append(diffs)
        if len(got) == 2:
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        operator.step(1, collection, failing)
    assert operator.waiting == 35
    got.clear()
    step = operator.step(1, collection, got.append)
    assert (step.time, step.diffs, [d.num_rows for d in got]) == (0, (), [10, 10, 10, 5])
    collection.append(0, got)
    assert len(collection.state()) == 35


@pytest.mark.parametrize("most", [1, 5_000, 40_000])
def test_m16_windows_of_large_rows_are_looked_up_in_parts(most: int) -> None:
    operator, collection = Upsert(definition(), 0, window_bytes=most), Memory()
    operator.push(commands(*((k, "x" * 1_000 * (k % 5), 1) for k in range(30))), 0)
    operator.push(commands(*((k, None if k % 3 else "y", 1) for k in range(35))), 1)
    steps = run(operator, collection, 2)
    assert collection.state() == dict.fromkeys(range(0, 35, 3), "y")
    for step, count in zip(steps[:2], (30, 35), strict=True):
        assert step.counts["eligible"] == count
        assert step.counts["windows"] >= len(step.diffs) > 1
        assert all(d.num_rows <= 2 or d.nbytes <= 2 * most for d in step.diffs)


def test_frontiers_never_go_back() -> None:
    operator, collection = Upsert(definition(), 0), Memory()
    collection.append(0, [])
    operator.step(4, collection)
    with pytest.raises(InputError, match="the input goes back from 4 to 3"):
        operator.step(3, collection)
    with pytest.raises(InputError, match="the collection goes back from 1 to 0"):
        operator.step(4, Memory())


def test_commands_of_other_types_are_refused() -> None:
    operator = Upsert(definition(), 0)
    other = prepare(table([Command(1, 2, 0)], value=pa.int64()), PLAN)
    with pytest.raises(InputError, match="give prepare the definition"):
        operator.push(other, 0)
    with pytest.raises(InputError, match="commands are of"):
        operator.push(prepare(table([Command("a", "b", 0)], key=pa.string()), Plan(key=["k"])), 0)
