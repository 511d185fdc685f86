"""What comes is followed: epochs by age, an end in good order, whatever a subscriber gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from feeding_kit import Feeding, held, table

from quiver.engine.start import Position
from quiver.errors import RemoteError, SubscriberError
from quiver.ship.objects import MemoryBucket, UnclearError
from quiver.testing import ManualClock
from quiver.units import SECOND, parse_duration
from quiver.upsert.feeding import Feeder, FeedOptions, Trouble
from quiver.upsert.viewing import View


class Run:
    """What a subscriber hands out."""

    def __init__(self, place: tuple[int, int], bundles: list[Any], core: int = 0) -> None:
        self.segment_seq, self.bundle_first = place
        self.bundles, self.core, self.outcome = bundles, core, ""

    resolved = property(lambda self: bool(self.outcome))

    def __len__(self) -> int:
        return len(self.bundles)

    def __iter__(self):
        return iter([{"users": each} for each in self.bundles])

    def table(self, slot: str) -> pa.Table:
        assert slot == "users"
        return pa.Table.from_batches(self.bundles)

    def ack(self) -> None:
        assert not self.outcome
        self.outcome = "acked"

    def defer(self) -> None:
        assert not self.outcome
        self.outcome = "deferred"


class Script:
    """A subscriber that does one thing after the other; waiting takes as long as it is told."""

    store_id = "5" * 32
    closed = False

    def __init__(self, clock: ManualClock, *acts: Run | str | int | Callable[[], object]) -> None:
        self.clock, self.acts = clock, deque(acts)
        self.given: list[Run] = []

    def poll_run(self, limit: int = 1000) -> Run | None:
        return self._next(0)

    def next_run(self, limit: int = 1000, *, timeout: float) -> Run | None:
        return self._next(round(timeout * SECOND))

    def _next(self, rest_ns: int) -> Run | None:
        while self.acts:
            act = self.acts.popleft()
            if isinstance(act, Run):
                self.given.append(act)
                return act
            if callable(act):
                act()
                continue
            wait_ns = parse_duration(act) if isinstance(act, str) else act
            self.clock.step(min(wait_ns, rest_ns) / SECOND)
            if wait_ns > rest_ns:
                self.acts.appendleft(wait_ns - rest_ns)
                return None
            rest_ns -= wait_ns
        return None

    def waiting_between(self, core: int, first: Position, stop: Position) -> None:
        return None

    def unreadable_between(self, core: int, first: int, stop: int) -> None:
        return None

    def acked_behind(self, places: object, slot: str) -> None:
        return None

    def next_segment(self, core: int) -> None:
        return None


class Play:
    """A feeder that follows a script, and stops where it ends."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.bucket: Any = MemoryBucket("collection", clock=self.clock)
        self.told: list[Any] = []
        self.options = FeedOptions(**{"slot": "users", "key": "k", "buckets": 1} | options)

    def follow(self, *acts: Any) -> Script:
        script = Script(self.clock, *acts)
        feeder = Feeder(script, self.bucket, self.options, clock=self.clock, watch=self.told.append)
        script.acts.append(feeder.stop)
        self.tally = feeder.run(follow=True)
        return script

    @property
    def epochs(self) -> list[int]:
        return [told.row_count for told in self.told if not isinstance(told, Trouble)]


def run(place: int, *values: int) -> Run:
    rows = [table([(value, value)]) for value in values]
    return Run((0, place), rows or [table([])])


def test_rows_wait_for_others_as_long_as_they_are_told() -> None:
    play = Play(every="1s")
    script = play.follow(run(0, 1), "300ms", run(1, 2, 3), "300ms", run(3, 4), "500ms", run(4, 5))
    assert play.epochs == [4, 1]
    assert [each.outcome for each in script.given] == ["acked"] * 4
    assert held(play.bucket) == {n: n for n in range(1, 6)}


def test_who_comes_fast_keeps_nobody_waiting() -> None:
    play = Play(every="1s")
    play.follow(*(part for n in range(9) for part in (run(n, n), "400ms")))
    assert play.epochs == [3, 3, 3]


def test_an_epoch_that_is_full_waits_for_nobody() -> None:
    play = Play(every="1h", rows=2)
    play.follow(run(0, 1), run(1, 2), run(2, 3), "2s", run(3, 4), run(4, 5))
    assert play.epochs == [2, 2, 1]


def test_a_stop_lets_in_what_was_taken_and_gives_back_nothing_else() -> None:
    play = Play(every="1h")
    script = play.follow(run(0, 1), run(1, 2), "2s")
    assert play.epochs == [2]
    assert [each.outcome for each in script.given] == ["acked", "acked"]
    assert play.tally.is_cut_short


