"""What the disk refuses of entries that wait, what is broken off, and many at once."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from gated_disk import GatedDisk
from outgoing_kit import LOG, QUIET, fill, numbers_after, send, waiting
from receipt_kit import Background, after_power_cuts
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.engine.outgoing import Outgoing
from quiver.wal import Log

pytestmark = pytest.mark.usefixtures("no_ticks")


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("act", ["wait", "flush", "finalize", "maintain", "close", "append"])
def test_refused_are_those_alone_whose_receipts_say_so(
    disk: GatedDisk, open_gated, act: str, error: str
) -> None:
    store = open_gated(wal=QUIET)
    send(store, 0)[0].wait()
    receipts = send(store, *range(1, 6))
    fill(disk, store, 3, error)
    refused = quiver.CapacityError if error == "ENOSPC" else quiver.StorageError
    acts = {"wait": receipts[1].wait, "append": lambda: store.append(bundle(6))}
    if act == "wait":  # Its own bundle found room.
        assert receipts[1].wait() == 2
    else:
        with pytest.raises(refused):
            acts.get(act, getattr(store, act))()
    disk.heal()
    for receipt in receipts[:3]:
        assert receipt.wait() == receipt.wal_seq
    for receipt in receipts[3:]:
        assert not receipt.is_durable
        for timeout in (None, "1h"):
            with pytest.raises(refused):
                receipt.wait(timeout)
    kept = [0, 1, 2, 3]
    if act != "close":
        assert store.metrics()["quiver.wal.refused_bundles", ""] == 2
        assert store.append(bundle(6)) == 4
        assert not receipts[3].is_durable  # Although another bundle has its number.
        store.flush()
        kept.append(6)
    assert all(found == kept for found in after_power_cuts(disk))


def test_a_flush_tells_once_what_nobody_was_told(disk: GatedDisk, open_gated) -> None:
    store = open_gated(wal=QUIET)
    receipts = send(store, 0, 1)
    fill(disk, store, 0)
    store._worker.write_soon()
    with pytest.raises(quiver.CapacityError):
        receipts[1].wait("1h")
    with pytest.raises(quiver.CapacityError):
        store.flush()
    store.flush()
    with pytest.raises(quiver.CapacityError):
        receipts[0].wait()


def test_once_refused_appends_find_out_themselves_until_one_has_room(
    disk: GatedDisk, open_gated
) -> None:
    store = open_gated(wal=QUIET)
    [receipt] = send(store, 0)
    fill(disk, store, 0)
    with pytest.raises(quiver.CapacityError):
        receipt.wait()
    with pytest.raises(quiver.CapacityError):
        store.append(bundle(1), wait=False)
    disk.heal()
    send(store, 2)
    assert waiting(store) == 0
    send(store, 3)
    assert waiting(store) == 1
    assert numbers_after(store) == [2, 3]


def test_what_was_prepared_of_refused_bundles_is_forgotten(disk: GatedDisk, open_gated) -> None:
    store = open_gated(wal=QUIET)
    send(store, 0, 1)
    store.flush()
    send(store, 2, 3)
    quiver.engine.scribe.look_ahead(store._core)
    fill(disk, store, 0)
    with pytest.raises(quiver.CapacityError):
        store.flush()
    disk.heal()
    send(store, 4)
    assert numbers_after(store) == [0, 1, 4]


def test_all_that_is_open_may_be_refused(disk: GatedDisk, open_gated) -> None:
    store = open_gated(wal=QUIET)
    send(store, 0, 1)
    fill(disk, store, 0)
    with pytest.raises(quiver.CapacityError):
        store.finalize()
    assert store.info().next_wal_seq == 0
    disk.heal()
    assert store.finalize() is None
    send(store, 2)
    assert numbers_after(store) == [2]


def test_a_write_that_cannot_be_undone_stops_the_store(disk: GatedDisk, open_gated) -> None:
    store = open_gated(wal=QUIET)
    receipts = send(store, 0, 1)
    disk.fail(lambda act: act.path.endswith(LOG), error="ENOSPC", sticky=True)
    for receipt in receipts:
        with pytest.raises(quiver.PoisonedError):
            receipt.wait()
    with pytest.raises(quiver.PoisonedError):
        store.flush()
    disk.heal()
    assert not any(receipt.is_durable for receipt in receipts)
    assert all(found == [] for found in after_power_cuts(disk))


@pytest.mark.parametrize("struck", [KeyboardInterrupt, MemoryError])
def test_a_write_that_is_broken_off_stops_the_store(
    open_gated, monkeypatch: pytest.MonkeyPatch, struck: type[BaseException]
) -> None:
    store = open_gated(wal=QUIET)
    [receipt] = send(store, 0)
    honest = Outgoing._let_go

    def let_go(*args: Any) -> None:
        monkeypatch.setattr(Outgoing, "_let_go", honest)
        raise struck

    monkeypatch.setattr(Outgoing, "_let_go", let_go)
    with pytest.raises(struck):
        receipt.wait()
    with pytest.raises(quiver.PoisonedError):
        receipt.wait()
    assert not receipt.is_durable


def test_a_signal_in_the_middle_of_the_write_cannot_write_too(
    open_gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_gated(wal=QUIET)
    said: list[object] = []
    honest = Log.append_all

    def handler(*_: object) -> None:
        monkeypatch.setattr(Log, "append_all", honest)
        acts = (store.flush, store.finalize, store.close, lambda: store.append(bundle(3)))
        # Not even this one: it would take a lock behind the turn, which others take before it.
        for act in (*acts, lambda: send(store, 2)):
            with pytest.raises(quiver.CapacityError, match="in the middle of"):
                act()
        said.append("struck")

    def append_all(self: Log, entries: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        return honest(self, entries)

    monkeypatch.setattr(Log, "append_all", append_all)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        first = send(store, 0, 1)
        assert first[0].wait() == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert said == ["struck"]
    assert numbers_after(store) == [0, 1]


def test_a_forked_child_writes_nothing(path, opener) -> None:
    store = opener(QUIET_WAL, worker=True, clock=None)
    store.append(bundle(0))
    size = (path / "core_0" / LOG).stat().st_size
    send(store, 1, 2)
    assert waiting(store) == 2
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            store.close()
            for act in (store.flush, lambda: send(store, 3)):
                try:
                    act()
                except quiver.ClosedError:
                    status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert (path / "core_0" / LOG).stat().st_size == size
    assert numbers_after(store) == [0, 1, 2]
    store.close()


QUIET_WAL = {"wal": QUIET}


def test_many_threads_and_what_else_a_store_does(open_gated, disk: GatedDisk) -> None:
    """Order in the log is that of the numbers, each bundle is there once, none is refused."""
    store = open_gated(
        wal={"flush_interval": "1ms", "rotate_size": 20_000}, segment={"target_size": 8000}
    )
    each, threads = 60, 3
    begun = threading.Barrier(threads + 1)

    def appends(which: int) -> list[int]:
        begun.wait()
        found = []
        for n in range(each):
            number = which * each + n
            if n % 7 == 3:
                found.append(store.append(bundle(number)))
            else:
                receipt = store.append(bundle(number), wait=False)
                if n % 5 == 0:
                    receipt.wait("1h" if n % 2 else None)
                found.append(receipt.wal_seq)
        return found

    def upkeep() -> None:
        begun.wait()
        for n in range(20):
            (store.flush, store.finalize, store.maintain)[n % 3]()

    others = [Background(lambda which=which: appends(which)) for which in range(threads)]
    others.append(Background(upkeep))
    given = [other.outcome() for other in others]
    assert given.pop() is None
    seqs = [seq for found in given for seq in found]
    assert sorted(seqs) == list(range(each * threads))
    assert all(found == sorted(found) for found in given)
    store.flush()
    assert all(len(found) == each * threads for found in after_power_cuts(disk))
    store.close()
    found = numbers(on_memory(disk))
    by_seq = [number for _, number in sorted(zip(seqs, range(each * threads), strict=True))]
    assert found == by_seq
