"""Bundles that are in the log and in no segment yet, in each state that a store may be left in."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from open_kit import check, snapshot, view
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.disk import LocalDisk
from quiver.errors import MissingError, VersionError
from quiver.manifest import StoreManifest
from quiver.scan import open_log, take_snapshot
from quiver.segment import segment_name
from quiver.testing import ManualClock, MemoryDisk

HUGE = {"target_size": "1GiB", "max_open_duration": "1h"}


def opened(disk: MemoryDisk, **wal: object) -> quiver.Store:
    return on_memory(disk, wal=wal, segment=HUGE)


def fill(store: quiver.Store, *counts: int, begin: int = 0) -> int:
    """Append so many bundles, finalize, again for the next count; the last ones stay open."""
    for index, count in enumerate(counts):
        if index:
            store.finalize()
        for number in range(begin, begin + count):
            store.append(bundle(number))
        begin += count
    return begin


@pytest.mark.parametrize(
    "counts, finalized, unfinalized",
    [
        ((0,), 0, 0),
        ((3,), 0, 3),
        ((3, 0), 3, 0),
        ((3, 2), 3, 2),
        ((1, 2, 3, 4), 6, 4),
    ],
)
@pytest.mark.parametrize(
    "wal",
    [
        {},
        {"reclaim_size": 1},
        {"reclaim_size": 1, "reclaim": "copy"},
        {"reclaim_size": 1, "reclaim": "recycle"},
        {"rotate_size": 1200, "reclaim_size": 1},
        {"rotate_size": 1200, "reclaim_size": "1GiB"},
        {"durability": "interval"},
    ],
    ids=str,
)
def test_each_bundle_is_in_a_segment_or_open_while_the_store_is_open_and_after_a_kill(
    wal, counts, finalized, unfinalized
) -> None:
    disk = MemoryDisk()
    store = opened(disk, **wal)
    total = fill(store, *counts)
    expected = list(range(finalized)), list(range(finalized, total))
    assert len(expected[1]) == unfinalized
    assert view(disk) == expected
    abandon(store)
    assert view(disk) == expected
    again = opened(disk, **wal)
    assert view(disk) == expected
    fill(again, 2, begin=total)
    assert view(disk) == (expected[0], [*expected[1], total, total + 1])
    again.close()
    assert view(disk) == (list(range(total + 2)), [])


def test_a_snapshot_changes_nothing() -> None:
    disk = MemoryDisk()
    store = opened(disk, rotate_size=1200)
    fill(store, 3, 4)
    before = disk.act_count
    view(disk)
    assert disk.act_count == before
    store.close()


def test_without_include_open_the_log_is_not_looked_at() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    fill(store, 2, 2)
    disk.create("core_0/wal/quiver.wal.9").close()
    segments, bundles = take_snapshot(disk, StoreManifest.read(disk), include_open=False)
    assert [ref.segment_seq for ref in segments] == [0]
    assert bundles == ()
    store.close()


def test_without_a_log_nothing_open_is_seen() -> None:
    disk = MemoryDisk()
    store = opened(disk, durability="segment")
    fill(store, 2, 2)
    assert view(disk) == ([0, 1], [])
    store.finalize()
    assert view(disk) == ([0, 1, 2, 3], [])
    store.close()
    again = opened(disk)
    fill(again, 1, begin=4)
    assert view(disk) == ([0, 1, 2, 3], [4])
    again.close()


@pytest.mark.parametrize("begun", [False, True])
def test_a_store_that_was_never_written_has_nothing(begun) -> None:
    disk = MemoryDisk()
    if begun:
        opened(disk).close()
    else:
        StoreManifest.new(quiver.SlotTable.of(SLOTS)).write(disk)
        disk.make_dir("core_0")
    assert view(disk) == ([], [])


@pytest.mark.parametrize("reclaim_size", [1, "1GiB"])
def test_what_all_subscribers_have_and_is_deleted_does_not_come_back(reclaim_size) -> None:
    disk = MemoryDisk()
    store = opened(disk, reclaim_size=reclaim_size)
    store.subscribe("reader")
    fill(store, 2, 3, 0)
    assert numbers(store) == [0, 1, 2, 3, 4]
    assert store.maintain() == 2
    assert view(disk) == ([], [])
    fill(store, 2, begin=5)
    assert view(disk) == ([], [5, 6])
    abandon(store)
    assert view(disk) == ([], [5, 6])
    opened(disk).close()
    assert view(disk) == ([5, 6], [])


def test_an_older_segment_that_outlives_a_newer_one_does_not_bring_its_bundles_back() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    subscription = store.subscribe("reader")
    fill(store, 1, 1, 0)
    first, second = subscription.poll(), subscription.poll()
    second.ack()
    assert store.maintain() == 1
    assert view(disk) == ([0], [])
    first.nack()
    store.close()


def test_several_cores_are_given_one_after_the_other() -> None:
    disk = MemoryDisk()
    stores = [
        quiver.open(
            "m", slots=SLOTS, disk=disk, core=core, clock=ManualClock(), worker=False,
            config={"segment": HUGE},
        )
        for core in (0, 2)
    ]  # fmt: skip
    fill(stores[0], 1, 2)
    fill(stores[1], 3, 1)
    segments, bundles = snapshot(disk)
    assert [(ref.core, ref.segment_seq) for ref in segments] == [(0, 0), (2, 0)]
    assert [(one.core, one.wal_seq) for one in bundles] == [(0, 1), (0, 2), (2, 3)]
    for store in stores:
        store.close()


# bundles ---------------------------------------------------------------------------------------


def test_a_bundle_says_what_it_has_and_when_it_came() -> None:
    disk = MemoryDisk()
    clock = ManualClock()
    store = quiver.open("m", slots=SLOTS, disk=disk, clock=clock, worker=False)
    store.append(bundle(0))
    clock.step(1)
    store.append(bundle(1))
    _, (zero, one) = snapshot(disk)
    assert one.ingestion_ns - zero.ingestion_ns == 10**9
    assert one.ingestion_ns == clock.wall_ns()
    assert [(slot.slot_id, slot.row_count) for slot in zero.slots] == [(0, 2), (1, 1)]
    assert [slot.slot_id for slot in one.slots] == [0]
    assert one.batch(disk, 1) is None
    assert zero.batch(disk, 0).equals(pa.record_batch(bundle(0)["events"]))
    assert zero.slot(0).fingerprint == one.slot(0).fingerprint != zero.slot(1).fingerprint
    store.close()


def test_of_one_slot_only_the_bundles_that_have_it_are_given_and_only_its_rows_are_kept() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    fill(store, 4)
    _, bundles = snapshot(disk, slot_id=1)
    assert [one.wal_seq for one in bundles] == [0, 2]
    for one in bundles:
        assert one.slot(0).data is None
        assert len(one.slot(1).data) == one.slot(1).byte_count
        check(disk, one)
    store.close()


def test_a_bundle_that_is_kept_outlives_its_log_and_travels() -> None:
    disk = MemoryDisk()
    store = opened(disk, reclaim_size=1)
    fill(store, 2)
    _, bundles = pickle.loads(pickle.dumps(snapshot(disk)))
    store.finalize()
    for one in bundles:
        check(disk, one)
    store.close()


def fetched_later(monkeypatch, disk: MemoryDisk) -> tuple:
    """Take a snapshot that has room for no payload."""
    monkeypatch.setattr(open_log, "KEPT_BYTES_MAX", 0)
    _, bundles = snapshot(disk)
    assert all(slot.data is None for one in bundles for slot in one.slots)
    return bundles


def test_a_bundle_that_is_not_kept_is_read_from_the_log_also_when_that_was_rotated(
    monkeypatch,
) -> None:
    disk = MemoryDisk()
    store = opened(disk, rotate_size=1500)
    fill(store, 2)
    bundles = fetched_later(monkeypatch, disk)
    fill(store, 4, begin=2)
    assert disk.stat("core_0/wal/quiver.wal.1") is not None
    for one in bundles:
        check(disk, one)
    store.close()


@pytest.mark.parametrize(
    "wal",
    [
        {"reclaim_size": 1},
        {"reclaim_size": 1, "reclaim": "copy"},
        {"reclaim_size": 1, "reclaim": "recycle"},
        {"rotate_size": 1200, "reclaim_size": 1},
    ],
    ids=str,
)
def test_a_bundle_that_left_the_log_is_missing_and_a_refresh_is_advised(monkeypatch, wal) -> None:
    disk = MemoryDisk()
    store = opened(disk, **wal)
    fill(store, 2)
    bundles = fetched_later(monkeypatch, disk)
    store.finalize()
    fill(store, 4, 2, begin=2)
    for one in bundles:
        with pytest.raises(MissingError, match=r"refresh\(\)") as caught:
            one.batch(disk, 0)
        assert "core_0/wal" in caught.value.path
    store.close()


def test_what_is_kept_is_bounded_and_the_rest_is_read_later(monkeypatch) -> None:
    disk = MemoryDisk()
    store = opened(disk)
    fill(store, 6)
    size = sum(slot.byte_count for slot in snapshot(disk)[1][0].slots)
    monkeypatch.setattr(open_log, "KEPT_BYTES_MAX", 2 * size)
    _, bundles = snapshot(disk)
    kept = sum(len(slot.data or b"") for one in bundles for slot in one.slots)
    assert size <= kept <= 2 * size
    for one in bundles:
        check(disk, one)
    store.close()


# layouts ---------------------------------------------------------------------------------------


def test_a_log_of_another_layout_has_no_bundles_or_is_refused() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    manifest = StoreManifest.read(disk)
    other = StoreManifest(manifest.store_id, quiver.SlotTable.of(["events", "others"]))
    assert take_snapshot(disk, other, include_open=True) == ((), ())
    store.append(bundle(0))
    with pytest.raises(VersionError, match=r"core_0/wal/quiver\.wal: .*another|layout"):
        take_snapshot(disk, other, include_open=True)
    store.close()


# processes -------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys, quiver, pyarrow as pa
store = quiver.open(sys.argv[1], slots=["events", "notes"], worker=False)
for number in range(7):
    bundle = {"events": pa.record_batch({"n": pa.array([number, None], pa.int64())})}
    if number % 2 == 0:
        bundle["notes"] = pa.record_batch({"s": [f"note {number}"]})
    store.append(bundle)
    if number == 3:
        store.finalize()
os.kill(os.getpid(), signal.SIGKILL)
"""

