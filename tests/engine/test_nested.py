"""Calls to a store out of the midst of another call, as signal handlers make: none gets in."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from gated_disk import GatedDisk
from outgoing_kit import QUIET, send
from receipt_kit import after_power_cuts
from store_kit import bundle, numbers

import quiver
from quiver.engine import Store
from quiver.engine.outgoing import Outgoing
from quiver.segment import OpenSegment

pytestmark = pytest.mark.usefixtures("no_ticks")

ACTS: dict[str, Callable[[Store], Any]] = {
    "append": lambda store: store.append(bundle(9)),
    "append, not waited for": lambda store: store.append(bundle(9), wait=False),
    "flush": Store.flush,
    "finalize": Store.finalize,
    "maintain": Store.maintain,
    "close": Store.close,
    "subscribe": lambda store: store.subscribe("late"),
    "pause": lambda store: store.pause("s"),
    "progress": lambda store: store.progress("in"),
    "follow": lambda store: store.follow("in"),
    "heartbeat": Store.heartbeat,
}


class Nested:
    """Does something once, out of the midst of another call, by a signal handler."""

    def __init__(self, store: Store, act: str) -> None:
        self.said: list[str] = []
        self._store, self._act = store, ACTS[act]
        self._before = signal.signal(signal.SIGUSR1, self._strike)

    def strike(self) -> None:
        if not self.said:
            os.kill(os.getpid(), signal.SIGUSR1)

    def end(self) -> None:
        signal.signal(signal.SIGUSR1, self._before)

    def _strike(self, *_: object) -> None:
        self.said.append("struck")
        with pytest.raises(quiver.CapacityError, match="in the middle of another call"):
            self._act(self._store)
        self.said.append("refused")


@pytest.fixture
def store(open_gated) -> Store:
    store = open_gated(wal=QUIET)
    store.subscribe("s").close()
    store.append(bundle(0))
    return store


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("place", ["numbered", "writing", "syncing"])
def test_a_signal_handler_gets_nothing_in_between(
    disk: GatedDisk, store: Store, monkeypatch: pytest.MonkeyPatch, *, act: str, place: str
) -> None:
    nested = Nested(store, act)

    def struck(honest: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nested.strike()
            return honest(*given, **named)

        return call

    if place == "numbered":
        monkeypatch.setattr(OpenSegment, "add", struck(OpenSegment.add))
    elif place == "writing":
        monkeypatch.setattr(Outgoing, "_oldest", struck(Outgoing._oldest))
    else:
        disk.gate.on_arrival = nested.strike
    try:
        [receipt] = send(store, 1)
        assert receipt.wait() == 1
        assert store.append(bundle(2)) == 2
    finally:
        nested.end()
        disk.gate.on_arrival = lambda: None
    assert nested.said == ["struck", "refused"]
    assert all(found == [0, 1, 2] for found in after_power_cuts(disk))
    store.finalize()
    assert numbers(store) == [0, 1, 2]


@pytest.mark.parametrize("outcome", ["ack", "nack", "reject"])
def test_nor_does_an_outcome(store: Store, monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    store.finalize()
    subscription = store.subscribe("s")
    handle = subscription.next(timeout=0)
    assert handle is not None
    monkeypatch.setitem(ACTS, "outcome", lambda _: getattr(handle, outcome)())
    nested = Nested(store, "outcome")
    honest = OpenSegment.add

    def add(*given: Any, **named: Any) -> None:
        nested.strike()
        honest(*given, **named)

    monkeypatch.setattr(OpenSegment, "add", add)
    try:
        assert store.append(bundle(1)) == 1
    finally:
        nested.end()
    assert nested.said == ["struck", "refused"]
    handle.ack()


def test_who_only_looks_may(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, seen = OpenSegment.add, []

    def add(*given: Any, **named: Any) -> None:
        seen.append((store.info().subscribers, store.lag("s").subscriber, len(store.lags())))
        honest(*given, **named)

    monkeypatch.setattr(OpenSegment, "add", add)
    assert store.append(bundle(1)) == 1
    assert [tuple(names) for names, _, _ in seen] == [("s",)]
