"""While a segment is written everything else goes on; what is promised of it stays so."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from gated_disk import PATIENCE, GatedDisk
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.engine import sealed
from quiver.errors import StorageError
from quiver.testing import MemoryDisk

SEGMENT = ".qseg.tmp"
SMALL = {"target_size": 1500}
"""Two bundles or three fill a segment."""


@pytest.fixture
def pool(disk: GatedDisk):
    with ThreadPoolExecutor(8) as pool:
        yield pool
        disk.gate.open()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released each time that somebody begins to wait for the writer."""
    came = threading.Semaphore(0)
    honest = sealed.refuse_writer

    def told(core: Any) -> None:
        honest(core)
        came.release()

    monkeypatch.setattr(sealed, "refuse_writer", told)
    return came


@pytest.fixture
def busy(disk: GatedDisk, open_gated, pool) -> tuple[quiver.Store, Future[Any]]:
    """A store with bundles 0 and 1 in a segment that is being written, until the gate opens."""
    store = open_gated(worker=False)
    store.subscribe("reader")
    store.append(bundle(0))
    store.append(bundle(1))
    disk.gate.shut(SEGMENT)
    writing = pool.submit(store.finalize)
    disk.gate.wait_for_arrival()
    return store, writing


def fill_a_segment(disk: GatedDisk, store: quiver.Store) -> list[int]:
    """Append until a segment is being written, which it is until the gate opens."""
    disk.gate.shut(SEGMENT)
    taken = [store.append(bundle(n)) for n in range(3)]
    disk.gate.wait_for_arrival()
    return taken


def again(disk: MemoryDisk, **config: object) -> quiver.Store:
    """Open what a kill would leave now."""
    return on_memory(MemoryDisk(disk.tree), **config)


def test_appends_polls_acks_and_upkeep_go_on_while_a_segment_is_written(
    disk: GatedDisk, busy
) -> None:
    store, writing = busy
    assert [store.append(bundle(n)) for n in (2, 3)] == [2, 3]
    assert store.subscribe("reader").poll() is None
    store.subscribe("other")
    store.flush()
    assert store.maintain() == 0
    info = store.info()
    assert (info.open_bundles, info.segments, info.next_segment_seq) == (4, 0, 0)
    assert not writing.done()
    disk.gate.open()
    done = writing.result(PATIENCE)
    assert (done.segment_seq, done.wal_seq_first, done.wal_seq_last) == (0, 0, 1)
    assert store.info().open_bundles == 2
    assert numbers(store) == [0, 1]
    store.finalize()
    assert numbers(store) == [2, 3]


def test_what_joined_meanwhile_is_not_covered_by_the_segment(disk: GatedDisk, busy) -> None:
    store, writing = busy
    late = store.append(bundle(2), wait=False)
    disk.gate.open()
    writing.result(PATIENCE)
    assert not late.is_durable
    late.wait()
    left = again(disk)
    assert left.recovery.replayed_bundles == 1
    left.finalize()
    assert numbers(left) == [0, 1, 2]


def test_a_kill_in_the_middle_brings_back_both_parts(disk: GatedDisk, busy) -> None:
    store, _ = busy
    store.append(bundle(2))
    left = again(disk)
    assert left.recovery.replayed_bundles == 3
    left.finalize()
    assert numbers(left) == [0, 1, 2]


def test_a_second_finalize_waits_for_the_first_and_takes_what_came_since(
    disk: GatedDisk, busy, pool, waiting
) -> None:
    store, writing = busy
    store.append(bundle(2))
    others = [pool.submit(store.finalize) for _ in range(3)]
    for _ in others:
        assert waiting.acquire(timeout=PATIENCE)
    store.append(bundle(3))
    disk.gate.open()
    assert writing.result(PATIENCE).bundle_count == 2
    assert {other.result(PATIENCE).segment_seq for other in others} == {1}
    assert store.info().open_bundles == 0
    assert numbers(store) == [0, 1, 2, 3]


