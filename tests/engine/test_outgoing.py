"""Entries that wait for the write: order, refusals, and each end that a store may come to."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from gated_disk import PATIENCE, GatedDisk
from receipt_kit import Background, after_power_cuts
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.engine import Receipt, Store
from quiver.engine.outgoing import Outgoing
from quiver.testing import MemoryDisk
from quiver.wal import Log

QUIET = {"flush_interval": "1h"}
LOG = "wal/quiver.wal"

pytestmark = pytest.mark.usefixtures("no_ticks")


def waiting(store: Store) -> int:
    return len(store._core.outgoing)


def send(store: Store, *some: int) -> list[Receipt]:
    return [store.append(bundle(n), wait=False) for n in some]


def is_entry(act: Any) -> bool:
    return type(act).__name__ == "Write" and act.path.endswith(LOG)


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


def numbers_after(store: Store) -> list[int]:
    store.finalize()
    return numbers(store)


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


# refused ------------------------------------------------------------------------------------------


def fill(disk: MemoryDisk, store: Store, entry: int, error: str = "ENOSPC") -> None:
    """Leave room for so many of the entries that wait, and no more."""
    sizes = [one.byte_count for one in store._core.outgoing._entries]
    end = store._core.log.end.offset + sum(sizes[:entry])

    def refuses(act: Any) -> bool:
        return is_entry(act) and act.offset + len(act.data) > end

    disk.fail(refuses, error=error, sticky=True)


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
        said.extend(send(store, 2))
        for act in (store.flush, store.finalize, store.close, lambda: store.append(bundle(3))):
            with pytest.raises(quiver.CapacityError, match="in the middle of writing"):
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
    assert said[-1] == "struck"
    assert numbers_after(store) == [0, 1, 2]


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
