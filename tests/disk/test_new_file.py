"""A new file is durable before it has its name, and written while it comes."""

from __future__ import annotations

import ctypes
import errno
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from quiver.disk import SEALED_MODE, Bytes, LocalDisk, NewFile, replace, write_new
from quiver.disk.calls import write_back
from quiver.disk.local_file import LocalFile
from quiver.errors import CapacityError, StorageError
from quiver.testing import MemoryDisk

PIECE = 10
PARTS = [b"0123456789abc", b"", b"defgh", memoryview(b"ijklmnopqrstuvwxyz")]
WHOLE = b"".join(PARTS)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("quiver.disk.replace"), "_PIECE", PIECE)


def acts(disk: MemoryDisk) -> list[str]:
    return [type(op).__name__ for op in disk.history.ops]


def test_a_file_is_synced_once_all_of_it_is_written_and_then_named() -> None:
    disk = MemoryDisk()
    assert write_new(disk, "file", PARTS, mode=SEALED_MODE) == len(WHOLE)
    assert bytes(disk.map("file")) == WHOLE
    assert acts(disk) == ["Create", *["Write"] * 4, "Sync", "Rename", "SyncDir"]


def test_each_piece_goes_to_the_disk_once_the_one_before_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def tell(descriptor: int, offset: int, length: int, *, wait: bool) -> None:
        told.append((wait, os.pread(descriptor, length, offset)))
        write_back(descriptor, offset, length, wait=wait)

    monkeypatch.setattr(import_module("quiver.disk.local_file"), "write_back", tell)
    write_new(LocalDisk(tmp_path), "file", PARTS, mode=SEALED_MODE)
    first, second, third = (WHOLE[start : start + PIECE] for start in (0, PIECE, 2 * PIECE))
    assert told == [(False, first), (True, first), (False, second), (True, second), (False, third)]
    assert (tmp_path / "file").read_bytes() == WHOLE


