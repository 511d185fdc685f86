"""Who waits for the next bundle, and what ends the waiting; several who take under one name."""

from __future__ import annotations

import threading

import pytest
from store_kit import abandon, bundle, numbers

import quiver
from quiver.engine.subscription import Subscription
from quiver.subscriber import BundleHandle

PATIENCE = 60
"""Seconds after which a test gives up; nothing here waits that long."""


class Waiter:
    """A thread that asks for the next bundle; ``waits`` is set once it found none and waits."""

    def __init__(
        self,
        store: quiver.Store,
        subscription: Subscription,
        timeout: str | None,
        *,
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.waits = threading.Event()
        self.found: list[BundleHandle | None] = []
        honest = store._core.changed.wait

        def wait(rest: float | None = None) -> bool:
            self.waits.set()
            return honest(rest)

        patch.setattr(store._core.changed, "wait", wait)

        def take() -> None:
            self.found.append(subscription.next(timeout))

        self._thread = threading.Thread(target=take, daemon=True)
        self._thread.start()
        assert self.waits.wait(PATIENCE)

    def result(self) -> BundleHandle | None:
        self._thread.join(PATIENCE)
        (found,) = self.found
        return found


def number_of(handle: BundleHandle | None) -> object:
    """Give the number of a bundle and ack it."""
    assert handle is not None
    with handle:
        return handle["events"].column("n")[0].as_py()


@pytest.mark.parametrize("timeout", [None, 0, "1h"])
def test_next_gives_a_bundle_that_is_there_without_waiting(
    opener, monkeypatch: pytest.MonkeyPatch, timeout: str | float | None
) -> None:
    store = opener()
    store.append(bundle(5))
    store.finalize()
    subscription = store.subscribe("reader")
    monkeypatch.setattr(store._core.changed, "wait", lambda *_: pytest.fail("it waits"))
    assert number_of(subscription.next(timeout)) == 5


@pytest.mark.parametrize("timeout", [None, "1h"])
def test_one_who_waits_is_woken_by_a_finalized_segment(
    opener, monkeypatch: pytest.MonkeyPatch, timeout: str | None
) -> None:
    store = opener(clock=None)
    waiter = Waiter(store, store.subscribe("reader"), timeout, patch=monkeypatch)
    store.append(bundle(7))
    assert waiter.found == []
    store.finalize()
    assert number_of(waiter.result()) == 7


@pytest.mark.parametrize("timeout", [None, "1h"])
@pytest.mark.parametrize("what", ["store", "subscription"])
def test_closing_ends_the_waiting_with_nothing(
    opener, monkeypatch: pytest.MonkeyPatch, what: str, timeout: str | None
) -> None:
    store = opener(clock=None)
    subscription = store.subscribe("reader")
    waiter = Waiter(store, subscription, timeout, patch=monkeypatch)
    (store if what == "store" else subscription).close()
    assert waiter.result() is None


@pytest.mark.parametrize("timeout", [None, "1h"])
def test_a_subscription_closed_before_the_waiting_gives_nothing_although_there_is_something(
    opener, timeout: str | None
) -> None:
    store = opener(clock=None)
    store.append(bundle(0))
    store.finalize()
    subscription = store.subscribe("reader")
    subscription.close()
    assert subscription.next(timeout) is None
    assert list(subscription) == []
    assert numbers(store) == [0]


def test_one_who_waits_gets_a_bundle_when_the_time_of_its_retry_has_come(opener) -> None:
    store = opener(clock=None)
    store.append(bundle(3))
    store.finalize()
    subscription = store.subscribe("reader")
    subscription.poll().nack(retry_after="20ms")
    handle = subscription.next("1h")
    assert handle.attempt == 2
    assert number_of(handle) == 3


def test_one_who_waits_gets_a_bundle_that_another_gives_back(
    opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener(clock=None)
    store.append(bundle(4))
    store.finalize()
    held = store.subscribe("reader").poll()
    waiter = Waiter(store, store.subscribe("reader"), None, patch=monkeypatch)
    held.defer()
    assert number_of(waiter.result()) == 4


def test_subscribing_twice_shares_one_position_and_each_bundle_goes_to_one(opener) -> None:
    store = opener()
    for n in range(4):
        store.append(bundle(n))
    store.finalize()
    first, second = store.subscribe("reader"), store.subscribe("reader")
    taken = [number_of(one.poll()) for one in (first, second, first, second)]
    assert taken == [0, 1, 2, 3]
    assert first.poll() is second.poll() is None
    assert store.info().subscribers == ("reader",)


def test_acks_of_a_finished_tick_outlive_a_kill(opener) -> None:
    store = opener()
    for n in range(4):
        store.append(bundle(n))
    store.finalize()
    subscription = store.subscribe("reader")
    for expected in (0, 1):
        assert number_of(subscription.poll()) == expected
    store.maintain()
    abandon(store)
    assert numbers(opener()) == [2, 3]


def test_a_bundle_held_at_a_kill_comes_again_and_those_acked_around_it_do_not(opener) -> None:
    store = opener()
    for n in range(3):
        store.append(bundle(n))
    store.finalize()
    subscription = store.subscribe("reader")
    number_of(subscription.poll())
    held = subscription.poll()
    number_of(subscription.poll())
    store.maintain()
    abandon(store)
    again = opener()
    assert numbers(again) == [1]
    with pytest.raises(quiver.ClosedError):
        held.ack()
    with pytest.warns(ResourceWarning, match="bundle 1 of segment 0"):
        del held
