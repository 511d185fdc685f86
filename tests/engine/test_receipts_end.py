"""How a wait for durability ends when its store does: closed, broken off, or left by its worker."""

from __future__ import annotations

import threading

import pytest
from gated_disk import PATIENCE, GatedDisk
from receipt_kit import FAR, MODES, Background, after_power_cuts
from store_kit import bundle

import quiver
from quiver.clock import SystemClock
from quiver.engine.waiters import ThreadWaiter
from quiver.engine.worker import Listening, Worker
from quiver.wal import Log


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("timeout", [None, "1h"])
def test_who_waits_while_the_store_closes_learns_what_came_of_it(
    disk: GatedDisk, open_gated, mode: str, timeout: str | None
) -> None:
    store = open_gated(wal={"durability": mode, "flush_interval": "1h"})
    receipt = store.append(bundle(0), wait=False)
    disk.gate.shut(".qseg.tmp")
    closing = Background(store.close)
    disk.gate.wait_for_arrival()
    wait = Background(lambda: receipt.wait(timeout))
    disk.gate.open()
    assert wait.outcome() == 0
    assert closing.outcome() is None
    assert receipt.is_durable
    assert receipt.wait(timeout) == 0


def test_a_close_that_fails_says_so_to_who_waits(disk: GatedDisk, open_gated) -> None:
    store = open_gated(worker=False, wal={"durability": "segment"})
    receipt = store.append(bundle(0), wait=False)
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    with pytest.raises(quiver.CapacityError):
        store.close()
    assert not receipt.is_durable
    with pytest.raises(quiver.ClosedError, match="closed before"):
        receipt.wait()


@pytest.mark.parametrize("timeout", [None, "1h"])
def test_who_waits_while_a_close_fails_is_not_told_that_all_is_well(
    disk: GatedDisk, open_gated, timeout: str | None
) -> None:
    store = open_gated(wal={"durability": "segment"})
    receipt = store.append(bundle(0), wait=False)
    disk.gate.shut(".qseg.tmp")
    closing = Background(store.close)
    disk.gate.wait_for_arrival()
    waiter = ThreadWaiter(receipt._ticket)
    store._commit.add(waiter)
    wait = Background(lambda: receipt.wait(timeout))
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    disk.gate.open()
    assert isinstance(closing.outcome(), quiver.CapacityError)
    assert isinstance(wait.outcome(), quiver.ClosedError)
    with pytest.raises(quiver.ClosedError):
        waiter.wait(SystemClock(), FAR)
    assert not receipt.is_durable


def test_a_log_synced_by_a_close_that_could_not_finalize_still_makes_durable(
    disk: GatedDisk, open_gated
) -> None:
    store = open_gated(worker=False)
    receipt = store.append(bundle(0), wait=False)
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    with pytest.raises(quiver.CapacityError):
        store.close()
    assert receipt.is_durable
    assert all(found == [0] for found in after_power_cuts(disk))


def test_two_who_close_at_once_close_once(disk: GatedDisk, open_gated) -> None:
    store = open_gated()
    store.append(bundle(0))
    disk.gate.shut(".qseg.tmp")
    first = Background(store.close)
    disk.gate.wait_for_arrival()
    second = Background(store.close)
    disk.gate.open()
    assert first.outcome() is second.outcome() is None


def test_two_who_get_to_the_end_of_the_worker_at_once_close_once(
    disk: GatedDisk, open_gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_gated()
    store.append(bundle(0))
    both = threading.Barrier(2)
    honest = Worker.stop

    def stop(worker: Worker) -> None:
        honest(worker)
        both.wait(PATIENCE)

    monkeypatch.setattr(Worker, "stop", stop)
    closing = [Background(store.close) for _ in range(2)]
    assert [one.outcome() for one in closing] == [None, None]
    assert store.closed


class Greedy:
    """A job that posts itself again until a bundle is durable."""

    def __init__(self, worker: Worker, receipt: quiver.Receipt) -> None:
        self._worker = worker
        self._receipt = receipt

    def run(self) -> None:
        if not self._receipt.is_durable:
            self._worker.post(self)

    def refuse(self, error: Exception) -> None:
        """It may be the last one."""


def test_jobs_that_never_end_do_not_hold_up_a_sync(open_gated) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    receipt = store.append(bundle(0), wait=False)
    store.worker.post(Greedy(store.worker, receipt))
    assert receipt.wait("20s") == 0


def end_thread() -> None:
    """What a worker may be struck by outside of all that it calls."""
    raise SystemExit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("no_ticks")
def test_a_worker_that_dies_leaves_nobody_waiting(
    open_gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    receipt = store.append(bundle(0), wait=False)
    waiter = ThreadWaiter(receipt._ticket)
    store._commit.add(waiter)
    monkeypatch.setattr(store.worker, "_take_turn", end_thread)
    store.hasten()
    with pytest.raises(quiver.ClosedError):
        waiter.wait(SystemClock(), FAR)
    store.worker._thread.join(PATIENCE)
    with pytest.raises(quiver.ClosedError):
        store.worker.post(Listening(end_thread))
    assert receipt.wait("1h") == 0


class Interrupt(BaseException):
    """What a signal handler may raise anywhere."""


def test_a_leader_that_is_broken_off_before_its_sync_leaves_the_lead_to_others(
    open_gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_gated(worker=False)
    receipt = store.append(bundle(0), wait=False)

    def broken(*_: object) -> None:
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "sync", broken)
        with pytest.raises(Interrupt):
            receipt.wait()
    assert not receipt.is_durable
    assert receipt.wait() == 0


def test_the_copy_in_a_forked_child_does_not_wait(open_gated) -> None:
    store = open_gated(worker=False)
    receipts = [store.append(bundle(n), wait=False) for n in range(2)]
    receipts[0].wait()
    later = store.append(bundle(2), wait=False)
    owner, store._core.owner = store._core.owner, -1
    assert receipts[0].wait() == 0
    assert not later.is_durable
    for timeout in (None, 0):
        with pytest.raises(quiver.ClosedError, match="fork"):
            later.wait(timeout)
    store._core.owner = owner
    assert later.wait() == 2
