"""A log that recycles its files keeps room for what comes only while something comes."""

from __future__ import annotations

import pytest
from store_kit import SLOTS, bundle

import quiver
from quiver.testing import ManualClock, MemoryDisk

CONFIG = {
    "wal": {"reclaim": "recycle", "rotate_size": 15_000, "reclaim_size": 1},
    "segment": {"max_open_duration": "1000h"},
}


def spares(disk: MemoryDisk) -> int:
    return sum("spare" in entry.name for entry in disk.list_dir("core_0/wal"))


def gone_round(disk: MemoryDisk, clock: ManualClock) -> quiver.Store:
    store = quiver.open("memory", slots=SLOTS, disk=disk, clock=clock, worker=False, config=CONFIG)
    for number in range(30):
        store.append(bundle(number))
        if number % 5 == 4:
            store.finalize()
    assert spares(disk)
    return store


@pytest.mark.parametrize("appends", [False, True])
def test_a_store_that_nobody_writes_to_keeps_none(appends: bool) -> None:  # noqa: FBT001
    disk, clock = MemoryDisk(), ManualClock()
    store = gone_round(disk, clock)
    for number in range(3):
        store.maintain()
        clock.step("30s")
        if appends:
            store.append(bundle(number))
    store.maintain()
    assert bool(spares(disk)) == appends
    before = disk.stat("core_0/wal/quiver.wal")
    store.append(bundle(3))
    store.finalize()
    store.close()
    assert before is not None
    assert spares(disk) == 0


def test_a_full_disk_gets_them_at_the_next_tick() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store = gone_round(disk, clock)
    store._core.had_no_room = True
    store.maintain()
    assert spares(disk) == 0


def test_segments_that_are_too_small_do_not_rotate_the_log() -> None:
    """A store that is written to once a minute goes on in the file it has."""
    disk, clock = MemoryDisk(), ManualClock()
    config = {**CONFIG, "wal": {"reclaim": "recycle"}}
    store = quiver.open("memory", slots=SLOTS, disk=disk, clock=clock, worker=False, config=config)
    generation = store._core.log.end.generation
    for number in range(20):
        store.append(bundle(number))
        store.finalize()
        clock.step("1m")
        store.maintain()
    assert store._core.log.end.generation == generation
    assert [entry.name for entry in disk.list_dir("core_0/wal")] == [
        "quiver.wal",
        "truncate.offset",
    ]
