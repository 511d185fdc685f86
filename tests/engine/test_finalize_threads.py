"""Who writes a segment, and what else may strike there: the same thread, none, many."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from gated_disk import PATIENCE
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.engine import log_files, sealed
from quiver.testing import MemoryDisk
from quiver.testing.memory_file import MemoryFile

SEGMENT = ".qseg.tmp"
SMALL = {"target_size": 1500}
"""Two bundles or three fill a segment."""
LIMITS = {"limits": {"entry_bytes": 3000}}


def in_the_middle(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *, path_end: str = SEGMENT
) -> list[object]:
    """Do something in the thread that writes a segment, at its sync; gives what came of it."""
    honest = MemoryFile.sync
    came: list[object] = []

    def sync(file: MemoryFile) -> None:
        if file.path.endswith(path_end) and not came:
            came.append(None)
            try:
                came[0] = act()
            except quiver.QuiverError as error:
                came[0] = error
        honest(file)

    monkeypatch.setattr(MemoryFile, "sync", sync)
    return came


@pytest.mark.parametrize("act", ["finalize", "close"])
def test_the_thread_that_writes_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    came = in_the_middle(monkeypatch, getattr(store, act))
    store.finalize()
    assert isinstance(came[0], quiver.CapacityError)
    assert "in the middle of writing" in str(came[0])
    store.append(bundle(1))
    store.close()
    assert numbers(on_memory(disk)) == [0, 1]


def test_the_thread_that_writes_may_append_until_memory_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=SMALL)
    taken: list[int] = []

    def append() -> None:
        while True:
            number = store._core.next_wal_seq
            assert store.append(bundle(number)) == number
            taken.append(number)

    came = in_the_middle(monkeypatch, append)
    while not came:
        store.append(bundle(store._core.next_wal_seq))
    assert isinstance(came[0], quiver.CapacityError)
    assert 2 <= len(taken) <= 4
    store.close()
    assert numbers(on_memory(disk)) == list(range(store._core.next_wal_seq))


def test_a_lock_is_taken_again_whatever_strikes_meanwhile() -> None:
    from quiver.engine.core import _acquire

    class Struck:
        tries = 0

        def acquire(self) -> None:
            self.tries += 1
            if self.tries < 3:
                raise KeyboardInterrupt(self.tries)

        def _is_owned(self) -> bool:
            return self.tries == 3

    lock = Struck()
    with pytest.raises(KeyboardInterrupt, match="1"):
        _acquire(lock)
    assert lock.tries == 3


def test_without_a_thread_to_be_had_the_append_writes_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    store = quiver.open("memory", slots=["events", "notes"], disk=disk, config={"segment": SMALL})

    def none_left(name: str) -> None:
        raise quiver.CapacityError("no more threads")

    monkeypatch.setattr("quiver.engine.scribe.Worker", none_left)
    for n in range(3):
        store.append(bundle(n))
    assert store.info().segments == 1
    store._core.open_segment.opened_ns = -(10**15)
    store.append(bundle(3))
    store.close()
    assert numbers(on_memory(disk)) == [0, 1, 2, 3]


def test_recovered_bundles_are_found_although_the_log_rotates_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    first = on_memory(disk)
    for n in range(4):
        first.append(bundle(n))
    store = on_memory(MemoryDisk(disk.tree), wal={"rotate_size": 3000, "reclaim_size": 1})
    honest = MemoryFile.read
    taken: list[int] = []

    def read(file: MemoryFile, offset: int, length: int) -> bytes:
        if store._core.writer is not None and len(taken) < 4:
            number = store._core.next_wal_seq
            taken.append(store.append(bundle(number)))
        return honest(file, offset, length)

    with monkeypatch.context() as patch:
        patch.setattr(log_files, "_AT_ONCE", 1)  # One read for each.
        patch.setattr(MemoryFile, "read", read)
        store.finalize()
    assert taken == [4, 5, 6, 7]
    assert store._core.log.end.generation > 1
    assert not store.recovery.damage
    store.finalize()
    assert numbers(store) == list(range(8))


@pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")
@pytest.mark.parametrize("durability", ["sync", "interval", "segment"])
@pytest.mark.parametrize("worker", [True, False])
def test_threads_that_append_finalize_ack_and_close_at_any_moment(
    worker: Any, durability: str
) -> None:
    disk = MemoryDisk()
    config = {"segment": SMALL, "wal": {"durability": durability, "rotate_size": 6000}}
    store = quiver.open(
        "memory", slots=["events", "notes"], disk=disk, worker=worker, config=config | LIMITS
    )
    store.subscribe("keeper")
    start = threading.Barrier(6)
    enough = threading.Event()
    acknowledged: list[int] = []
    delivered: list[int] = []

    def append() -> None:
        start.wait()
        while True:
            receipt = store.append(bundle(0), wait=False)
            acknowledged.append(receipt.wait())
            if len(acknowledged) >= 90:
                enough.set()

    def finalize() -> None:
        start.wait()
        while True:
            store.finalize()
            store.maintain()

    def take() -> None:
        start.wait()
        for handle in store.subscribe("reader"):
            handle.ack()
            delivered.append(handle.wal_seq)

    with ThreadPoolExecutor(5) as threads:
        futures = [threads.submit(act) for act in (append, append, append, finalize, take)]
        start.wait()
        assert enough.wait(PATIENCE)
        store.close()
        for future in futures:
            error = future.exception(PATIENCE)
            assert error is None or type(error) is quiver.ClosedError, repr(error)
    assert len(set(acknowledged)) == len(acknowledged)
    left = on_memory(disk)
    assert left.recovery.replayed_bundles == 0
    there = []
    for handle in iter(left.subscribe("keeper").poll, None):
        with handle:
            there.append(handle.wal_seq)
    assert there == list(range(left.info().next_wal_seq))
    assert set(acknowledged) <= set(there)
    assert delivered == sorted(set(delivered))
    del futures, future, error
    gc.collect()  # The bundle that could not be acked any more belongs to this test.


def test_who_comes_too_late_to_write_finds_nothing_to_do() -> None:
    with quiver.open("memory", slots=["events"], disk=MemoryDisk()) as store:
        core, scribe = store._core, store._scribe
        with core.lock:
            sealed.write_sealed(core)
            sealed.try_write_sealed(core)
        assert scribe.ask()
    assert not scribe.ask()
    assert len(core.catalog) == 0