class Libc:
    """A system whose answer to ``sync_file_range`` is always this error."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.calls = 0

    def sync_file_range(self, *_: object) -> int:
        self.calls += 1
        ctypes.set_errno(self._number)
        return -1


@pytest.mark.parametrize("libc", [Libc(errno.ENOSYS), Libc(errno.EINVAL), object()])
def test_a_system_that_does_not_know_the_call_syncs_all_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libc: object
) -> None:
    monkeypatch.setattr(import_module("quiver.disk.calls"), "_libc", libc)
    write_new(LocalDisk(tmp_path), "file", PARTS, mode=SEALED_MODE)
    assert (tmp_path / "file").read_bytes() == WHOLE


def test_a_call_that_a_signal_broke_off_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        answers = iter([errno.EINTR, errno.EINTR, 0, errno.EINTR, errno.ENOSYS])

        def fallocate(self, *_: object) -> int:
            number = next(self.answers)
            ctypes.set_errno(number)
            return -1 if number else 0

    calls = import_module("quiver.disk.calls")
    monkeypatch.setattr(calls, "_libc", Interrupted())
    assert calls.punch_hole(-1, 0, 10)
    assert not calls.punch_hole(-1, 0, 10)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EIO, StorageError), (errno.ENOSPC, CapacityError)]
)
def test_a_piece_that_the_disk_did_not_take_fails_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    libc = Libc(number)
    monkeypatch.setattr(import_module("quiver.disk.calls"), "_libc", libc)
    with pytest.raises(kind, match=r"cannot sync .*file\.tmp"):
        write_new(LocalDisk(tmp_path), "file", PARTS, mode=SEALED_MODE)
    assert libc.calls == 1  # The next sync would be a success that means nothing.
    assert not list(tmp_path.iterdir())


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


def test_a_sync_that_fails_leaves_no_file_and_is_not_tried_again() -> None:
    disk = MemoryDisk()
    fault = disk.fail(lambda act: type(act).__name__ == "Sync")
    with pytest.raises(StorageError):
        write_new(disk, "file", PARTS, mode=SEALED_MODE)
    assert fault.hits == 1
    assert acts(disk).count("Sync") == 1
    assert disk.list_dir("") == []


def test_a_file_that_grows_is_nobody_else_s_until_it_is_whole() -> None:
    disk = MemoryDisk()
    replace(disk, "temporary", b"left by a dead process")
    file = NewFile(disk, "temporary")
    for part in PARTS:
        file.write(part)
    assert file.size == len(WHOLE)
    assert disk.stat("file") is None
    file.finish("file")
    assert acts(disk)[-2:] == ["Sync", "Rename"]
    assert [entry.name for entry in disk.list_dir("")] == ["file"]
    assert bytes(disk.map("file")) == WHOLE


def test_a_file_that_is_given_up_leaves_nothing() -> None:
    disk = MemoryDisk(capacity=8192)
    file = NewFile(disk, "temporary")
    with pytest.raises(CapacityError):
        file.write(bytes(9000))
    file.discard()
    file.discard()
    assert disk.list_dir("") == []


def test_a_growing_file_goes_to_the_disk_piece_by_piece(tmp_path: Path, monkeypatch) -> None:
    begun: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        import_module("quiver.disk.local_file"),
        "write_back",
        lambda _, offset, __, *, wait: begun.append((offset, wait)),
    )
    file = NewFile(LocalDisk(tmp_path), "temporary")
    file.write(bytes(PIECE - 1))
    assert begun == []
    file.write(bytes(PIECE + 1))
    file.write(bytes(PIECE))
    assert begun == [
        (0, False),
        *((0, True), (PIECE, False)),
        *((PIECE, True), (2 * PIECE, False)),
    ]
    file.finish("file")
    assert (tmp_path / "file").stat().st_size == 3 * PIECE


def test_the_first_of_much_goes_to_the_disk_before_the_rest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(
        import_module("quiver.disk.local_file"),
        "write_back",
        lambda descriptor, *_, wait: wait or sizes.append(os.fstat(descriptor).st_size),
    )
    file = NewFile(LocalDisk(tmp_path), "temporary")
    file.write(WHOLE[:3])
    file.write(memoryview(np.arange(6, dtype=np.int32)))
    file.finish("file")
    assert sizes == [PIECE, 2 * PIECE]
    assert (tmp_path / "file").read_bytes() == WHOLE[:3] + np.arange(6, dtype=np.int32).tobytes()


@pytest.mark.parametrize("behind", [0, 1, 4, 15, 31, 32, 4064, 4095])
@pytest.mark.parametrize("piece", [1 << 14, 1 << 16], ids=str)
def test_what_the_kernel_would_be_slow_to_copy_is_copied_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int, piece: int
) -> None:
    module = import_module("quiver.disk.replace")
    monkeypatch.setattr(module, "_PIECE", piece)
    monkeypatch.setattr(module, "_COPIED", 1 << 13)
    source = tmp_path / "source"
    source.write_bytes(np.random.default_rng(behind).bytes(150_000))
    disk = LocalDisk(tmp_path)
    copied: list[bool] = []
    file = NewFile(disk, "temporary")
    write = LocalFile.write

    def note(self: LocalFile, offset: int, data: Bytes) -> None:
        copied.append(isinstance(data, bytes))
        write(self, offset, data)

    monkeypatch.setattr(LocalFile, "write", note)
    file.write(bytes(behind))
    file.write(disk.map("source"))
    file.finish("file")
    assert (tmp_path / "file").read_bytes() == bytes(behind) + source.read_bytes()
    assert (sum(copied) > 10) is (0 < behind < 32)


@pytest.mark.parametrize("more", [b"", b"more"])
def test_what_was_synced_is_not_synced_again_and_what_came_behind_is(more: bytes) -> None:
    disk = MemoryDisk()
    file = NewFile(disk, "new.tmp")
    file.write(b"data")
    file.sync()
    if more:
        file.write(more)
    file.finish("new")
    assert acts(disk) == ["Create", "Write", "Sync", *["Write", "Sync"] * bool(more), "Rename"]
    assert bytes(disk.map("new")) == b"data" + more