def test_what_is_ahead_at_a_stop_is_given_back() -> None:
    play = Play(rows=1)
    runs = [run(0, 1, 2)]
    script = Script(play.clock, *runs)
    feeder = Feeder(script, play.bucket, play.options, clock=play.clock, watch=play.told.append)
    feeder._watch = lambda told: (play.told.append(told), feeder.stop())
    feeder.run(follow=True)
    assert play.epochs == [1]
    assert runs[0].outcome == "deferred"
    again = Play(rows=1)
    again.bucket = play.bucket
    again.follow(run(0, 1, 2))
    assert (again.epochs, again.tally.repeated_count) == ([1], 1)
    assert held(again.bucket) == {1: 1, 2: 2}


def test_a_store_that_is_gone_for_a_while_is_waited_for_without_end() -> None:
    play = Play()
    failures = iter([UnclearError("no answer", path="x", retryable=True)] * 20)
    honest = play.bucket.write

    def write(*args: Any) -> Any:
        for error in failures:
            raise error
        return honest(*args)

    play.bucket.write = write
    play.follow(*(act for _ in range(40) for act in (run(0, 1), "2s")))
    assert held(play.bucket) == {1: 1}
    assert sum(isinstance(told, Trouble) for told in play.told) == 20


def test_who_is_told_to_stop_meanwhile_gives_up() -> None:
    play = Play()

    def write(*args: Any) -> Any:
        raise RemoteError("no", path="x", retryable=True)

    play.bucket.write = write
    with pytest.raises(RemoteError, match="no"):
        play.follow(run(0, 1), "2s", run(0, 1), "2s", run(0, 1))
    assert 1 <= len(play.told) <= 2
    assert View(play.bucket).latest == 0


def test_a_refusal_for_good_ends_it_at_once() -> None:
    play = Play()

    def write(*args: Any) -> Any:
        raise RemoteError("forbidden", path="x")

    play.bucket.write = write
    with pytest.raises(RemoteError, match="forbidden"):
        play.follow(*(run(0, 1) for _ in range(5)))
    assert play.told == []


def test_what_is_in_hands_goes_back_if_the_subscriber_is_lost() -> None:
    play = Play(every="1h")
    first = run(0, 1)

    def lost() -> None:
        raise SubscriberError("another process goes on")

    with pytest.raises(SubscriberError):
        play.follow(first, lost)
    assert first.outcome == "deferred"


@pytest.mark.parametrize("what", ["subscription", "store", "consumer"])
def test_it_ends_when_the_subscriber_is_closed(what) -> None:
    rig = Feeding()
    rig.fill(2)
    with rig.open() as store:
        owner = rig.subscribe() if what == "consumer" else store
        subscriber = owner if what == "consumer" else store.subscribe("own", slots=["users"])
        feeder = rig.feeder(subscriber, every=0)
        closed = {"store": store, "consumer": owner, "subscription": subscriber}[what]
        feeder._watch = lambda told: (rig.told.append(told), closed.close())
        assert feeder.run(follow=True).bundle_count == 2
    rig.check()


def test_bundles_without_rows_are_not_held_without_end(monkeypatch) -> None:
    monkeypatch.setattr("quiver.upsert.feeding.intake._PARTS_MAX", 2)
    play = Play(every="1h")
    script = play.follow(*(run(n) for n in range(4)), run(4, 1))
    assert [each.outcome for each in script.given] == ["acked"] * 5
    assert [told.bundle_count for told in play.told] == [1]
    assert play.tally.bundle_count == 5
    assert held(play.bucket) == {1: 1}


def test_bundles_that_share_no_schema_are_taken_one_by_one() -> None:
    rig = Feeding()
    with rig.open() as store:
        store.append({"users": pa.record_batch({"k": [1], "v": [1]})})
        store.append({"users": pa.record_batch({"k": [2], "v": ["text"]})})
        store.append({"users": pa.record_batch({"k": [3], "v": [3]})})
        store.finalize()
    tally = rig.feed(misfit="error")
    assert (tally.bundle_count, tally.error_count) == (3, 1)
    rows = View(rig.bucket).to_table(errors="skip").to_pylist()
    assert sorted((row["k"], row["v"]) for row in rows) == [(1, 1), (3, 3)]
    (error,) = View(rig.bucket).to_table(errors="only").to_pylist()
    assert error["k"] == 2
    assert "'v'" in error["_error"]
