"""What the log promises as a whole: each mode at each stop, and no sidecar that costs a bundle.

Plain runs meet each moment with a third of the sidecars; ``QUIVER_DAMAGE=all`` with all of them.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from gated_disk import GatedDisk
from receipt_kit import Told, after_power_cuts
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.errors import VersionError
from quiver.testing import ManualClock, MemoryDisk
from quiver.wal.format import HEAD, HEADER_BYTES, LENGTH

LOG = "core_0/wal/quiver.wal"
SIDECAR = "core_0/wal/truncate.offset"
STEP = 1 if os.environ.get("QUIVER_DAMAGE") == "all" else 3
WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}


def copy_of(disk: MemoryDisk, *, punch: bool = True) -> MemoryDisk:
    """What a kill leaves of a disk."""
    return MemoryDisk(disk.tree, punch_supported=punch)


def put(disk: MemoryDisk, path: str, data: bytes | None) -> None:
    """Let a file hold this and nothing else; None: let it be gone."""
    if disk.stat(path) is not None:
        disk.unlink(path)
    if data is not None:
        file = disk.create(path)
        file.write(0, data)
        file.close()


# Durability modes.

WRITER = """
    import sys, quiver
    sys.path.insert(0, sys.argv[2])
    from store_kit import SLOTS, bundle
    config = {"wal": {"durability": sys.argv[3], "flush_interval": "1h"}}
    store = quiver.open(sys.argv[1], slots=SLOTS, config=config, worker=False)
    for n in range(40):
        assert store.append(bundle(n)) == n
        if n == 24:
            store.flush()
    print("told", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("mode", "kept"), [("sync", 40), ("interval", 40), ("segment", 25)])
def test_a_killed_process_leaves_what_its_mode_promises(path: Path, mode: str, kept: int) -> None:
    kit = str(Path(__file__).parents[1] / "kit")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path), kit, mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "told\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    with quiver.open(path, worker=False) as store:
        assert not store.recovery.damage
        assert store.recovery.torn_tail is None
        assert store.append(bundle(kept)) == kept
        store.finalize()
        assert numbers(store) == list(range(kept + 1))


@pytest.mark.parametrize(("mode", "least", "most"), [("sync", 5, 5), ("interval", 3, 5)])
def test_a_power_cut_leaves_what_the_mode_of_the_log_promises(
    mode: str, least: int, most: int
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, wal={"durability": mode})
    for n in range(3):
        store.append(bundle(n))
    store.maintain()
    store.append(bundle(3))
    store.append(bundle(4))
    counts = set()
    for found in after_power_cuts(disk):
        assert found[:3] == [0, 1, 2]
        counts.add(len(found))
    assert (min(counts), max(counts)) == (least, most)


def test_a_power_cut_without_a_log_leaves_what_was_finalized() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, wal={"durability": "segment"})
    for n in range(3):
        store.append(bundle(n))
    assert all(found == [] for found in after_power_cuts(disk))
    store.finalize()
    store.append(bundle(3))
    store.maintain()
    assert all(found == [0, 1, 2] for found in after_power_cuts(disk))


@pytest.mark.usefixtures("no_ticks")
def test_a_power_cut_later_than_the_interval_takes_nothing(disk: GatedDisk, open_gated) -> None:
    clock = ManualClock()
    store = open_gated(clock=clock, wal={"durability": "interval", "flush_interval": "20ms"})
    store.append(bundle(0))
    store.append(bundle(1))
    told = Told(store.append(bundle(2), wait=False))
    assert [] in after_power_cuts(disk)
    clock.step("20ms")
    told.wait()
    assert all(found == [0, 1, 2] for found in after_power_cuts(disk))


# What comes back is what was appended.


def test_times_numbers_and_slots_come_back_as_they_were_after_a_kill(
    opener, clock: ManualClock
) -> None:
    store = opener()
    times = []
    for n in range(4):
        clock.step("1s")
        times.append(clock.wall_ns())
        assert store.append(bundle(n)) == n
    abandon(store)
    clock.step("1h")
    store = opener()
    store.finalize()
    subscription = store.subscribe("reader")
    for n in range(4):
        with subscription.poll() as handle:
            assert (handle.wal_seq, handle.ingestion_ns) == (n, times[n])
            assert {name: handle[name].schema for name in handle} == {
                name: batch.schema for name, batch in bundle(n).items()
            }


@pytest.mark.parametrize(
    ("slots", "bits"), [(("events",), 1), (("notes",), 2), (("events", "notes"), 3)]
)
def test_slots_that_are_absent_leave_their_bits_clear(slots: tuple[str, ...], bits: int) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append({name: bundle(0)[name] if name in slots else None for name in SLOTS})
    head = disk.open(LOG).read(HEADER_BYTES + LENGTH.size, HEAD.size)
    assert HEAD.unpack(head)[3] == bits


