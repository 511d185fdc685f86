"""What bounds the log: sizes at their borders, memory after a spike, what an opening reads."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from store_kit import abandon, bundle, numbers, on_memory

from quiver.errors import CapacityError, InputError, StorageError
from quiver.testing import MemoryDisk
from quiver.testing.memory_file import MemoryFile

SIDECAR = "core_0/wal/truncate.offset"
WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}


def copy_of(disk: MemoryDisk) -> MemoryDisk:
    """What a kill leaves of a disk."""
    return MemoryDisk(disk.tree)


def entry_bytes_of(number: int) -> int:
    """Give the size of the entry that a bundle becomes."""
    store = on_memory(MemoryDisk())
    store.append(bundle(number))
    return store.info().wal_bytes


# Sizes at their borders.


def test_an_entry_exactly_at_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    size = entry_bytes_of(0)
    disk = MemoryDisk()
    store = on_memory(disk, limits={"entry_bytes": size}, segment=WAITING)
    assert store.append(bundle(0)) == 0
    abandon(store)
    store = on_memory(disk, limits={"entry_bytes": size - 1}, segment=WAITING)
    assert not store.recovery.damage
    with pytest.raises(InputError, match=r"limits\.entry_bytes"):
        store.append(bundle(0))
    store.finalize()
    assert numbers(store) == [0]


@pytest.mark.parametrize("rotate_size", [1, 1 << 20])
def test_a_log_that_holds_one_entry_takes_one_after_the_other(rotate_size: int) -> None:
    size = max(entry_bytes_of(n) for n in range(8))
    config = {
        "wal": {"max_size": size, "rotate_size": rotate_size},
        "limits": {"entry_bytes": size},
        "segment": WAITING,
    }
    disk = MemoryDisk()
    for number in range(8):
        store = on_memory(disk, **config)
        assert not store.recovery.damage
        assert store.append(bundle(2 * number)) == 2 * number
        assert store.append(bundle(2 * number + 1)) == 2 * number + 1
        abandon(store)
    store = on_memory(disk, **config)
    store.finalize()
    assert numbers(store) == list(range(16))


@pytest.mark.parametrize(
    "lowered",
    [
        {"max_chunks": 2, "rotate_size": 1},
        {"max_size": 1000},
        {"max_size": 1000, "max_chunks": 2, "rotate_size": 1},
        {"rotate_size": 1},
    ],
    ids=str,
)
def test_caps_that_were_lowered_since_bind_the_next_append_and_lose_nothing(
    lowered: dict[str, int],
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, wal={"rotate_size": 1200}, segment=WAITING)
    for n in range(8):
        store.append(bundle(n))
    assert store.info().wal_files > 3
    abandon(store)
    store = on_memory(disk, wal=lowered, limits={"entry_bytes": 1000}, segment=WAITING)
    assert store.recovery.replayed_bundles == 8
    for n in range(8, 12):
        assert store.append(bundle(n)) == n
        if len(lowered) > 1:
            assert store.info().wal_files <= 2
    store.finalize()
    assert numbers(store) == list(range(12))


@pytest.mark.parametrize("rotate_size", [1, 700, 1 << 20])
def test_what_is_counted_of_the_log_stays_below_its_cap_whenever_it_rotates(
    rotate_size: int,
) -> None:
    cap = 2 * entry_bytes_of(0) - 1
    wal = {"max_size": cap, "rotate_size": rotate_size}
    store = on_memory(MemoryDisk(), wal=wal, limits={"entry_bytes": cap}, segment=WAITING)
    for _ in range(9):
        store.append(bundle(0))
        assert store.info().wal_bytes <= cap


@pytest.mark.parametrize("punch", [True, False])
@pytest.mark.parametrize("reclaim_size", [1, 1 << 20])
def test_a_log_of_one_file_never_comes_to_a_standstill(reclaim_size: int, *, punch: bool) -> None:
    wal = {"max_chunks": 1, "rotate_size": 3000, "reclaim_size": reclaim_size}
    disk = MemoryDisk(punch_supported=punch)
    store = on_memory(disk, wal=wal, segment=WAITING)
    for n in range(60):
        assert store.append(bundle(n)) == n
    store.finalize()
    assert numbers(store) == list(range(60))


def test_a_replay_under_the_tightest_budget_opens_and_goes_on() -> None:
    config: dict[str, Any] = {
        "segment": {"target_size": 2000, "max_open_duration": "1h"},
        "limits": {"entry_bytes": 3000},
        "wal": {"max_size": 6000, "rotate_size": 1500},
        "retention": {"size_cap": 160_000},
    }
    disk = MemoryDisk()
    store = on_memory(disk, **config)
    store.subscribe("reader")
    sent = 0
    for _ in range(4):
        with pytest.raises(CapacityError):
            for _ in range(1000):
                store.append(bundle(sent))
                sent += 1
        abandon(store)
        store = on_memory(disk, **config)
        assert not store.recovery.damage
        assert store.info().next_wal_seq == sent
        store.finalize()
        found = numbers(store)
        assert found[-1] == sent - 1
        store.maintain()
        assert store.info().segments == 0


# Memory.


def held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("mode", ["sync", "interval", "segment"])
def test_what_a_spike_took_is_let_go_after_it(opener, mode: str) -> None:
    store = opener({"wal": {"durability": mode}, "segment": WAITING})

    def small(start: int) -> None:
        for n in range(start, start + 20):
            store.append(bundle(n))
        store.finalize()
        assert len(numbers(store)) == 20
        store.maintain()

    small(0)
    before = held_bytes()
    store.append({"events": pa.record_batch({"n": np.arange(1_000_000)})})
    assert held_bytes() - before > 8_000_000
    store.finalize()
    store.subscribe("reader").poll().ack()
    store.maintain()
    small(20)
    assert held_bytes() - before < 3_000_000  # One file's worth of a buffer may stay.


# What an opening costs, and what it does when it cannot read.


def read_by_an_opening(
    monkeypatch: pytest.MonkeyPatch, finalized: int, live: int, *, lost: bool, **wal: object
) -> Counter[str]:
    """Count the bytes that an opening after a kill reads, for each place."""
    disk = MemoryDisk()
    store = on_memory(disk, wal=wal, segment=WAITING)
    for n in range(finalized):
        store.append(bundle(n), wait=False)
    store.finalize()
    for n in range(finalized, finalized + live):
        store.append(bundle(n), wait=False)
    store.flush()
    abandon(store)
    if lost:
        disk.unlink(SIDECAR)
    counted: Counter[str] = Counter()
    honest = MemoryFile.read

    def read(file: MemoryFile, offset: int, length: int) -> bytes:
        data = honest(file, offset, length)
        counted[file.path.rsplit("/", 1)[0]] += len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "read", read)
        again = on_memory(disk, wal=wal, segment=WAITING)
    assert again.recovery.replayed_bundles == live
    assert not again.recovery.damage
    return counted


@pytest.mark.parametrize("lost", [False, True], ids=["with sidecar", "without"])
@pytest.mark.parametrize("reclaim_size", [1, 1 << 30], ids=["hole", "no hole"])
@pytest.mark.parametrize("rotate_size", [20_000, 1 << 30], ids=["many files", "one file"])
def test_an_opening_reads_what_is_live_and_nothing_of_what_was_finalized(
    monkeypatch: pytest.MonkeyPatch, rotate_size: int, reclaim_size: int, *, lost: bool
) -> None:
    window = 4096
    monkeypatch.setattr("quiver.disk.window.WINDOW_BYTES", window)
    monkeypatch.setattr("quiver.disk.window.PASSING_BYTES", window)
    monkeypatch.setattr("quiver.wal.reader._SEARCH", window)
    monkeypatch.setattr("quiver.wal.content._SEARCH", window)
    wal = {"rotate_size": rotate_size, "reclaim_size": reclaim_size, "max_chunks": 1000}

    def cost(finalized: int, live: int) -> Counter[str]:
        return read_by_an_opening(monkeypatch, finalized, live, lost=lost, **wal)

    one = cost(100, 40)
    bytes_a_bundle = (entry_bytes_of(0) + entry_bytes_of(1)) / 2
    for finalized in (200, 800):
        more = cost(finalized, 40)
        assert {**more, "core_0/wal": 0} == {**one, "core_0/wal": 0}
        assert abs(more["core_0/wal"] - one["core_0/wal"]) <= 2 * window
    for factor in (2, 4, 8):
        more = cost(100, 40 * factor)
        grown = more["core_0/wal"] - one["core_0/wal"]
        # A file more costs two looks at its beginning.
        files = 1 + 40 * factor * bytes_a_bundle / rotate_size
        assert grown <= 1.2 * 40 * (factor - 1) * bytes_a_bundle + 2 * window * files


@pytest.mark.parametrize(
    ("owner", "what"),
    [(MemoryFile, what) for what in ("read", "size", "settle")]
    + [(MemoryDisk, what) for what in ("stat", "list_dir", "open")],
)
def test_a_disk_that_cannot_read_refuses_the_opening_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, owner: type, what: str
) -> None:
    honest = getattr(owner, what)
    sound = MemoryDisk()
    store = on_memory(sound, wal={"rotate_size": 2000, "reclaim_size": 1})
    store.subscribe("reader")
    for n in range(3):
        store.append(bundle(n))
    store.finalize()
    store.subscribe("reader").poll().ack()
    for n in range(3, 9):
        store.append(bundle(n))
    store._core.acks.sync()
    abandon(store)
    victim = refused = 0
    while True:
        disk = copy_of(sound)
        calls = [0]

        def broken(self: object, *args: object, at: int = victim, count=calls, **named: object):
            # What cannot be read of other processes' inboxes is told, and stops nothing.
            count[0] += "core_0/acks/inbox" not in args
            if count[0] == at + 1:
                raise StorageError("cannot read", errno=5)
            return honest(self, *args, **named)

        with monkeypatch.context() as patch:
            patch.setattr(owner, what, broken)
            try:
                abandon(on_memory(disk))
            except StorageError:
                refused += 1
                assert calls[0] == victim + 1
        if calls[0] <= victim:
            break
        again = on_memory(disk)
        assert not again.recovery.damage, victim
        again.finalize()
        assert numbers(again) == list(range(1, 9)), victim
        victim += 1
    assert refused == victim > 0
