"""A store that keeps one of those who meet in it: he does not wait, and nothing is lost or twice.

The store is scripted, and so is the clock: a try that is kept takes twenty seconds, or as long as
who sent it has patience.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from faulty_bucket import FaultyBucket

from quiver.ship.objects import UnclearError
from quiver.ship.queue import Batch, NewEntry, Queue, QueueOptions
from quiver.ship.queue.pace import Pace
from quiver.ship.queue.turns import TURN_KEY
from quiver.testing import ManualClock

KEPT = 20.0


class PassingClock(ManualClock):
    def pause(self, seconds: float) -> None:
        self.step(seconds)


class Keeping(FaultyBucket):
    """Whatever becomes of an answer that goes wrong, it is kept before."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("ingest")
        self.clock = clock
        self.patience: list[float | None] = []

    def put_if(self, key, data, tag, *, within=None):
        self.patience.append(within)
        if self.faults:
            self.clock.step(KEPT if within is None else within)
        return super().put_if(key, data, tag, within=within)


@pytest.fixture
def clock() -> PassingClock:
    return PassingClock()


@pytest.fixture
def bucket(clock) -> Keeping:
    return Keeping(clock)


def new(name: str) -> NewEntry:
    return NewEntry(name, (), Batch(1, 2))


def queue_on(bucket, clock, **options) -> Queue:
    return Queue(bucket, options=QueueOptions(**options), clock=clock)


def contended(bucket, clock, *, times: int = 8) -> Queue:
    """Give a queue that others have come first in, as often as that."""
    queue, other = queue_on(bucket, clock), queue_on(bucket, clock)
    for number in range(times):
        bucket.meanwhile = [lambda number=number: other.append(new(f"other-{number}"))]
        queue.append(new(f"own-{number}"))
    bucket.patience.clear()
    return queue


def locations(bucket) -> list[str]:
    return [entry.location for entry in Queue(bucket).read().entries()]


@pytest.mark.parametrize("fault", ["lost", "missed", "late"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_try_that_is_kept_is_left_and_made_again_only_if_it_is_not_in(
    bucket, clock, fault, times
) -> None:
    queue = contended(bucket, clock)
    conflicts = queue.counters.conflicts
    bucket.faults.extend([fault] * times)
    begun = clock.monotonic_ns()
    assert queue.append(new("kept")) == [16]
    assert (clock.monotonic_ns() - begun) / 1e9 < 10
    assert locations(bucket).count("kept") == 1
    assert len(locations(bucket)) == 17
    assert 1 <= queue.counters.hangs <= times
    assert queue.counters.faults == 0
    assert queue.counters.conflicts <= conflicts + (fault == "late")
    assert bucket.patience[0] is not None


def test_somebody_who_came_first_meanwhile_is_behind_it_no_more(bucket, clock) -> None:
    queue, other = contended(bucket, clock), queue_on(bucket, clock)
    bucket.faults.append("late")  # It arrives in the end, too late.
    bucket.meanwhile = [lambda: other.append(new("first"))]
    assert queue.append(new("kept")) == [17]
    assert locations(bucket)[16:] == ["first", "kept"]
    assert queue.counters.hangs == 1


def test_who_was_kept_asks_the_others_to_wait(bucket, clock) -> None:
    queue = contended(bucket, clock)
    bucket.put(TURN_KEY, b"nobody's")
    bucket.faults.append("missed")
    queue.append(new("kept"))
    assert bytes(bucket.get(TURN_KEY).data) != b"nobody's"


def test_patience_doubles_and_after_six_times_there_is_no_end_to_it(bucket, clock) -> None:
    queue = contended(bucket, clock)
    bucket.faults.extend(["missed"] * 8)
    queue.append(new("kept"))
    known = bucket.patience[:6]
    assert all(later > 1.5 * before for before, later in pairwise(known))
    assert bucket.patience[6:] == [None] * 3
    assert (queue.counters.hangs, queue.counters.faults) == (6, 2)


def test_a_store_that_keeps_everybody_is_given_up_in_time_and_nobody_knows(bucket, clock) -> None:
    queue = contended(bucket, clock)
    bucket.faults.extend(["missed"] * 100)
    with pytest.raises(UnclearError, match="cannot append to"):
        queue.append(new("kept"))
    bucket.faults.clear()
    assert queue.append(new("kept")) == [16]
    assert locations(bucket).count("kept") == 1


def test_who_is_alone_waits_as_long_as_it_takes(bucket, clock) -> None:
    queue = queue_on(bucket, clock)
    for number in range(20):
        queue.append(new(f"{number}"))
    bucket.faults.append("lost")
    queue.append(new("kept"))
    assert set(bucket.patience) == {None}


def test_who_is_new_knows_the_store_by_his_first_try(bucket, clock) -> None:
    queue, other = queue_on(bucket, clock), queue_on(bucket, clock)
    bucket.meanwhile = [lambda: other.append(new("first"))]
    bucket.faults.append("refused")  # So that the first try takes as long as it does.
    queue.append(new("second"))
    assert locations(bucket) == ["first", "second"]
    assert bucket.patience[0] is None
    assert bucket.patience[-1] == pytest.approx(2 * 20 * KEPT)


def test_a_fault_that_comes_at_once_is_a_fault(bucket, clock) -> None:
    queue = contended(bucket, clock)

    def busy(key, data, tag, **_):
        del bucket.put_if
        raise UnclearError("status 503", path=key, retryable=True)

    bucket.put_if = busy
    queue.append(new("once"))
    assert (queue.counters.faults, queue.counters.hangs) == (1, 0)
    assert locations(bucket).count("once") == 1


def test_patience_is_many_times_what_a_try_takes(clock) -> None:
    pace = Pace(clock, bytes)
    for _ in range(30):
        begin = clock.monotonic_ns()
        clock.step(0.06)
        pace.took(begin)
        pace.won(1)
    assert 1.0 < pace.patience(0, 0) < 1.5
    assert pace.patience(1, 0) == 2 * pace.patience(0, 0)


def test_before_enough_is_known_the_quickest_try_counts_twice(clock) -> None:
    pace = Pace(clock, bytes)
    assert pace.patience(0, 1) is None
    for seconds in (0.05, 1.0):
        begin = clock.monotonic_ns()
        clock.step(seconds)
        pace.took(begin)
    assert pace.patience(0, 0) is None
    assert pace.patience(0, 1) == pytest.approx(2.0)
