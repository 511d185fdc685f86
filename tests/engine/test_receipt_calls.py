"""A function that a receipt calls may raise: it is told of, and nobody else notices."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading

import pytest
from gated_disk import PATIENCE
from outgoing_kit import fill
from store_kit import bundle

import quiver


def broken(_: Exception | None) -> None:
    raise ZeroDivisionError


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger="quiver.engine")
    return caplog


def test_those_behind_one_that_raises_are_told_the_truth(open_gated, no_ticks, told) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    heard: list[Exception | None] = []
    last = threading.Event()
    for number in range(3):
        receipt = store.append(bundle(number), wait=False)
        receipt.call(broken)
        receipt.call(heard.append)
    receipt.call(lambda _: last.set())
    store.hasten()
    assert last.wait(PATIENCE)
    assert heard == [None] * 3
    store.flush()
    assert [(r.message, r.error) for r in told.records] == [
        ("receipt.call_failed", "ZeroDivisionError")
    ]


def test_who_syncs_for_all_does_not_get_what_one_raises(open_gated, no_ticks, told) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    store.append(bundle(0), wait=False).call(broken)
    assert store.append(bundle(1), wait=False).wait() == 1
    assert [record.message for record in told.records] == ["receipt.call_failed"]


def test_one_that_exits_ends_no_worker(open_gated) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    last = threading.Event()
    store.append(bundle(0), wait=False).call(lambda _: sys.exit(3))
    store.append(bundle(1), wait=False).call(lambda _: last.set())
    store.hasten()
    assert last.wait(PATIENCE)  # Who is behind it is told by the next tick.
    assert not store.worker.ended


@pytest.mark.parametrize("end", ["finalize", "refused", "close"])
def test_whoever_is_called_holds_no_lock_of_the_store(disk, open_gated, no_ticks, end) -> None:
    """It may want a lock of its own, which somebody has who appends meanwhile."""
    store = open_gated(wal={"flush_interval": "1h"})
    heard, called = [], threading.Event()

    def act(error: Exception | None) -> None:
        heard.append((type(error), store._core.lock._is_owned()))
        called.set()

    store.append(bundle(1), wait=False).call(act)
    if end == "refused":
        fill(disk, store, 0)
    with contextlib.suppress(quiver.CapacityError):
        getattr(store, "close" if end == "close" else "finalize")()
    assert called.wait(PATIENCE)
    assert heard == [(quiver.CapacityError if end == "refused" else type(None), False)]


def test_nor_does_who_asks_for_what_is_durable_already(open_gated, told) -> None:
    store = open_gated()
    receipt = store.append(bundle(0), wait=False)
    receipt.wait()
    receipt.call(broken)
    assert [record.message for record in told.records] == ["receipt.call_failed"]