@pytest.mark.parametrize("acts", ["f", "af", "a", "", "aaf", "fa"])
def test_a_log_whose_older_files_are_gone_opens_finalizes_and_appends(acts: str) -> None:
    config: dict[str, Any] = {"wal": {"rotate_size": 1}, "segment": WAITING}
    disk = MemoryDisk()
    store = on_memory(disk, **config)
    sent = 0
    for _ in range(3):
        for _ in range(2):
            assert store.append(bundle(sent)) == sent
            sent += 1
        store.finalize()
        for _ in range(2):
            store.append(bundle(sent))
            sent += 1
        names = [e.name for e in disk.list_dir("core_0/wal") if e.name[-1].isdigit()]
        assert names
        assert "quiver.wal.1" not in names
        for final in ("", acts):
            abandon(store)
            store = on_memory(disk, **config)
            assert not store.recovery.damage
            for act in final:
                if act == "f":
                    store.finalize()
                else:
                    assert store.append(bundle(sent)) == sent
                    sent += 1
        abandon(store)
        store = on_memory(disk, **config)
        assert not store.recovery.damage
        again = on_memory(copy_of(disk), **config)
        again.finalize()
        assert numbers(again) == list(range(sent))


# The sidecar: lost, stale, reverted, of the future.


def snapshots(*, punch: bool, **wal: object) -> list[tuple[MemoryDisk, int, bytes | None]]:
    """Lead a life; at each step, give what a kill leaves, the bundles there are, the sidecar."""
    disk = MemoryDisk(punch_supported=punch)
    store = on_memory(disk, wal=wal, segment=WAITING)
    found, sent = [], 0
    for step in range(6):
        for _ in range(step % 3 + 1):
            store.append(bundle(sent))
            sent += 1
        for act in (store.flush, store.finalize):
            act()
            there = disk.stat(SIDECAR) is not None
            sidecar = bytes(disk.map(SIDECAR)) if there else None
            found.append((copy_of(disk, punch=punch), sent, sidecar))
    return found


@pytest.mark.parametrize("punch", [True, False])
@pytest.mark.parametrize("rotate_size", [1, 2000, 1 << 20])
@pytest.mark.parametrize("mode", ["sync", "interval"])
def test_no_sidecar_of_another_moment_costs_or_doubles_a_bundle(
    rotate_size: int, mode: str, *, punch: bool
) -> None:
    config: dict[str, Any] = {
        "wal": {"rotate_size": rotate_size, "reclaim_size": 1, "durability": mode},
        "segment": WAITING,
    }
    life = snapshots(punch=punch, **config["wal"])
    sidecars = list(dict.fromkeys(sidecar for _, _, sidecar in life))
    assert len(sidecars) > 4
    for moment, (disk, sent, _) in enumerate(life):
        for sidecar in [*sidecars, b"", b"\xff" * 32][moment % STEP :: STEP]:
            image = copy_of(disk, punch=punch)
            put(image, SIDECAR, sidecar)
            store = on_memory(image, **config)
            assert len(store.recovery.damage) == (sidecar is not None and len(set(sidecar)) < 2)
            for n in range(sent, sent + 3):
                assert store.append(bundle(n)) == n
            abandon(store)
            again = on_memory(image, **config)
            assert not again.recovery.damage
            again.finalize()
            assert numbers(again) == list(range(sent + 3))


@pytest.fixture
def newer() -> MemoryDisk:
    """A store whose sidecar a later Quiver wrote: four bundles, three of them in a segment."""
    disk = MemoryDisk()
    store = on_memory(disk)
    for n in range(3):
        store.append(bundle(n))
    store.finalize()
    store.append(bundle(3))
    abandon(store)
    data = bytearray(disk.map(SIDECAR))
    struct.pack_into("<H", data, 8, 2)
    struct.pack_into("<I", data, 28, crc32c(bytes(data[:28])))
    put(disk, SIDECAR, bytes(data))
    return disk


def test_a_sidecar_of_a_later_version_is_refused_and_no_byte_changes(newer: MemoryDisk) -> None:
    before = newer.tree.digest()
    for _ in range(2):
        with pytest.raises(VersionError, match="format version 2, this Quiver reads 1"):
            on_memory(newer)
        assert newer.tree.digest() == before
    put(newer, SIDECAR, None)
    store = on_memory(newer)
    store.finalize()
    assert numbers(store) == [0, 1, 2, 3]


def test_a_sidecar_of_a_later_version_is_named_with_what_to_do_about_it(newer: MemoryDisk) -> None:
    with pytest.raises(VersionError) as caught:
        on_memory(newer)
    assert caught.value.hint


# What a later Quiver wrote.


@pytest.mark.parametrize("policy", ["strict", "salvage"])
def test_entries_of_unknown_types_are_passed_over_by_a_store(policy: str) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    for n in range(3):
        store.append(bundle(n))
    abandon(store)
    file = disk.open(LOG, writable=True)
    head = HEAD.pack(77, 5, 2, 2**64 - 1) + b"what nobody here knows"
    file.write(file.size(), LENGTH.pack(len(head)) + head + LENGTH.pack(crc32c(head)))
    size = file.size()
    file.close()
    for n in range(3, 6):
        store = on_memory(disk, recovery={"policy": policy})
        assert (store.recovery.replayed_bundles, store.recovery.damage) == (n, [])
        assert store.recovery.torn_tail is None
        assert disk.stat(LOG).size >= size
        assert store.append(bundle(n)) == n
        abandon(store)
    store = on_memory(disk, recovery={"policy": policy})
    store.finalize()
    assert numbers(store) == list(range(6))
    assert disk.list_dir("core_0")[0].name == "LOCK"
    assert disk.stat("core_0/quarantine") is None
