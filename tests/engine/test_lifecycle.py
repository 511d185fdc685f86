"""Subscribers start, pause, start over, give up and are counted; restarts change none of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from beside_kit import Beside, number, peek, take
from store_kit import SLOTS, bundle

import quiver
from quiver.segment import SegmentReader


@pytest.fixture
def beside() -> Beside:
    return Beside()


def at(beside: Beside, seconds: float = 0) -> datetime:
    now = datetime.fromtimestamp(beside.clock.wall_ns() // 10**9, UTC)
    return now + timedelta(seconds=seconds)


def reopened(beside: Beside, store: quiver.Store, **config) -> quiver.Store:
    store.maintain()
    beside.die(store)
    return beside.open(**config)


def minute_by_minute(beside: Beside) -> quiver.Store:
    """Append a bundle each minute: two segments of three, and one bundle that is still open."""
    store = beside.open(segment={"max_open_duration": "1d"})
    for n in range(7):
        store.append(bundle(n))
        beside.appended += 1
        beside.clock.step("60s")
        if n in (2, 5):
            store.finalize()
    return store


@pytest.mark.parametrize(
    "minutes, first", [(-1, 0), (0, 0), (0.5, 1), (1, 1), (2, 2), (2.5, 3), (4, 4), (6, 6), (9, 7)]
)
def test_a_time_starts_with_the_first_bundle_appended_then_or_later(
    beside: Beside, minutes: float, first: int
) -> None:
    begin = at(beside)
    store = minute_by_minute(beside)
    since = begin + timedelta(minutes=minutes)
    store.subscribe("a", start=since)
    store.subscribe("b", start=since.isoformat())
    store.subscribe("c", start=since.replace(tzinfo=None))
    store.finalize()
    if first == 7:  # Later than all there is: what is appended from now on.
        assert peek(store.subscribe("a")) in ([], [6])
        return
    for name in "abc":
        expected = list(range(first, 7))
        assert peek(store.subscribe(name)) == expected
    store = reopened(beside, store)
    assert take(store.subscribe("a")) == list(range(first, 7))


def test_the_latest_is_what_comes_behind_what_is_open(beside: Beside) -> None:
    store = minute_by_minute(beside)
    subscription = store.subscribe("reader", start="latest")
    assert subscription.poll() is None
    beside.fill(store, 2)
    assert peek(subscription) == [7, 8]
    store = reopened(beside, store)
    assert take(store.subscribe("reader", start="earliest")) == [7, 8]


@pytest.mark.parametrize("start, first", [(0, 0), (1, 3), ("01", 3), (2, 6), (99, None)])
def test_a_number_starts_with_its_segment(beside: Beside, start: int | str, first: int) -> None:
    store = minute_by_minute(beside)
    store.subscribe("reader", start=start)
    store.finalize()
    expected = [] if first is None else list(range(first, 7))
    assert peek(store.subscribe("reader")) == expected


@pytest.mark.parametrize("start", ["soon", "", -1, True, 1.5, None, 1 << 63, "2026-13-01"])
def test_what_is_no_start_registers_nobody(beside: Beside, start: object) -> None:
    store = minute_by_minute(beside)
    with pytest.raises(quiver.InputError, match="start"):
        store.subscribe("reader", start=start)
    assert store.info().subscribers == ()


def test_who_is_paused_gets_nothing_over_a_restart_and_all_of_it_later(beside: Beside) -> None:
    store = beside.open()
    subscription = store.subscribe("reader")
    store.pause("reader")
    beside.fill(store, 2)
    assert subscription.poll() is None
    assert subscription.poll_run() is None
    store = reopened(beside, store)
    assert store.lag("reader").is_paused
    assert store.subscribe("reader").poll() is None
    assert store.maintain() == 0
    store.resume("reader")
    store = reopened(beside, store)
    assert take(store.subscribe("reader")) == [0, 1]


def test_a_new_name_keeps_everything_over_a_restart(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    subscription = store.subscribe("reader")
    subscription.poll().ack()
    subscription.poll().nack("1h")
    handle = subscription.poll()
    store.rename("reader", "other")
    with pytest.raises(quiver.SubscriberError):
        subscription.poll()
    with pytest.raises(quiver.SubscriberError):
        handle.ack()
    handle._outcome = "over"
    store.subscribe("third")
    with pytest.raises(quiver.SubscriberError):
        store.rename("other", "third")
    store = reopened(beside, store)
    assert store.info().subscribers == ("other", "third")
    assert take(store.subscribe("other")) == [2, 3]
    beside.clock.step("61m")
    with store.subscribe("other").poll_run(5) as run:
        assert run.attempt == 2


def test_a_reset_starts_over_and_old_handles_have_no_effect(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    subscription = store.subscribe("reader")
    subscription.poll().ack()
    subscription.poll().nack("1h")
    handle = subscription.poll()
    store.reset("reader")
    handle.ack()
    lag = store.lag("reader")
    assert (lag.bundle_count, lag.waiting_count, lag.claimed_count) == (3, 0, 0)
    assert peek(subscription) == [0, 1, 2]
    store = reopened(beside, store)
    assert peek(store.subscribe("reader")) == [0, 1, 2]
    store.reset("reader", start="latest")
    assert store.maintain() == 1
    with pytest.raises(quiver.SubscriberError):
        store.reset("nobody")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_who_is_paused_starts_over_when_it_goes_on(beside: Beside, *, elsewhere: bool) -> None:
    store = beside.open()
    beside.fill(store, 3)
    if elsewhere:
        beside.subscribe().close()
    subscription = store.subscribe("reader")
    subscription.poll().reject("bad")
    subscription.poll().ack()
    lease = store._core.registry.member("reader").lease
    assert (store.lag("reader").dead_letter_count, lease > 0) == (1, elsewhere)
    store.pause("reader")
    store.reset("reader")
    for _ in range(2):
        lag = store.lag("reader")
        assert (lag.is_paused, lag.bundle_count, lag.dead_letter_count) == (True, 3, 0)
        assert store._core.registry.member("reader").lease == lease
        assert store.subscribe("reader").poll() is None
        store = reopened(beside, store)
    store.resume("reader")
    assert take(store.subscribe("reader")) == [0, 1, 2]


def test_after_a_reset_a_subscription_of_one_that_was_elsewhere_goes_on(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)
    beside.subscribe().close()
    subscription = store.subscribe("reader")
    take(subscription)
    store.reset("reader")
    assert take(subscription) == [0, 1]


def letters(beside: Beside) -> dict[str, dict]:
    """Read each dead letter: the numbers of its bundles, by what is said of it."""
    found = {}
    for folder in beside.disk.list_dir("core_0/dead_letters"):
        path = f"core_0/dead_letters/{folder.name}"
        for entry in beside.disk.list_dir(path):
            if entry.name.endswith(".qseg"):
                with SegmentReader.open(beside.disk, f"{path}/{entry.name}") as reader:
                    numbers = [
                        reader.bundle(n)[0].column("n")[0].as_py()
                        for n in range(reader.bundle_count)
                    ]
                file = beside.disk.open(f"{path}/{entry.name}.json")
                about = json.loads(file.read(0, file.size()))
                file.close()
                found[f"{folder.name}/{entry.name}"] = about | {"numbers": numbers}
    return found


def test_what_is_rejected_is_set_aside_with_its_reason(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 5)
    subscription = store.subscribe("reader")
    subscription.poll().reject("no \udc80 sense")
    subscription.poll_run(3).reject()
    one, three = letters(beside).values()
    assert (one["numbers"], one["reason"], one["outcome"]) == ([0], "no \udc80 sense", "rejected")
    assert (three["numbers"], three["wal_seqs"], three["attempts"]) == ([1, 2, 3], [1, 2, 3], 1)
    assert take(subscription) == [4]
    assert store.maintain() == 1
    assert store.lag("reader").dead_letter_count == 4
    store = reopened(beside, store)
    assert store.lag("reader").dead_letter_count == 4
    assert len(letters(beside)) == 2


def test_what_failed_as_often_as_it_may_is_set_aside(beside: Beside) -> None:
    store = beside.open(subscriber={"max_attempts": 3})
    beside.fill(store, 2)
    for attempt in (1, 2, 3):
        handle = store.subscribe("reader").poll()
        assert (number(handle), handle.attempt) == (0, attempt)
        with pytest.raises(ZeroDivisionError), handle:
            raise ZeroDivisionError
        store = reopened(beside, store, subscriber={"max_attempts": 3})
        beside.clock.step("31s")
    (letter,) = letters(beside).values()
    assert (letter["numbers"], letter["attempts"], letter["reason"]) == (
        [0],
        3,
        "ZeroDivisionError",
    )
    assert take(store.subscribe("reader")) == [1]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "short"])
def test_a_dead_letter_that_cannot_be_written_loses_nothing(beside: Beside, error: str) -> None:
    """Each act on the way fails once; in the end there is one copy, whole."""
    store = beside.open()
    beside.fill(store, 2)
    subscription = store.subscribe("reader")
    handle = subscription.poll()
    for act in range(100):
        beside.disk.fail(beside.disk.act_count + act, error=error)
        try:
            handle.reject("bad")
        except quiver.PoisonedError:
            break  # A sync of ack.log failed; only a restart tells what is on the disk.
        except quiver.QuiverError:
            beside.disk.heal()
            if store._core.broken is not None:
                break
            assert store.lag("reader").claimed_count == 1
            continue
        break
    else:
        pytest.fail("it was never written")
    beside.disk.heal()
    handle._outcome = "over"
    beside.die(store)
    store = beside.open()
    left = take(store.subscribe("reader"))
    assert left in ([0, 1], [1])
    if left == [1]:
        assert [letter["numbers"] for letter in letters(beside).values()] == [[0]]


def test_the_last_attempt_on_a_full_disk_is_followed_by_one_more(beside: Beside) -> None:
    store = beside.open(subscriber={"max_attempts": 1})
    beside.fill(store, 1)
    subscription = store.subscribe("reader")
    beside.disk.fail(lambda act: "dead_letters" in act.path, error="ENOSPC", sticky=True)
    subscription.poll().nack(0)
    beside.disk.heal()
    handle = subscription.poll()
    assert handle.attempt == 2
    handle.nack()
    assert store.lag("reader").dead_letter_count == 1
    assert store.maintain() == 1


def test_the_wait_doubles_up_to_its_bound_and_is_shortened_by_a_fifth_at_most(
    beside: Beside,
) -> None:
    store = beside.open(subscriber={"retry_first": "1s", "retry_max": "30s"})
    beside.fill(store, 20)
    subscription = store.subscribe("reader")
    waits: dict[int, set[int]] = {}
    for attempt in range(1, 9):
        handles = []
        while (handle := subscription.poll()) is not None:
            handles.append(handle)
        assert len(handles) == 20
        for handle in handles:
            assert handle.attempt == attempt
            handle.nack()
        now = beside.clock.wall_ns()
        nacks = store._core.registry.member("reader").nacks.values()
        waits[attempt] = {due - now for _, due in nacks}
        beside.clock.step("30s")
    for attempt, found in waits.items():
        whole = min(2 ** (attempt - 1), 30) * 10**9
        assert max(found) <= whole
        assert min(found) >= whole * 0.8
        assert len(found) > 10


def test_what_is_told_of_the_lag_is_what_is_open(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    beside.clock.step("10s")
    beside.fill(store, 4)
    store.subscribe("other")
    subscription = store.subscribe("reader")
    with subscription.poll_run(3):
        pass
    subscription.poll().nack("1h")
    handle = subscription.poll()
    lag = store.lag("reader")
    sizes = [store._core.catalog.get(seq).file_bytes for seq in (0, 1)]
    assert (lag.segment_count, lag.bundle_count) == (2, 5)
    assert lag.byte_count == sizes[0] // 4 + sizes[1]
    assert (lag.claimed_count, lag.waiting_count, lag.pinned_bytes) == (1, 1, 0)
    assert (lag.high_water_mark, lag.oldest_age_ns) == (None, 10 * 10**9)
    assert [each.subscriber for each in store.lags()] == ["other", "reader"]
    store.unsubscribe("other")
    assert store.lag("reader").pinned_bytes == sum(sizes)
    handle.defer()
    assert [slot.name for slot in store.slots] == SLOTS
