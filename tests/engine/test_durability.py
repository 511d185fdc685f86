"""What each durability keeps when the power is cut, and who syncs when."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from store_kit import SLOTS, abandon, bundle, numbers

import quiver
from quiver.testing import ManualClock, MemoryDisk, crash_images

INTERVAL: Mapping[str, Any] = {"wal": {"durability": "interval"}}


def on_memory(disk: MemoryDisk, **options: Any) -> quiver.Store:
    settings: dict[str, Any] = {"slots": SLOTS, "clock": ManualClock(), "worker": False} | options
    return quiver.open("memory", disk=disk, **settings)


def after_power_cuts(disk: MemoryDisk) -> Iterator[list[int]]:
    """Cut the power now, in each way there is, and give what comes back each time."""
    history = disk.history
    for image in crash_images(history, model="posix", budget=200, points=[len(history.ops)]):
        store = on_memory(image.disk())
        store.finalize()
        yield numbers(store)


def test_a_close_makes_durable_what_a_power_cut_before_it_may_take() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, config=INTERVAL)
    for n in range(3):
        store.append(bundle(n))
    assert [] in after_power_cuts(disk)
    store.close()
    after = list(after_power_cuts(disk))
    assert after
    assert all(found == [0, 1, 2] for found in after)


@pytest.mark.parametrize("durability", ["sync", "interval", "segment"])
def test_a_flush_makes_durable_what_was_appended_in_any_mode(durability: str) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, config={"wal": {"durability": durability}})
    for n in range(3):
        store.append(bundle(n))
    store.flush()
    store.append(bundle(3), wait=False)
    for found in after_power_cuts(disk):
        assert found[:3] == [0, 1, 2]


def test_the_worker_syncs_interval_appends_without_being_asked() -> None:
    disk = MemoryDisk()
    synced = threading.Event()

    def note(act: Any) -> bool:
        if type(act).__name__ == "Sync" and act.path.endswith("wal/quiver.wal"):
            synced.set()
        return False

    config = {"wal": {"durability": "interval", "flush_interval": "1ms"}}
    with on_memory(disk, config=config, clock=None, worker=True) as store:
        disk.fail(note)
        store.append(bundle(0))
        assert synced.wait(60)


def test_a_bundle_of_all_64_slots_survives_a_kill_and_is_delivered(opener) -> None:
    names = [f"slot{n}" for n in range(64)]
    store = opener(slots=names)
    store.append({name: pa.record_batch({"n": [n]}) for n, name in enumerate(names)})
    abandon(store)
    store = opener(slots=names)
    assert store.recovery.replayed_bundles == 1
    store.finalize()
    with store.subscribe("reader").poll() as handle:
        assert list(handle) == names
        assert [batch.column("n")[0].as_py() for batch in handle.values()] == list(range(64))


def test_numbers_go_on_after_a_kill_that_left_an_empty_active_log(opener, path: Path) -> None:
    store = opener({"wal": {"rotate_size": 1}})
    assert [store.append(bundle(n)) for n in range(3)] == [0, 1, 2]
    abandon(store)
    active = path / "core_0/wal/quiver.wal"
    header = active.read_bytes()[:30]
    active.rename(active.with_name("quiver.wal.3"))
    active.write_bytes(header)
    store = opener()
    assert store.recovery.replayed_bundles == 3
    assert store.append(bundle(3)) == 3
    store.finalize()
    assert numbers(store) == [0, 1, 2, 3]


@pytest.mark.parametrize("keep", [0, 1, 12, 29])
def test_a_log_cut_inside_its_header_opens_and_takes_appends(opener, path: Path, keep: int) -> None:
    opener().close()
    active = path / "core_0/wal/quiver.wal"
    active.write_bytes(active.read_bytes()[:keep])
    store = opener()
    assert store.recovery.replayed_bundles == 0
    assert store.append(bundle(0)) == 0
    abandon(store)
    store = opener()
    assert store.recovery.replayed_bundles == 1
    store.finalize()
    assert numbers(store) == [0]


def test_damage_in_the_middle_of_an_older_log_file_costs_that_entry_alone(
    opener, path: Path
) -> None:
    store = opener({"wal": {"rotate_size": 4000}})
    for n in range(20):
        store.append(bundle(n))
    abandon(store)
    oldest = path / "core_0/wal/quiver.wal.1"
    data = bytearray(oldest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    oldest.write_bytes(data)
    store = opener()
    (error,) = store.recovery.damage
    assert error.path == str(oldest)
    store.finalize()
    found = numbers(store)
    assert len(found) == 19
    assert found[0] == 0
    assert found[-1] == 19