def test_a_finalize_that_finds_all_of_its_bundles_sealed_writes_no_other_segment(
    disk: GatedDisk, busy, pool, waiting
) -> None:
    store, _ = busy
    other = pool.submit(store.finalize)
    assert waiting.acquire(timeout=PATIENCE)
    store.append(bundle(2))
    disk.gate.open()
    assert other.result(PATIENCE).segment_seq == 0
    assert store.info().open_bundles == 1


def test_an_append_that_fills_a_segment_leaves_the_writing_to_a_thread(
    disk: GatedDisk, open_gated, no_ticks
) -> None:
    store = open_gated(segment=SMALL)
    assert fill_a_segment(disk, store) == [0, 1, 2]
    assert store.info().segments == 0
    disk.gate.open()
    subscription = store.subscribe("reader")
    with subscription.next(PATIENCE) as first:
        assert first.wal_seq == 0


def test_appends_wait_while_two_segments_are_in_memory(
    disk: GatedDisk, open_gated, no_ticks, pool, waiting
) -> None:
    store = open_gated(segment=SMALL)
    fill_a_segment(disk, store)
    appending = pool.submit(lambda: [store.append(bundle(n)) for n in range(3, 20)])
    assert waiting.acquire(timeout=PATIENCE)
    assert store.info().open_bytes < 2 * 1500 + 2 * 800
    assert not appending.done()
    disk.gate.open()
    assert appending.result(PATIENCE) == list(range(3, 20))
    store.finalize()
    assert numbers(store) == list(range(20))


def test_an_append_that_waits_when_the_store_is_closed_is_refused(
    disk: GatedDisk, open_gated, no_ticks, pool, waiting
) -> None:
    store = open_gated(segment=SMALL)
    taken = fill_a_segment(disk, store)

    def append() -> None:
        for n in range(3, 20):
            taken.append(store.append(bundle(n)))

    appending = pool.submit(append)
    assert waiting.acquire(timeout=PATIENCE)
    closing = pool.submit(store.close)
    disk.gate.open()
    closing.result(PATIENCE)
    if appending.exception(PATIENCE) is not None:
        assert isinstance(appending.exception(), quiver.ClosedError)
    left = again(disk)
    assert left.recovery.replayed_bundles == 0
    assert numbers(left) == taken


def test_close_waits_for_the_writer_and_writes_what_is_open(
    disk: GatedDisk, busy, pool, waiting
) -> None:
    store, writing = busy
    store.append(bundle(2))
    closing = pool.submit(store.close)
    assert waiting.acquire(timeout=PATIENCE)
    with pytest.raises(quiver.LockedError):
        on_memory(disk)
    with pytest.raises(quiver.ClosedError):
        store.append(bundle(3))
    disk.gate.open()
    assert writing.result(PATIENCE).bundle_count == 2
    closing.result(PATIENCE)
    left = on_memory(disk)
    assert left.recovery.replayed_bundles == 0
    assert numbers(left) == [0, 1, 2]


def test_a_poisoned_store_is_not_let_go_before_its_writer_is_through(
    disk: GatedDisk, busy, pool, waiting
) -> None:
    store, writing = busy
    disk.fail_syncs_of_the_log()
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(2))
    closing = pool.submit(store.close)
    assert waiting.acquire(timeout=PATIENCE)
    with pytest.raises(quiver.LockedError):
        on_memory(disk)
    disk.gate.open()
    with pytest.raises(quiver.PoisonedError):
        writing.result(PATIENCE)
    closing.result(PATIENCE)
    left = on_memory(disk)
    left.finalize()
    assert numbers(left)[:2] == [0, 1]


def test_a_store_that_is_poisoned_meanwhile_registers_nothing(disk: GatedDisk, busy) -> None:
    store, writing = busy
    disk.fail_syncs_of_the_log()
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(2))
    disk.gate.open()
    with pytest.raises(quiver.PoisonedError):
        writing.result(PATIENCE)
    assert len(store._core.catalog) == 0


