"""Who appends together gets on together: races in virtual time, every lot drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from virtual_time import DistantBucket, VirtualTime

from quiver.errors import RemoteError
from quiver.ship.objects import MemoryBucket
from quiver.ship.queue import Batch, NewEntry, Queue
from quiver.ship.queue.turns import TURN_KEY, Turns

TRIP = 0.01


@dataclass
class Race:
    """What each had when the first was done, and what all of it cost."""

    shares: list[int]
    seconds: float
    conflicts: int
    store: MemoryBucket


def race(
    trips: list[float],
    each: int,
    *,
    seed: int = 1,
    think: float = 0,
    kept: Sequence[float] = (),
    gives_up: bool = True,
) -> Race:
    """Let everybody append so many, one after the other, each as far from the store as said.

    ``kept`` says which share of the tries of each that come too late the store keeps for long.
    """
    time, store = VirtualTime(), MemoryBucket()
    done, shares, queues = [0] * len(trips), [], []

    def runner(who: int, trip: float):
        rng = random.Random(f"{seed}/{who}")
        bucket = DistantBucket(time, seconds=trip, seed=rng.random(), store=store)
        bucket.kept_share, bucket.gives_up = kept[who] if kept else 0, gives_up
        queue = Queue(bucket, clock=time, entropy=rng.randbytes)
        queues.append(queue)

        def run() -> None:
            for number in range(each):
                time.pause(think * rng.uniform(0.5, 1.5))
                queue.append(NewEntry(f"{who}-{number}", (), Batch(1, 2)))
                done[who] += 1
            if not shares:
                shares.extend(done)

        return run

    time.run([runner(who, trip) for who, trip in enumerate(trips)])
    conflicts = sum(queue.counters.conflicts for queue in queues)
    return Race(shares, time.monotonic_ns() / 1e9, conflicts, store)


@pytest.mark.parametrize("count, seed", [(2, 1), (2, 7), (3, 1), (8, 1), (8, 2)])
def test_scenario_57_all_who_append_at_once_get_on_alike_and_nothing_is_lost(count, seed) -> None:
    each = 60
    found = race([TRIP] * count, each, seed=seed)
    assert max(found.shares) <= 2 * min(found.shares)
    entries = list(Queue(found.store).read().entries())
    assert [entry.sequence for entry in entries] == list(range(count * each))
    assert {e.location for e in entries} == {f"{w}-{n}" for w in range(count) for n in range(each)}
    assert found.conflicts < 4 * count * each


@pytest.mark.parametrize("far", [3, 10])
def test_who_is_far_from_the_store_is_slow_and_does_not_starve(far) -> None:
    found = race([TRIP] * 7 + [far * TRIP], 60)
    assert found.shares[-1] >= 3
    assert max(found.shares) <= 2 * min(found.shares[:-1])


@pytest.mark.parametrize("seed", [2, 5])
def test_a_store_that_keeps_some_for_a_hundred_trips_keeps_nobody_behind(seed) -> None:
    found = race([TRIP] * 8, 120, seed=seed, kept=[0.05] * 8)
    assert max(found.shares) <= 2 * min(found.shares)


@pytest.mark.parametrize("seed", [1, 4])
def test_whom_alone_a_store_keeps_all_the_time_is_not_kept_behind(seed) -> None:
    kept = [0.15] + [0.0] * 7
    found = race([TRIP] * 8, 120, seed=seed, kept=kept)
    assert max(found.shares) <= 2 * found.shares[0]
    waiting = race([TRIP] * 8, 120, seed=seed, kept=kept, gives_up=False)
    assert max(waiting.shares) > 2 * waiting.shares[0], "what becomes of him if he is not let go"


def test_one_alone_is_not_kept_waiting() -> None:
    found = race([TRIP], 200)
    assert found.conflicts == 0
    assert found.seconds < 200 * TRIP * 1.15


def test_who_appends_now_and_then_hardly_meets_anybody() -> None:
    found = race([TRIP] * 3, 50, think=10 * TRIP)
    assert found.conflicts < 50
    assert min(found.shares) > 40


def test_a_wish_is_told_to_others_once_and_never_to_who_made_it() -> None:
    bucket = MemoryBucket()
    one, two = Turns(bucket, random.Random(1).randbytes), Turns(bucket, random.Random(2).randbytes)
    assert two.asked() == 0
    one.ask(0.5)
    assert one.asked() == 0
    assert two.asked() == pytest.approx(0.5, abs=0.002)
    assert two.asked() == 0
    one.ask(1000)
    assert two.asked() == 2


@pytest.mark.parametrize("data", [b"", b"x" * 11, b"x" * 13, b"x" * 100])
def test_a_wish_that_is_none_is_passed_over(data) -> None:
    bucket = MemoryBucket()
    turns = Turns(bucket, random.Random(1).randbytes)
    bucket.put(TURN_KEY, data)
    assert turns.asked() == 0


def test_a_store_that_takes_no_wishes_only_counts() -> None:
    class Refusing(MemoryBucket):
        def get(self, key):
            raise RemoteError("no right to read", path=key)

        def put(self, key, data):
            raise RemoteError("no right to put", path=key)

    turns = Turns(Refusing(), random.Random(1).randbytes)
    turns.ask(1)
    assert turns.asked() == 0
    assert turns.failures == 2
