"""A function that a receipt calls may raise: it is told of, and nobody else notices."""

from __future__ import annotations

import logging
import threading

import pytest
from gated_disk import PATIENCE
from store_kit import bundle


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


def test_nor_does_who_asks_for_what_is_durable_already(open_gated, told) -> None:
    store = open_gated()
    receipt = store.append(bundle(0), wait=False)
    receipt.wait()
    receipt.call(broken)
    assert [record.message for record in told.records] == ["receipt.call_failed"]
