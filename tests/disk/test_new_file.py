"""A new file is durable before it has its name, and a large one is synced piece by piece."""

from __future__ import annotations

import threading
from importlib import import_module

import pytest

from quiver.disk import SEALED_MODE, write_new
from quiver.errors import StorageError
from quiver.testing import MemoryDisk

PIECE = 10
PARTS = [b"0123456789abc", b"", b"defgh", memoryview(b"ijklmnopqrstuvwxyz")]
WHOLE = b"".join(PARTS)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("quiver.disk.replace"), "_PIECE", PIECE)


def acts(disk: MemoryDisk) -> list[str]:
    return [type(op).__name__ for op in disk.history.ops]


def test_no_sync_has_more_to_write_than_two_pieces_and_the_last_one_is_for_the_rest() -> None:
    disk = MemoryDisk()
    assert write_new(disk, "file", PARTS, mode=SEALED_MODE) == len(WHOLE)
    assert bytes(disk.map("file")) == WHOLE
    pending = 0
    for op in disk.history.ops:
        if type(op).__name__ == "Write":
            pending += len(op.data)
        if type(op).__name__ == "Sync":
            assert pending <= 2 * PIECE
            pending = 0
    assert pending == 0
    assert acts(disk).count("Sync") >= 3
    assert acts(disk)[-3:] == ["Sync", "Rename", "SyncDir"]


def test_a_small_file_is_written_and_synced_once() -> None:
    disk = MemoryDisk()
    write_new(disk, "file", [b"12345", b"6789"], mode=SEALED_MODE)
    assert acts(disk) == ["Create", "Write", "Sync", "Rename", "SyncDir"]


def test_all_writes_but_the_last_have_the_same_round_size() -> None:
    disk = MemoryDisk()
    write_new(disk, "file", [WHOLE[:3], WHOLE[3:], WHOLE, b"", WHOLE[:1]], mode=SEALED_MODE)
    sizes = [len(op.data) for op in disk.history.ops if type(op).__name__ == "Write"]
    assert sizes[:-1] == [PIECE] * (2 * len(WHOLE) // PIECE)
    assert bytes(disk.map("file")) == WHOLE * 2 + WHOLE[:1]


def test_without_a_thread_it_syncs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    disk = MemoryDisk()
    write_new(disk, "file", PARTS, mode=SEALED_MODE)
    assert bytes(disk.map("file")) == WHOLE
    assert acts(disk)[-3:] == ["Sync", "Rename", "SyncDir"]
    assert acts(disk).count("Sync") >= 3


def test_a_sync_that_fails_in_the_middle_leaves_no_file_and_is_not_tried_again() -> None:
    disk = MemoryDisk()
    fault = disk.fail(lambda act: type(act).__name__ == "Sync")
    with pytest.raises(StorageError):
        write_new(disk, "file", PARTS, mode=SEALED_MODE)
    assert fault.hits == 1
    assert acts(disk).count("Sync") == 1
    assert disk.list_dir("") == []
