"""What the tests of the operator that this one is made after go through, told once more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from upsert_model import PLAN, Command, Memory, definition, table

from quiver.upsert.operator import Upsert
from quiver.upsert.rows import prepare
from quiver.upsert.stash import Stash


class Rig:
    """An operator and its collection, from the first epoch on or from where one is."""

    def __init__(self, collection: Memory | None = None, **options: Any) -> None:
        self.collection = collection or Memory()
        self.operator = Upsert(definition(), self.collection.upper, **options)

    def push(self, time: int, *given: tuple[Any, Any, int]) -> None:
        made = [Command(key, value, time, at) for key, value, at in given]
        self.operator.push(prepare(table(made), PLAN, definition()), time)

    def feed_back(self, input_upper: int) -> list[Counter[Any]]:
        """Step and append up to the input frontier; give the differences of each epoch."""
        found = []
        while self.collection.upper < input_upper:
            step = self.operator.step(input_upper, self.collection)
            assert step.time == self.collection.upper
            self.collection.append(step.time, step.diffs)
            found.append(self.collection.diffs(step.time))
        return found


def test_lagging_feedback_with_two_commands_at_one_time_and_an_unknown_tombstone() -> None:
    rig = Rig()
    rig.push(0, (1, "first", 1), (1, "second", 2), (9, None, 1))
    rig.push(1, (1, "third", 3))
    step = rig.operator.step(2, rig.collection)
    assert (step.counts["eligible"], step.counts["ineligible"], step.held) == (2, 1, 1)
    assert rig.operator.step(2, rig.collection).diffs == ()  # Nothing came back yet.
    rig.collection.append(0, step.diffs)
    assert rig.collection.diffs(0) == Counter({(1, "second"): 1})
    assert rig.feed_back(2) == [Counter({(1, "second"): -1, (1, "third"): 1})]


def test_keys_that_come_unsorted_over_several_times() -> None:
    rig = Rig()
    for time, keys in ((1, (5, 3)), (0, (9, 1, 4)), (2, (2, 9)), (1, (1, 8))):
        rig.push(time, *((key, f"t{time}", 1) for key in keys))
    found = rig.feed_back(3)
    assert found[0] == Counter({(9, "t0"): 1, (1, "t0"): 1, (4, "t0"): 1})
    assert found[1] == Counter(
        {(5, "t1"): 1, (3, "t1"): 1, (1, "t0"): -1, (1, "t1"): 1, (8, "t1"): 1}
    )
    assert found[2] == Counter({(2, "t2"): 1, (9, "t0"): -1, (9, "t2"): 1})


def test_rehydrate_then_update() -> None:
    before = Rig()
    before.push(0, (1, "a", 1), (2, "b", 1))
    before.feed_back(1)
    rig = Rig(before.collection)
    rig.push(0, (1, "a", 1))  # Once more, by a source that begins a little early.
    rig.push(1, (1, "c", 1))
    assert rig.feed_back(2) == [Counter({(1, "a"): -1, (1, "c"): 1})]
    assert rig.collection.state() == {1: "c", 2: "b"}


@pytest.mark.parametrize("bytes_most", [1 << 30, 2_000])
def test_more_keys_than_a_window_through_one_chunk_or_many(bytes_most: int) -> None:
    rig = Rig(window_keys=1_024, stash=Stash(bytes_most=bytes_most))
    rig.push(0, *((key, f"a{key}", 1) for key in range(1_500)))
    rig.push(1, *((key, f"b{key}", 1) for key in range(0, 1_500, 2)))
    first, second = rig.feed_back(2)
    assert first == Counter({(key, f"a{key}"): 1 for key in range(1_500)})
    assert second == Counter(
        {(key, f"a{key}"): -1 for key in range(0, 1_500, 2)}
        | {(key, f"b{key}"): 1 for key in range(0, 1_500, 2)}
    )
    assert max(rig.collection.lookups) <= 1_024
    assert (len(rig.collection.lookups) > 3) == (bytes_most < 1 << 30)


def test_delete_what_is_there() -> None:
    rig = Rig()
    rig.push(0, (1, "a", 1))
    rig.push(1, (1, None, 1))
    assert rig.feed_back(2)[1] == Counter({(1, "a"): -1})
    assert rig.collection.state() == {}


def test_rehydrate_from_a_history_that_cancels_out() -> None:
    collection = Memory()
    rows = Upsert(definition(), 0)
    rows.push(prepare(table([Command(1, "a", 0)]), PLAN, definition()), 0)
    (added,) = rows.step(1, collection).diffs
    signs = pa.array([-1], pa.int64())
    taken = added.set_column(
        added.schema.get_field_index("diff"), added.schema.field("diff"), signs
    )
    collection.append(0, [added, taken])
    rig = Rig(collection)
    rig.push(1, (1, "b", 1))
    assert rig.feed_back(2) == [Counter({(1, "b"): 1})]


def test_delete_what_nobody_knows() -> None:
    rig = Rig()
    rig.push(0, (1, None, 1))
    assert rig.feed_back(1) == [Counter()]
    assert rig.collection.epochs[0].num_rows == 0


def test_insert_again_after_a_deletion() -> None:
    rig = Rig()
    for time, value in enumerate(("a", None, "b")):
        rig.push(time, (1, value, 1))
    assert rig.feed_back(3) == [
        Counter({(1, "a"): 1}),
        Counter({(1, "a"): -1}),
        Counter({(1, "b"): 1}),
    ]


def test_the_same_value_again() -> None:
    rig = Rig()
    for time in range(3):
        rig.push(time, (1, "a", time))
    assert rig.feed_back(3) == [Counter({(1, "a"): 1}), Counter(), Counter()]


def test_one_that_lags_behind_another_drops_what_that_one_did_and_reaches_the_frontier() -> None:
    leader, lagging = Rig(), Rig()
    for rig in (leader, lagging):
        for time in range(3):
            rig.push(time, (1, f"v{time}", 1))
    leader.feed_back(3)
    step = lagging.operator.step(3, leader.collection)
    assert (step.counts["persisted"], step.held, step.frontier) == (3, None, 3)
    assert step.diffs == ()
    lagging.collection = leader.collection
    lagging.push(3, (1, "v3", 1))
    assert lagging.feed_back(4) == [Counter({(1, "v2"): -1, (1, "v3"): 1})]