RESTLESS = """
import sys, quiver, pyarrow as pa
wal = {"reclaim_size": 1, "rotate_size": 4096, "durability": "interval", "reclaim": sys.argv[2]}
config = {"wal": wal, "segment": {"max_open_duration": "1h"}}
store = quiver.open(sys.argv[1], slots=["events"], worker=False, config=config)
reader = store.subscribe("reader")
print("ready", flush=True)
for number in range(602):
    store.append({"events": pa.record_batch({"n": [number]})})
    if number % 7 == 6:
        store.finalize()
    if number % 70 == 69:
        for _ in range(35):
            reader.poll().ack()
        store.maintain()
store.close()
"""


def test_a_writer_that_was_killed_leaves_its_open_bundles_to_be_seen(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "s"], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    disk = LocalDisk(tmp_path / "s")
    assert view(disk) == ([0, 1, 2, 3], [4, 5, 6])
    disk.close()


@pytest.mark.parametrize("reclaim", ["punch", "copy", "recycle"])
def test_a_reader_beside_a_restless_writer_sees_no_hole_and_nothing_twice(
    tmp_path: Path, reclaim: str
) -> None:
    command = [sys.executable, "-c", RESTLESS, str(tmp_path / "s"), reclaim]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    disk = LocalDisk(tmp_path / "s")
    looks = with_open = last = 0
    is_over = False
    while not is_over:
        is_over = process.poll() is not None  # One more look once it is.
        segments, bundles = snapshot(disk)
        listed = [ref.segment_seq for ref in segments]
        for segment_seq in set(range(max(listed, default=0))) - set(listed):
            name = f"core_0/segments/{segment_name(segment_seq)}"
            assert disk.stat(name) is None  # Deleted, for the reader has it all.
        opened = [one.wal_seq for one in bundles]
        first = listed[-1] * 7 + 7 if listed else (opened or [0])[0]
        assert opened == list(range(first, first + len(opened)))
        seen = [first - 1, *opened]
        assert [one.batch(disk, 0)["n"][0].as_py() for one in bundles] == [
            one.wal_seq for one in bundles
        ]
        assert seen[-1] >= last or not listed
        last = max(last, seen[-1])
        looks += 1
        with_open += bool(bundles)
    process.stdout.close()
    assert process.returncode == 0
    assert last == 601
    assert not bundles
    assert looks > 3
    assert with_open
    disk.close()
