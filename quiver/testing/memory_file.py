"""An open file of a disk in RAM."""

from __future__ import annotations

import errno
from dataclasses import replace

from quiver.disk import Bytes
from quiver.testing.acts import Punch, Revert, Sync, Truncate, Write
from quiver.testing.file_tree import Blob
from quiver.testing.recorder import Recorder, refuse

__all__ = ["MemoryFile"]


class MemoryFile:
    """One open file of a MemoryDisk."""

    __slots__ = ("_disk", "_open", "_writable", "inode", "path")

    def __init__(self, disk: Recorder, inode: int, path: str, *, writable: bool) -> None:
        self._disk = disk
        disk.hold(inode)
        self._open = True
        self._writable = writable
        self.inode = inode
        self.path = path

    def size(self) -> int:
        """How many bytes it has now."""
        with self._disk.mutex:
            return len(self._bytes("look at").data)

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes ``[offset, offset + length)``; fewer only where the file ends."""
        with self._disk.mutex:
            return bytes(self._bytes("read").data[offset : offset + length])

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data``; on a full or failing disk a prefix of it, and raise."""
        with self._disk.mutex:
            blob = self._bytes("write", writable=True)
            op = Write(self.inode, offset, bytes(data), self.path)
            fault = self._disk.strike(op)
            room = self._disk.room_in(blob, offset, len(op.data))
            if fault == "short":
                room = min(room, len(op.data) // 2)
            elif fault is not None:
                room = 0
            if room:
                self._disk.record(replace(op, data=op.data[:room]))
            if fault == "EIO":
                refuse(errno.EIO, "write", self.path)
            if fault is not None or room < len(op.data):
                refuse(errno.ENOSPC, "write", self.path)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or grow it with zeros."""
        with self._disk.mutex:
            self._bytes("truncate", writable=True)
            self._disk.act(Truncate(self.inode, size, self.path))

    def punch(self, offset: int, length: int) -> bool:
        """Zero a range and free its blocks; False if ``punch_supported`` is off."""
        with self._disk.mutex:
            self._bytes("punch a hole in", writable=True)
            if not self._disk.punch_supported or length <= 0:
                return False
            self._disk.act(Punch(self.inode, offset, length, self.path))
            return True

    def next_data(self, offset: int) -> int | None:
        """Find the first byte at or after ``offset`` that is not in a hole; None if none is."""
        with self._disk.mutex:
            return self._bytes("seek in").next_data(offset)

    def sync(self) -> None:
        """Make bytes and size durable. One that fails gives up what was not durable yet."""
        with self._disk.mutex:
            self._bytes("sync")
            self._disk.act(Sync(self.inode, self.path))

    def settle(self) -> None:
        """Sync, and forget what failed syncs gave up: from now on it reads as on the disk."""
        with self._disk.mutex:
            self._bytes("settle")
            lasting = self._disk.given_up.pop(self.inode, None)
            if lasting is not None:
                blocks = frozenset(lasting.blocks)
                self._disk.record(Revert(self.inode, bytes(lasting.data), blocks, self.path))
            self._disk.act(Sync(self.inode, self.path))

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        with self._disk.mutex:
            if self._open:
                self._open = False
                self._disk.let_go(self.inode)

    def _bytes(self, act: str, *, writable: bool = False) -> Blob:
        if not self._open or (writable and not self._writable):
            refuse(errno.EBADF, act, self.path)
        return self._disk.tree.blobs[self.inode]
