"""Entries that wait for the write: order, refusals, and each end that a store may come to."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from gated_disk import PATIENCE, GatedDisk
from outgoing_kit import QUIET, numbers_after, send, waiting
from receipt_kit import after_power_cuts
from store_kit import bundle

from quiver.engine.outgoing import Outgoing
from quiver.wal import Log

pytestmark = pytest.mark.usefixtures("no_ticks")


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each write had that was for several."""
    counts: list[int] = []
    honest = Log.append_all

    def append_all(self: Log, entries: Any) -> Any:
        counts.append(len(entries))
        return honest(self, entries)

    monkeypatch.setattr(Log, "append_all", append_all)
    return counts


def test_what_is_not_waited_for_is_written_with_one_call(open_gated, writes: list[int]) -> None:
    store = open_gated(wal=QUIET)
    receipts = send(store, *range(7))
    assert (waiting(store), store.info().wal_bytes) == (7, 0)
    assert receipts[3].wait() == 3
    assert (waiting(store), writes) == (0, [7])
    assert all(receipt.is_durable for receipt in receipts)


def test_until_it_is_written_nothing_was_promised_and_nothing_is_damaged(
    disk: GatedDisk, open_gated
) -> None:
    store = open_gated(wal=QUIET)
    send(store, 0)[0].wait()
    lost = send(store, 1, 2)
    assert waiting(store) == 2
    assert not any(receipt.is_durable for receipt in lost)
    assert all(found == [0] for found in after_power_cuts(disk))
    store.flush()
    assert all(found == [0, 1, 2] for found in after_power_cuts(disk))


def test_what_is_waited_for_is_written_behind_what_waits(
    disk: GatedDisk, open_gated, writes: list[int]
) -> None:
    store = open_gated(wal=QUIET)
    send(store, 0, 1)
    assert store.append(bundle(2)) == 2
    assert (waiting(store), writes) == (0, [2])
    assert all(found == [0, 1, 2] for found in after_power_cuts(disk))


@pytest.mark.parametrize("mode", ["interval", "segment"])
def test_only_where_an_append_promises_nothing_may_its_entry_wait(open_gated, mode: str) -> None:
    store = open_gated(wal={**QUIET, "durability": mode})
    send(store, 0, 1)
    assert waiting(store) == 0
    assert (store.info().wal_bytes > 0) == (mode == "interval")


def test_without_a_worker_each_append_writes(open_gated) -> None:
    store = open_gated(worker=False, wal=QUIET)
    send(store, 0)
    assert (waiting(store), store.info().wal_bytes > 0) == (0, True)


def test_a_bundle_with_progress_does_not_wait(open_gated, writes: list[int]) -> None:
    store = open_gated(wal=QUIET)
    follower = store.follow("source")
    send(store, 0)
    store.append(bundle(1), wait=False, progress=follower.at({"split": "1"}))
    assert (waiting(store), writes) == (0, [1])


@pytest.mark.parametrize("act", ["finalize", "flush", "maintain", "close"])
def test_whatever_says_that_all_is_there_writes_first(
    disk: GatedDisk, open_gated, act: str
) -> None:
    store = open_gated(wal=QUIET)
    receipts = send(store, *range(5))
    getattr(store, act)()
    assert all(receipt.is_durable for receipt in receipts)
    assert all(found == [0, 1, 2, 3, 4] for found in after_power_cuts(disk))


def test_a_segment_covers_what_is_in_the_log_and_no_more(disk: GatedDisk, open_gated) -> None:
    store = open_gated(wal=QUIET)
    first = send(store, *range(3))
    disk.gate.on_arrival = lambda: send(store, 3)  # While the segment is written.
    disk.gate.path_end = ".qseg.tmp"
    store.finalize()
    disk.gate.on_arrival = lambda: None
    assert all(receipt.is_durable for receipt in first)
    assert store._core.covered_wal_seq == 2
    assert waiting(store) == store.info().open_bundles == 1
    assert all(found == [0, 1, 2] for found in after_power_cuts(disk))


def test_the_caps_count_what_waits(open_gated) -> None:
    store = open_gated(
        wal={**QUIET, "max_size": 20_000, "rotate_size": 20_000},
        limits={"entry_bytes": 10_000},
        segment={"target_size": 1 << 20},
    )
    for n in range(60):  # More than twice the cap: what is open goes into segments.
        send(store, n)
        assert store._core.log.live_bytes + store._core.outgoing.byte_count <= 20_000
    assert store._core.covered_wal_seq > 0
    assert numbers_after(store) == list(range(60))


def test_a_file_that_is_full_is_left_with_nothing_waiting(open_gated) -> None:
    store = open_gated(wal={**QUIET, "rotate_size": 3000})
    for n in range(20):
        send(store, n)
        log, outgoing = store._core.log, store._core.outgoing
        assert log._writer.end - log._first + outgoing.byte_count <= 3000
    assert store._core.log.file_count > 1
    assert numbers_after(store) == list(range(20))


def test_the_worker_writes_what_is_worth_it_and_whoever_appends_what_is_too_much(
    open_gated, writes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quiver.engine.outgoing._WAITING_BYTES", 4000)
    store = open_gated(wal=QUIET)
    asked = threading.Event()
    monkeypatch.setattr(store._worker, "write_soon", asked.set)
    for n in range(20):
        send(store, n)
        assert store._core.outgoing.byte_count <= 4000
    assert writes
    assert not asked.is_set()
    store.flush()
    monkeypatch.setattr("quiver.engine.outgoing._HASTE_BYTES", 1)
    send(store, 20)
    assert (waiting(store), asked.is_set()) == (1, True)
    monkeypatch.undo()
    written, honest = threading.Event(), Outgoing._let_go

    def let_go(*args: Any) -> None:
        honest(*args)
        written.set()

    monkeypatch.setattr(Outgoing, "_let_go", let_go)
    store._worker.write_soon()
    assert written.wait(PATIENCE)
    assert waiting(store) == 0
