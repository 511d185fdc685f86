"""After a failed sync the system still shows bytes that are on no disk; nobody may believe them."""

from __future__ import annotations

import pytest
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.disk import LocalDisk
from quiver.testing import MemoryDisk


def test_what_a_failed_sync_gave_up_is_not_acknowledged_by_the_next_opening() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    disk.fail(lambda act: type(act).__name__ == "Sync" and act.path.endswith("quiver.wal"))
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(1))
    store.close()
    again = on_memory(disk)
    assert again.info().next_wal_seq == 1
    again.append(bundle(1))
    again.finalize()
    assert numbers(again) == [0, 1]


def test_an_outcome_that_a_failed_sync_gave_up_is_not_believed() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    store.finalize()
    handle = store.subscribe("reader").poll()
    handle.ack()
    disk.fail(lambda act: type(act).__name__ == "Sync" and act.path.endswith("ack.log"))
    with pytest.raises(quiver.StorageError):
        store.maintain()
    store.close()
    assert numbers(on_memory(disk)) == [0]


def test_settling_reads_from_the_disk_what_was_written(tmp_path) -> None:
    disk = LocalDisk(tmp_path)
    file = disk.create("file")
    file.write(0, b"words")
    file.settle()
    assert file.read(0, 10) == b"words"
    file.close()
    with pytest.raises(quiver.StorageError):
        file.settle()
    disk.close()
