"""Receipts: what durable means in each mode, who syncs for whom, and how a wait ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from gated_disk import PATIENCE, GatedDisk
from receipt_kit import FAR, MODES, Background, Told, after_power_cuts
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.clock import SystemClock
from quiver.engine import ingest
from quiver.engine.waiters import ThreadWaiter
from quiver.testing import ManualClock, MemoryDisk


@pytest.mark.parametrize("mode", MODES)
def test_durable_means_a_power_cut_in_every_mode(mode: str) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, wal={"durability": mode})
    receipt = store.append(bundle(7), wait=False)
    assert not receipt.is_durable
    assert [] in after_power_cuts(disk)
    assert receipt.wait() == receipt.wal_seq == 0
    assert receipt.is_durable
    assert all(found == [7] for found in after_power_cuts(disk))


def test_appends_of_many_threads_share_two_syncs(
    disk: GatedDisk, open_gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_gated(worker=False)
    taken = threading.Semaphore(0)
    honest = ingest.take

    def take(*args: Any, **options: Any) -> Any:
        try:
            return honest(*args, **options)
        finally:
            taken.release()

    monkeypatch.setattr(ingest, "take", take)
    disk.gate.shut()
    before = disk.gate.arrivals
    threads = [Background(lambda n=n: store.append(bundle(n))) for n in range(24)]
    for _ in threads:
        assert taken.acquire(timeout=PATIENCE)
    disk.gate.open()
    assert sorted(thread.outcome() for thread in threads) == list(range(24))
    assert disk.gate.arrivals - before <= 2
    assert store.metrics()["quiver.wal.syncs", ""] <= 2
    store.finalize()
    assert sorted(numbers(store)) == list(range(24))


@pytest.mark.parametrize("timeout", [None, "1h"])
@pytest.mark.parametrize("worker", [True, False])
def test_the_receipts_of_one_thread_share_one_sync(
    disk: GatedDisk, open_gated, timeout: str | None, *, worker: bool
) -> None:
    store = open_gated(worker=worker, wal={"flush_interval": "1h"})
    before = disk.gate.arrivals
    receipts = [store.append(bundle(n), wait=False) for n in range(10)]
    assert receipts[-1].wait(timeout) == 9
    assert all(receipt.is_durable for receipt in receipts)
    assert [receipt.wait(timeout) for receipt in receipts] == list(range(10))
    assert disk.gate.arrivals == before + 1


@pytest.mark.parametrize("mode", MODES)
def test_a_segment_makes_receipts_durable_without_a_sync_of_the_log(
    disk: GatedDisk, open_gated, mode: str
) -> None:
    store = open_gated(worker=False, wal={"durability": mode})
    receipt = store.append(bundle(0), wait=False)
    before = disk.gate.arrivals
    store.finalize()
    assert receipt.is_durable
    assert receipt.wait() == 0
    assert disk.gate.arrivals == before


def test_a_rotation_makes_durable_what_is_in_the_file_that_it_retires(open_gated) -> None:
    store = open_gated(worker=False, wal={"rotate_size": 1})
    first, second = (store.append(bundle(n), wait=False) for n in range(2))
    assert (first.is_durable, second.is_durable) == (True, False)


@pytest.mark.usefixtures("no_ticks")
@pytest.mark.parametrize("mode", ["sync", "interval"])
def test_the_tail_of_a_burst_is_synced_once_when_its_time_has_come(
    disk: GatedDisk, open_gated, mode: str
) -> None:
    clock = ManualClock()
    store = open_gated(clock=clock, wal={"durability": mode, "flush_interval": "20ms"})
    for _ in range(3):
        before = disk.gate.arrivals
        receipts = [store.append(bundle(n), wait=False) for n in range(5)]
        told = [Told(receipt) for receipt in receipts]
        assert not any(receipt.is_durable for receipt in receipts)
        clock.step("20ms")
        for waiter in told:
            waiter.wait()
        assert all(receipt.is_durable for receipt in receipts)
        assert disk.gate.arrivals == before + 1


def test_a_worker_with_nothing_to_do_sleeps_until_the_next_tick(open_gated) -> None:
    clock = ManualClock()
    store = open_gated(clock=clock, wal={"durability": "interval", "flush_interval": "1ms"})
    assert store.worker._rest_ns() == 250_000_000
    told = Told(store.append(bundle(0), wait=False))
    clock.step("1ms")
    told.wait()
    assert store.worker._rest_ns() == 249_000_000


def test_a_timeout_costs_nothing_and_the_wait_may_be_repeated(disk: GatedDisk, open_gated) -> None:
    store = open_gated()
    disk.gate.shut()
    receipt = store.append(bundle(0), wait=False)
    for timeout in (0, "1ms", 0.001):
        with pytest.raises(quiver.WaitTimeoutError, match="wait again") as caught:
            receipt.wait(timeout)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.retryable
    assert not receipt.is_durable
    disk.gate.open()
    assert receipt.wait("60s") == 0
    assert receipt.is_durable


def test_without_a_worker_the_waiter_syncs_and_its_timeout_bounds_only_the_wait_for_others(
    disk: GatedDisk, open_gated
) -> None:
    store = open_gated(worker=False)
    assert store.append(bundle(0), wait=False).wait(0) == 0
    receipt = store.append(bundle(1), wait=False)
    disk.gate.shut()
    leader = Background(receipt.wait)
    while disk.gate.arrivals < 2:
        disk.gate.wait_for_arrival()
    for timeout in (0, "1ms"):
        with pytest.raises(quiver.WaitTimeoutError):
            receipt.wait(timeout)
    disk.gate.open()
    assert leader.outcome() == 1
    assert receipt.wait(0) == 1


@pytest.mark.parametrize("timeout", ["soon", -1, True])
def test_a_timeout_that_is_none_is_refused(open_gated, timeout: object) -> None:
    receipt = open_gated().append(bundle(0), wait=False)
    with pytest.raises(quiver.InputError, match="timeout"):
        receipt.wait(timeout)


def test_a_failed_sync_is_told_to_all_who_wait_and_takes_back_nothing(
    disk: GatedDisk, open_gated
) -> None:
    store = open_gated()
    early = store.append(bundle(0), wait=False)
    early.wait()
    disk.gate.shut()
    receipts = [store.append(bundle(n), wait=False) for n in range(1, 4)]
    waits = [
        Background(lambda: store.append(bundle(4))),
        Background(receipts[0].wait),
        Background(lambda: receipts[1].wait("1h")),
        Background(store.flush),
    ]
    disk.gate.wait_for_arrival()
    disk.fail_syncs_of_the_log()
    disk.gate.open()
    for wait in waits:
        assert isinstance(wait.outcome(), quiver.PoisonedError)
    for receipt in receipts:
        assert not receipt.is_durable
        for timeout in (None, "1h"):
            with pytest.raises(quiver.PoisonedError):
                receipt.wait(timeout)
        late = ThreadWaiter(receipt._ticket)
        store._commit.add(late)
        with pytest.raises(quiver.PoisonedError):
            late.wait(SystemClock(), FAR)
    assert early.is_durable
    assert early.wait() == early.wait(0) == 0


@pytest.mark.parametrize("timeout", [None, "1h"])
def test_a_segment_that_cannot_be_written_is_told_and_may_be_asked_for_again(
    disk: GatedDisk, open_gated, timeout: str | None
) -> None:
    store = open_gated(wal={"durability": "segment"})
    receipt = store.append(bundle(0), wait=False)
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    with pytest.raises(quiver.CapacityError):
        receipt.wait(timeout)
    assert not receipt.is_durable
    disk.heal()
    assert receipt.wait(timeout) == 0
