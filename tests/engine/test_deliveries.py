"""Subscribers: progress, retries, restarts, waiting."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from store_kit import bundle, numbers

import quiver
from quiver.testing import ManualClock
from quiver.units import SECOND


def segments(path: Path) -> list[str]:
    return sorted(p.name for p in (path / "core_0/segments").iterdir())


def test_two_subscribers_progress_apart_and_deletion_waits_for_both(opener, path: Path) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    store.subscribe("slow")
    assert numbers(store, "fast") == [0]
    assert store.maintain() == 0
    assert segments(path)
    assert numbers(store, "slow") == [0]
    assert store.maintain() == 1
    assert segments(path) == []


def test_without_a_subscriber_nothing_is_deleted(opener, path: Path) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    assert store.maintain() == 0
    assert segments(path)


def test_unsubscribing_frees_what_only_that_one_needed(opener, path: Path) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    store.subscribe("gone")
    assert numbers(store, "here") == [0]
    store.unsubscribe("gone")
    assert store.maintain() == 1
    with pytest.raises(quiver.SubscriberError, match="gone"):
        store.unsubscribe("gone")


def test_partly_acked_then_restarted_only_the_rest_comes(opener) -> None:
    with opener() as store:
        for n in range(4):
            store.append(bundle(n))
        store.finalize()
        subscription = store.subscribe("reader")
        for _ in range(2):
            subscription.poll().ack()
    with opener() as store:
        assert numbers(store) == [2, 3]


def test_a_bundle_that_failed_comes_again_after_its_time(opener, clock: ManualClock) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    subscription = store.subscribe("reader")
    with pytest.raises(RuntimeError), subscription.poll():
        raise RuntimeError("the sink is down")
    assert subscription.poll() is None
    clock.step("2s")
    handle = subscription.poll()
    assert handle.attempt == 2
    handle.nack(retry_after="1h")
    clock.step("59m")
    assert subscription.poll() is None
    clock.step("2m")
    handle = subscription.poll()
    assert handle.attempt == 3
    handle.defer()
    handle = subscription.poll()
    assert handle.attempt == 3
    handle.ack()


@pytest.mark.parametrize("asked", ["poll", "tick", "log", "checkpoint"])
def test_a_bundle_that_failed_before_a_clock_was_set_back_comes_again(
    opener, clock: ManualClock, asked: str
) -> None:
    """Noticed at the next poll or tick, or after a restart from the log or a checkpoint."""
    now_ns = clock.wall_ns()
    store = opener({"acks": {"max_size": 1 if asked == "checkpoint" else 1 << 20}})
    store.append(bundle(0))
    store.finalize()
    subscription = store.subscribe("reader")
    handle = subscription.poll()
    clock.jump_to(now_ns + (1 << 31) * SECOND)
    handle.nack(retry_after="1h")
    if asked == "checkpoint":
        store.maintain()
    clock.jump_to(now_ns)
    if asked in ("log", "checkpoint"):
        store.close()
        store = opener()
        subscription = store.subscribe("reader")
    if asked == "tick":
        store.maintain()
    else:
        assert subscription.poll() is None
    clock.step("59m")
    assert subscription.poll() is None
    clock.step("2m")
    handle = subscription.poll()
    assert handle.attempt == 2
    handle.ack()


def test_attempts_and_retry_times_survive_a_restart(opener, clock: ManualClock) -> None:
    with opener() as store:
        store.append(bundle(0))
        store.finalize()
        store.subscribe("reader").poll().nack(retry_after="1h")
    store = opener()
    subscription = store.subscribe("reader")
    assert subscription.poll() is None
    clock.step("61m")
    handle = subscription.poll()
    assert handle.attempt == 2
    handle.ack()


def test_a_checkpoint_keeps_every_outcome_and_bounds_the_log(opener, path: Path) -> None:
    config = {"acks": {"max_size": 1000}, "segment": {"target_size": 3000}}
    with opener(config) as store:
        store.subscribe("other")
        for n in range(200):
            store.append(bundle(n))
        store.finalize()
        subscription = store.subscribe("reader")
        for _ in range(150):
            subscription.poll().ack()
            store.maintain()
        assert (path / "core_0/acks/checkpoint").exists()
        assert (path / "core_0/acks/ack.log").stat().st_size < 2000
    with opener(config) as store:
        assert numbers(store) == list(range(150, 200))
        assert numbers(store, "other") == list(range(200))


def test_a_forgotten_handle_is_offered_again(opener) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    subscription = store.subscribe("reader")
    handle = subscription.poll()
    assert subscription.poll() is None
    with pytest.warns(ResourceWarning):
        del handle
    assert numbers(store) == [0]


def test_a_handle_that_is_deferred_behind_the_end_of_its_store_is_not_lost(opener) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    handle = store.subscribe("reader").poll()
    store.close()
    with pytest.raises(quiver.ClosedError):
        handle.defer()
    assert handle.resolved
    del handle  # Without a warning, which would fail this test.
    assert numbers(opener()) == [0]


def test_next_wakes_when_a_segment_is_finalized(opener) -> None:
    store = opener(clock=None)
    subscription = store.subscribe("reader")
    found: list[quiver.Store] = []
    waiting = threading.Thread(target=lambda: found.append(subscription.next("60s")))
    waiting.start()
    store.append(bundle(7))
    store.finalize()
    waiting.join(60)
    assert found[0]["events"].column("n")[0].as_py() == 7
    found[0].ack()


def test_next_gives_none_at_its_timeout_and_at_close(opener) -> None:
    store = opener(clock=None)
    subscription = store.subscribe("reader")
    assert subscription.next(0) is None
    assert subscription.next("1ms") is None
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(subscription))
    waiting.start()
    store.close()
    waiting.join(60)
    assert not waiting.is_alive()
    assert found == []


def test_a_closed_subscription_gives_nothing(opener) -> None:
    subscription = opener().subscribe("reader")
    subscription.close()
    assert subscription.next() is None
    with pytest.raises(quiver.ClosedError):
        subscription.poll()