@pytest.mark.parametrize("act", ["maintain", "finalize"])
def test_who_waits_for_a_writer_when_the_store_is_closed_touches_nothing(
    disk: GatedDisk, busy, pool, waiting, act: str
) -> None:
    store, _ = busy
    store.append(bundle(2))
    other = pool.submit(getattr(store, act))
    if act == "finalize":
        assert waiting.acquire(timeout=PATIENCE)
    closing = pool.submit(store.close)
    assert waiting.acquire(timeout=PATIENCE)
    disk.gate.open()
    closing.result(PATIENCE)
    if other.exception(PATIENCE) is not None:
        assert isinstance(other.exception(), quiver.ClosedError)
    assert numbers(on_memory(disk)) == [0, 1, 2]


def test_a_segment_that_cannot_be_written_is_kept_and_tried_again_by_upkeep() -> None:
    disk = MemoryDisk()
    store = quiver.open("memory", slots=["events", "notes"], disk=disk, config={"segment": SMALL})
    fault = disk.fail(lambda act: act.path.endswith(SEGMENT), error="ENOSPC", sticky=True)
    for n in range(3):
        store.append(bundle(n))
    subscription = store.subscribe("reader")
    while fault.hits < 2 or store.worker_failure is None:
        assert subscription.next("10ms") is None
    assert isinstance(store.worker_failure, quiver.CapacityError)
    assert store.info().open_bundles == 3
    disk.heal()
    with subscription.next(PATIENCE) as handle:
        assert handle.wal_seq == 0
    assert store.worker_failure is None
    store.close()


def test_while_a_segment_cannot_be_written_twice_its_size_is_taken_and_no_more() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=SMALL)
    disk.fail(lambda act: act.path.endswith(SEGMENT), error="ENOSPC", sticky=True)
    taken = 0
    with pytest.raises(quiver.CapacityError):
        while taken < 100:
            store.append(bundle(taken))
            taken += 1
    most = store.info().open_bytes
    assert 2 * 1500 <= most < 2 * 1500 + 800
    assert store.metrics()["quiver.segment.finalize_failures", ""] == 2
    disk.heal()
    store.append(bundle(taken))
    store.close()
    assert numbers(on_memory(disk)) == list(range(taken + 1))


def test_an_interrupt_in_the_writing_thread_stops_the_store_and_wakes_the_others(
    disk: GatedDisk, open_gated, pool, waiting
) -> None:
    class Interrupt(BaseException):
        pass

    def strike() -> None:
        disk.gate.on_arrival = lambda: None
        other.append(pool.submit(store.finalize))
        assert waiting.acquire(timeout=PATIENCE)
        raise Interrupt

    store = open_gated(worker=False)
    store.append(bundle(0))
    other: list[Future[Any]] = []
    disk.gate.path_end = SEGMENT
    disk.gate.on_arrival = strike
    with pytest.raises(Interrupt):
        store.finalize()
    with pytest.raises(quiver.PoisonedError, match="Interrupt"):
        other[0].result(PATIENCE)
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(1))
    store.close()
    left = on_memory(disk)
    left.finalize()
    assert numbers(left) == [0]


def test_a_log_that_is_full_waits_for_what_is_being_written(
    disk: GatedDisk, open_gated, pool, waiting
) -> None:
    store = open_gated(worker=False, wal={"max_size": 4000}, limits={"entry_bytes": 2000})
    store.append(bundle(0))
    disk.gate.shut(SEGMENT)
    writing = pool.submit(store.finalize)
    disk.gate.wait_for_arrival()
    appending = pool.submit(lambda: [store.append(bundle(n)) for n in range(1, 12)])
    assert waiting.acquire(timeout=PATIENCE)
    disk.gate.open()
    writing.result(PATIENCE)
    assert appending.result(PATIENCE) == list(range(1, 12))
    store.finalize()
    assert numbers(store) == list(range(12))


def test_a_segment_that_fails_while_others_wait_for_it_is_tried_by_them(
    disk: GatedDisk, busy, pool, waiting
) -> None:
    store, writing = busy
    other = pool.submit(store.finalize)
    assert waiting.acquire(timeout=PATIENCE)
    disk.fail(lambda act: type(act).__name__ == "Sync" and act.path.endswith(SEGMENT))
    disk.gate.open()
    with pytest.raises(StorageError):
        writing.result(PATIENCE)
    assert other.result(PATIENCE).segment_seq == 0
    assert numbers(store) == [0, 1]
