"""What is set aside counts for the cap: who gives up everything cannot fill the disk with it."""

from __future__ import annotations

from typing import Any

import pytest
from store_kit import bundle, on_memory

import quiver
from quiver.testing import MemoryDisk

CAP = 300_000
KNOBS: dict[str, Any] = {
    "segment": {"target_size": 100_000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 12_000, "rotate_size": 10_000, "reclaim_size": 4096},
    "subscriber": {"retry_first": "1ms", "retry_max": "1ms"},
    "retention": {"size_cap": CAP + 131_072},
}


def full() -> tuple[MemoryDisk, quiver.Store]:
    disk = MemoryDisk()
    store = on_memory(disk, **KNOBS)
    store.subscribe("reader")
    with pytest.raises(quiver.CapacityError):
        for number in range(2000):
            store.append(bundle(number))
    return disk, store


@pytest.mark.parametrize("ticks", [False, True])
def test_dead_letters_pass_the_cap_by_no_more_than_a_segment(*, ticks: bool) -> None:
    disk, store = full()
    reader, config = store.subscribe("reader"), store._core.config
    most = config.retention.size_cap + config.segment.target_size
    given_up = 0
    with pytest.raises(quiver.CapacityError, match="set aside"):
        for _ in range(200):
            handle = reader.poll()
            assert handle is not None
            try:
                handle.reject("no use")
                given_up += 1
            except quiver.CapacityError:
                handle.nack()
                raise
            if ticks:
                store.maintain()
            assert disk.used() <= most
    assert 3 < given_up < 200  # A full store can give up some all the same.
    assert store.lag("reader").dead_letter_count == given_up


def test_what_found_no_room_is_given_up_once_there_is_some() -> None:
    disk, store = full()
    reader = store.subscribe("reader")
    disk.make_dir("core_0/quarantine")
    file = disk.create("core_0/quarantine/x")
    file.write(0, bytes(150_000))
    store.maintain()
    handle = reader.poll()
    assert handle is not None
    with pytest.raises(quiver.CapacityError, match="set aside"):
        handle.reject("no use")
    disk.unlink("core_0/quarantine/x")
    store.maintain()
    handle.reject("no use")
    assert store.lag("reader").dead_letter_count == 1
