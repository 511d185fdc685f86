"""One more writer comes to a store that is full: the cap stays what it is, and it gets its part."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from store_kit import abandon

import quiver
from quiver.engine.adoption import adopt_core
from quiver.engine.budget import Static
from quiver.engine.maintenance import let_go
from quiver.engine.neighbours import Neighbours
from quiver.engine.reserve import reserve_bytes
from quiver.testing import ManualClock, MemoryDisk

KIB = 1 << 10
CAP = 2048 * KIB
SEGMENT = 64 * KIB


def config(**retention: Any) -> quiver.Config:
    return quiver.Config.of(
        {
            "segment": {"target_size": SEGMENT, "max_open_duration": "1000h"},
            "limits": {"entry_bytes": SEGMENT},
            "wal": {"max_size": 2 * SEGMENT, "rotate_size": SEGMENT, "reclaim_size": 4 * KIB},
            "retention": {"size_cap": CAP, **retention},
        }
    )


def opened(disk: MemoryDisk, **retention: Any) -> quiver.Store:
    return quiver.open(
        "memory",
        slots=["events"],
        disk=disk,
        clock=ManualClock(),
        worker=False,
        config=config(**retention),
    )


def fill(store: quiver.Store, *, most: int = 400) -> int:
    """Append until the store refuses, at most so often; give how many it took."""
    for number in range(most):
        try:
            store.append({"events": pa.record_batch({"text": ["x" * 8 * KIB]})})
        except quiver.CapacityError:
            return number
    return most


def dropped(store: quiver.Store) -> int:
    return store.metrics().get(("quiver.segment.dropped_bundles", "size"), 0)


def fill_until_dropped(store: quiver.Store) -> None:
    for _ in range(40):
        fill(store, most=10)
        if dropped(store):
            return
    raise AssertionError("nothing was dropped")


def test_the_cap_holds_while_more_writers_come_to_a_full_store() -> None:
    disk, room = MemoryDisk(), reserve_bytes(config())
    stores = [opened(disk)]
    stores[0].subscribe("reader")
    assert 100 < fill(stores[0]) < 400
    for count in (2, 3):
        stores.append(opened(disk))
        for _ in range(12):
            for store in stores:
                fill(store)
                store.maintain()
            assert disk.used() <= CAP + count * room
    for store in stores:
        while (handle := store.subscribe("reader").poll()) is not None:
            handle.ack()
    for _ in range(12):
        for store in stores:
            store.maintain()
    assert [fill(store) > 50 for store in stores] == [True] * 3  # Each has its part now.
    assert disk.used() <= CAP + 3 * room


def test_who_only_opens_and_closes_takes_no_part_for_ever() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store = opened(disk)
    budget = store._core.budget
    assert isinstance(budget, Static)
    opened(disk).close()
    store.maintain()
    assert budget.allowed(0, 1) == CAP // 2  # It may be about to begin.
    adopt_core(disk, 1, config=config(), clock=clock)
    store.maintain()
    assert budget.allowed(0, 1) == CAP


def test_opening_one_more_core_drops_nothing() -> None:
    disk = MemoryDisk()
    store = opened(disk, size_cap_policy="drop_oldest")
    store.subscribe("reader")
    fill_until_dropped(store)
    lag, lost = store.lag("reader").bundle_count, dropped(store)
    other = opened(disk, size_cap_policy="drop_oldest")
    for _ in range(12):
        store.maintain()
        other.maintain()
    assert (store.lag("reader").bundle_count, dropped(store)) == (lag, lost)
    assert fill(store, most=20) == 20
    assert store.lag("reader").byte_count > CAP * 3 // 4  # It goes on with what it has.
    assert fill(other, most=1) == 1
    for _ in range(12):
        store.maintain()
    assert CAP // 4 < store.lag("reader").byte_count < CAP // 2


@pytest.mark.parametrize("coordination", ["static", "shared"])
def test_under_drop_oldest_who_rests_makes_way_for_who_comes(coordination: str) -> None:
    disk = MemoryDisk()
    retention = {"size_cap_policy": "drop_oldest", "coordination": coordination}
    resting = opened(disk, **retention)
    resting.subscribe("reader")
    fill_until_dropped(resting)
    coming, taken = opened(disk, **retention), 0
    for _ in range(60):
        taken += fill(coming, most=10)
        for store in (resting, coming):
            store.maintain()
        assert disk.used() <= CAP + 2 * reserve_bytes(config())
    assert taken > 300
    kept = resting.lag("reader").byte_count
    assert kept > CAP // 4  # It keeps what is its own part.
    assert resting._core.registry.progress("reader").high_water_mark is not None


@pytest.mark.parametrize("coordination, most", [("static", 0.6), ("shared", 0.85)])
def test_under_drop_oldest_the_dead_make_way_as_well(coordination: str, most: float) -> None:
    disk = MemoryDisk()
    retention = {"size_cap_policy": "drop_oldest", "coordination": coordination}
    dead = opened(disk, **retention)
    dead.subscribe("reader")
    fill_until_dropped(dead)
    coming, taken = opened(disk, **retention), 0
    let_go(dead._core)
    abandon(dead)
    neighbours = Neighbours(coming._core)
    for _ in range(80):
        taken += fill(coming, most=10)
        coming.maintain()
        neighbours.look()
        if neighbours._thread is not None:
            neighbours._thread.join(60)
        coming._core.clock.step("250ms")  # type: ignore[attr-defined]
        assert disk.used() <= CAP + 2 * reserve_bytes(config())
    assert taken > 300
    back = opened(disk, **retention)
    assert back.info().core == 0
    assert CAP // 4 < back.lag("reader").byte_count < most * CAP


def test_the_dead_who_can_make_no_room_are_not_asked_at_each_tick(caplog) -> None:
    caplog.set_level(logging.INFO, logger="quiver")
    disk, retention = MemoryDisk(), {"size_cap_policy": "drop_oldest"}
    dead = opened(disk, **retention)
    fill(dead, most=1)
    disk.make_dir("core_0/quarantine")
    disk.create("core_0/quarantine/x").write(0, bytes(CAP - 400 * KIB))
    coming = opened(disk, **retention)
    fill(coming, most=1)
    let_go(dead._core)
    abandon(dead)
    neighbours = Neighbours(coming._core)
    for _ in range(200):
        coming.maintain()
        neighbours.look()
        if neighbours._thread is not None:
            neighbours._thread.join(60)
        coming._core.clock.step("250ms")  # type: ignore[attr-defined]
    assert coming._core.budget.lacking > 0
    assert [r.message for r in caplog.records].count("core.adopted") <= 4


def test_a_ledger_that_cannot_be_used_any_more_drops_nothing() -> None:
    disk = MemoryDisk()
    retention = {"size_cap_policy": "drop_oldest", "coordination": "shared"}
    resting = opened(disk, **retention)
    resting.subscribe("reader")
    fill_until_dropped(resting)
    coming = opened(disk, **retention)
    before = dropped(resting)
    for _ in range(50):
        fill(coming, most=1)
        coming.maintain()
        resting.maintain()
        if dropped(resting) > before:
            break
    assert dropped(resting) > before
    before = dropped(resting)
    disk.unlink("ledger")
    disk.make_dir("ledger")
    for _ in range(10):
        resting.maintain()
    assert dropped(resting) == before


@pytest.mark.parametrize("name", ["segments", "wal", "reserve"])
def test_something_odd_in_another_core_keeps_nobody_from_work(tmp_path: Path, name: str) -> None:
    other = tmp_path / "store" / "core_1"
    with quiver.open(tmp_path / "store", slots=["events"], config=config(), worker=False) as store:
        other.mkdir()
        (other / name).symlink_to(tmp_path)
        for _ in range(3):
            store.maintain()
        assert fill(store, most=3) == 3
