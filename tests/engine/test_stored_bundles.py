"""Recovered bundles stay in the log until they are a segment, and must be there what they were."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from held_files import files_held
from store_kit import abandon, bundle, numbers, on_memory

import quiver
from quiver.errors import CapacityError, StorageError
from quiver.payload import StoredBundle
from quiver.testing import MemoryDisk
from quiver.testing.memory_file import MemoryFile

LOG = "core_0/wal/quiver.wal"
WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}


def killed(count: int, **config: Any) -> MemoryDisk:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, **config)
    for number in range(count):
        store.append(bundle(number))
    abandon(store)
    return disk


def flip(disk: MemoryDisk, offset: int, path: str = LOG) -> None:
    file = disk.open(path, writable=True)
    file.write(offset, bytes([file.read(offset, 1)[0] ^ 0x10]))
    file.close()


def test_a_recovery_holds_no_bundle_in_memory() -> None:
    store = on_memory(killed(4), segment=WAITING)
    segment = store._core.open_segment
    assert (segment.stored_count, segment.bundle_count) == (4, 4)
    assert all(isinstance(found, StoredBundle) for found in segment.bundles)
    store.append(bundle(4))
    assert store.info().open_bundles == 5
    store.finalize()
    assert numbers(store) == [0, 1, 2, 3, 4]


def test_an_opening_leaves_one_full_segment_to_whoever_keeps_up_the_store() -> None:
    store = on_memory(killed(7), segment={**WAITING, "target_size": 1})
    assert store.info().segments == 5
    assert store._core.sealed is not None
    assert [part.stored_count for part in store._core.waiting] == [1, 1]
    assert store.append(bundle(7)) == 7
    store.maintain()
    store.finalize()
    assert (store.info().segments, store._core.sealed) == (8, None)
    assert numbers(store) == list(range(8))


def test_a_worker_writes_what_an_opening_left(tmp_path: Path) -> None:
    config: dict[str, Any] = {"segment": WAITING}
    store = quiver.open(tmp_path, slots=["events", "notes"], config=config, worker=False)
    store.append(bundle(0))
    abandon(store)
    config = {"segment": {**WAITING, "target_size": 1}}
    with quiver.open(tmp_path, config=config) as again:
        assert again.recovery.replayed_bundles == 1
        handle = again.subscribe("reader").next(timeout=60)
        assert handle is not None
        handle.ack()


def test_what_rots_after_the_recovery_costs_only_itself() -> None:
    disk = killed(5)
    store = on_memory(disk, segment=WAITING, wal={"reclaim_size": 1})
    third = store._core.open_segment.bundles[2]
    flip(disk, third.offset + third.length // 2)
    assert store.append(bundle(5)) == 5
    store.finalize()
    assert numbers(store) == [0, 1, 3, 4, 5]
    (error,) = store.recovery.damage
    assert error.offset == third.offset
    assert "no longer what was recovered" in error.message
    assert store.recovery.replayed_bundles == 4
    aside = disk.open("core_0/quarantine/bundle-2.bin")
    assert aside.size() == third.length
    store.close()
    again = on_memory(disk)
    assert again.append(bundle(6)) == 6
    again.finalize()
    assert not again.recovery.damage
    assert numbers(again) == [6]


def test_all_may_rot_and_the_numbers_go_on() -> None:
    disk = killed(2)
    store = on_memory(disk, segment=WAITING)
    for stored in store._core.open_segment.bundles:
        flip(disk, stored.offset + 40)
    assert store.finalize() is None
    assert len(store.recovery.damage) == 2
    assert store.append(bundle(2)) == 2
    store.finalize()
    assert numbers(store) == [2]


def test_a_log_file_that_somebody_removes_costs_what_was_in_it_and_no_more() -> None:
    disk = killed(6, wal={"rotate_size": 1500})
    store = on_memory(disk, segment=WAITING, wal={"rotate_size": 1500})
    first = [b.wal_seq for b in store._core.open_segment.bundles if b.generation == 1]
    disk.unlink(f"{LOG}.1")
    store.append(bundle(6))
    store.finalize()
    assert numbers(store) == list(range(len(first), 7))
    assert len(store.recovery.damage) == len(first) > 0
    assert all("gone with its file" in error.message for error in store.recovery.damage)
    store.maintain()
    store.close()


def test_a_log_that_cannot_be_read_for_a_while_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = on_memory(killed(4), segment=WAITING)
    honest = MemoryFile.read

    def read(file: MemoryFile, offset: int, length: int) -> bytes:
        if file.path == LOG:
            raise StorageError("cannot read", errno=5)
        return honest(file, offset, length)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "read", read)
        with pytest.raises(StorageError):
            store.finalize()
        assert store._core.waiting[0].stored_count == 4
        assert store.append(bundle(4)) == 4
    store.finalize()
    assert not store.recovery.damage
    assert numbers(store) == [0, 1, 2, 3, 4]


def test_entries_that_follow_each_other_are_read_at_once_and_what_is_between_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was damaged when the log was replayed the disk may not give at all by now."""
    disk = killed(6)
    with on_memory(disk, segment=WAITING) as before:
        bad = before._core.open_segment.bundles[2]
        flip(disk, bad.offset + bad.length // 2)
        abandon(before)
    store = on_memory(disk, segment=WAITING)
    assert len(store.recovery.damage) == 1
    honest = MemoryFile.read
    reads: list[int] = []

    def read(file: MemoryFile, offset: int, length: int) -> bytes:
        if file.path == LOG:
            assert not offset <= bad.offset + bad.length // 2 < offset + length
            reads.append(length)
        return honest(file, offset, length)

    monkeypatch.setattr(MemoryFile, "read", read)
    store.finalize()
    assert numbers(store) == [0, 1, 3, 4, 5]
    assert len(reads) == 2


def rotate(disk: MemoryDisk) -> None:
    """Nothing: the log rotates by itself."""


def damage_the_end(disk: MemoryDisk) -> None:
    flip(disk, disk.stat(LOG).size - 1)


def damage_a_length(disk: MemoryDisk) -> None:
    file = disk.open(LOG, writable=True)
    file.write(30, b"\xff\xff\xff\x7f")
    file.close()


@pytest.mark.parametrize(
    ("act", "kept", "config"),
    [
        (rotate, range(6), {"wal": {"rotate_size": 1500}}),
        (damage_the_end, range(5), {}),
        (damage_a_length, range(6), {}),
    ],
)
def test_entries_are_found_again_wherever_their_file_went(
    act: Callable[[MemoryDisk], None], kept: range, config: dict[str, Any]
) -> None:
    disk = killed(6, **config)
    act(disk)
    store = on_memory(disk, segment=WAITING, **config)
    assert store.recovery.replayed_bundles == len(kept)
    sent = []
    for number in range(100, 108):
        store.append(bundle(number))
        sent.append(number)
    before = len(store.recovery.damage)
    store.finalize()
    assert len(store.recovery.damage) == before
    assert numbers(store) == [*kept, *sent]


@pytest.mark.parametrize("punch", [True, False])
def test_what_moves_while_it_waits_is_found_again(*, punch: bool) -> None:
    """Segments written on the way of a recovery leave the log to be given back, or moved."""
    config: dict[str, Any] = {
        "wal": {"reclaim_size": 1, "reclaim": "punch" if punch else "copy"},
        "segment": {"target_size": 2500, "max_open_duration": "1h"},
    }
    disk = killed(15)
    store = on_memory(disk, **config)
    assert store.info().segments > 0
    assert store._core.open_segment.stored_count
    store.maintain()
    store.finalize()
    assert not store.recovery.damage
    assert numbers(store) == list(range(15))


def test_waiting_bundles_keep_no_file_open(tmp_path: Path) -> None:
    slots = {"main": 0}
    store = quiver.open(tmp_path, slots=slots, worker=False)
    for number in range(3):
        store.append({"main": bundle(number)["events"]})
    abandon(store)
    before = files_held(tmp_path)
    again = quiver.open(tmp_path, worker=False)
    assert again._core.open_segment.stored_count == 3
    log = str(tmp_path / "core_0/wal/quiver.wal")
    assert (before.count(log), files_held(tmp_path).count(log)) == (1, 2)
    again.close()
    assert files_held(tmp_path) == before


# While no segment can be written.


def refusing(count: int) -> quiver.Store:
    """A store whose disk takes no segment, with as many bundles as one should have."""
    disk = MemoryDisk()
    config = {"target_size": 600 * count, "max_open_duration": "1h"}
    store = on_memory(disk, segment=config)
    disk.fail(lambda op: op.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    number = 0
    while store._core.finalize_failure is None:
        store.append(bundle(number))
        number += 1
    return store


def test_appends_do_not_encode_the_segment_again_for_each_bundle() -> None:
    store = refusing(10)
    failures = ("quiver.segment.finalize_failures", "")
    assert store.metrics()[failures] == 1
    for number in range(100, 105):
        store.append(bundle(number))
    assert store.metrics()[failures] == 1
    with pytest.raises(CapacityError):
        store.maintain()
    assert store.metrics()[failures] == 2


def test_a_failure_that_is_kept_holds_no_frame() -> None:
    store = refusing(4)
    failure = store._core.finalize_failure
    assert isinstance(failure, CapacityError)
    assert failure.__traceback__ is failure.__cause__ is failure.__context__ is None


def test_a_tick_that_fails_leaves_nothing_to_the_collector() -> None:
    store = refusing(4)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            with pytest.raises(CapacityError):
                store.maintain()
        alive = [found for found in gc.get_objects() if isinstance(found, CapacityError)]
        assert len(alive) < 4
    finally:
        gc.enable()
