"""The room that is kept for a full disk: what was taken can be lent, whatever came between."""

from __future__ import annotations

import contextlib
import zlib
from typing import Any

import pytest
from store_kit import SLOTS, bundle, numbers, on_memory

import quiver
from quiver.disk import File
from quiver.engine.reserve import reserve_bytes
from quiver.testing import ManualClock, MemoryDisk

KNOBS: dict[str, Any] = {
    "segment": {"target_size": 100_000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 200_000, "reclaim_size": 4096},
}
CAPPED = {**KNOBS, "retention": {"size_cap": 600_000}}


def flood(disk: MemoryDisk) -> File:
    """Let somebody else take all the room that there is."""
    file = disk.create("other")
    with pytest.raises(quiver.CapacityError):
        file.write(0, bytes(disk.capacity or 0))
    return file


def test_what_a_full_disk_had_left_for_the_reserve_is_lent_to_acks() -> None:
    disk = MemoryDisk(capacity=600_000)
    with on_memory(disk, **KNOBS) as store:
        store.subscribe("reader")
        for number in range(200):
            store.append(bundle(number))
    disk.create("other").write(0, bytes(disk.capacity - disk.used() - 30_000))
    store = on_memory(disk, **CAPPED)
    assert store._core.reserve.is_short
    assert disk.capacity - disk.used() < 4096
    assert numbers(store) == list(range(200))
    assert store.maintain() == 1


def test_a_loss_of_many_runs_is_written_down_on_a_full_disk() -> None:
    disk, clock = MemoryDisk(capacity=600_000), ManualClock()
    config = {**CAPPED, "retention": {"size_cap": 600_000, "max_retain_after_ingestion_hours": 1}}
    store = quiver.open("memory", slots=SLOTS, disk=disk, clock=clock, worker=False, config=config)
    names = [f"reader{number}" for number in range(6)]
    for name in names:
        store.subscribe(name)
    for number in range(100):
        store.append(bundle(number))
    store.finalize()
    for name in names:
        subscription = store.subscribe(name)
        handles = [subscription.poll() for _ in range(100)]
        for index, handle in enumerate(handles):
            if index % 2:
                handle.defer()
            else:
                handle.ack()
    for _ in range(10):
        clock.step("5m")
        store.maintain()
    flood(disk)
    for _ in range(5):
        clock.step("5m")
        with contextlib.suppress(quiver.CapacityError):
            store.maintain()
    assert store.info().segments == 0
    assert all(store.metrics()["quiver.subscriber.dropped_bundles", name] == 50 for name in names)


def test_a_reserve_that_is_larger_than_it_need_be_gives_back_the_rest() -> None:
    disk = MemoryDisk()
    on_memory(disk, **CAPPED).close()
    small = {**CAPPED, "segment": {"target_size": 8000}}
    on_memory(disk, **small).close()
    stat = disk.stat("core_0/reserve")
    assert stat is not None
    assert stat.allocated == reserve_bytes(quiver.Config.of(small))


def test_a_reserve_that_somebody_removed_is_made_again_when_there_is_room() -> None:
    disk = MemoryDisk(capacity=600_000)
    store = on_memory(disk, **CAPPED)
    for number in range(100):
        store.append(bundle(number))
    disk.unlink("core_0/reserve")
    other = flood(disk)
    with pytest.raises(quiver.CapacityError):
        store.finalize()
    other.truncate(0)
    store.maintain()
    store.maintain()
    assert not store._core.reserve.is_short
    assert disk.stat("core_0/reserve") is not None
    store.append(bundle(100))
    store.close()


def test_a_file_system_that_compresses_keeps_the_room_as_well() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **CAPPED)
    file = disk.open("core_0/reserve")
    data = file.read(0, file.size())
    assert len(data) == store._core.reserve.target_bytes
    assert len(zlib.compress(data)) >= len(data)
    assert len({data[at : at + 4096] for at in range(0, len(data), 4096)}) == -(-len(data) // 4096)
