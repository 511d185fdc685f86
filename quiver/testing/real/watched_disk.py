"""A disk that counts what is done to another one, and can be stopped before any act.

Acts are numbered as ``MemoryDisk`` numbers them: from 0, and only what changes the disk. What is
refused before it begins, because a name is missing or taken, has no number.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TypeAlias

from quiver.disk import FILE_MODE, Bytes, Disk, File, Lock, Stat
from quiver.testing.acts import (
    Act,
    Create,
    MakeDir,
    Mark,
    Punch,
    Rename,
    Sync,
    SyncDir,
    Truncate,
    Unlink,
    Write,
)
from quiver.testing.recorder import Killed

__all__ = ["Before", "WatchedDisk", "mark_from_json", "mark_to_json"]

Before: TypeAlias = Callable[[int, Act], bool]
"""Given an act and its number just before it is done. True ends it all: this act is not done and
none after it. Inodes and folders of these acts are 0; their paths tell them apart."""


class WatchedDisk:
    """Any disk with a notebook and a counter; safe to use from several threads."""

    def __init__(
        self,
        disk: Disk,
        *,
        before: Before | None = None,
        note: Callable[[Mark], None] | None = None,
    ) -> None:
        """Watch ``disk``; ``note`` is given each mark before the act that follows it."""
        self.act_count = 0
        self._disk = disk
        self._before = before
        self._note = note
        self._ended = False
        self._mutex = threading.RLock()
        self._open: set[WatchedFile | WatchedLock] = set()

    def act(self, op: Act) -> None:
        """Count an act that is about to be done; raises Killed instead if the end has come."""
        with self._mutex:
            if self._ended:
                raise Killed
            number, self.act_count = self.act_count, self.act_count + 1
            if self._before is not None and self._before(number, op):
                self._ended = True
                raise Killed

    def mark(self, label: str, **facts: object) -> None:
        """Write down what the workload knows now; after the end nobody listens."""
        with self._mutex:
            if self._note is not None and not self._ended:
                self._note(Mark(label, tuple(sorted(facts.items()))))

    def close(self) -> None:
        """Let go of everything that was opened through this disk, as the death of a process does.

        What was mapped stays until the last view of it is gone.
        """
        for handle in tuple(self._open):
            handle.abandon()
        close = getattr(self._disk, "close", None)
        if close is not None:
            close()

    def keep(self, handle: WatchedFile | WatchedLock) -> None:
        """Remember what ``close`` has to let go of."""
        self._open.add(handle)

    def forget(self, handle: WatchedFile | WatchedLock) -> None:
        """Forget what was let go of."""
        self._open.discard(handle)

    # The Disk protocol.

    def locate(self, path: str) -> str:
        """Give the path that a person would use, for messages."""
        return self._disk.locate(path)

    def stat(self, path: str) -> Stat | None:
        """Look at a path without following links; None if there is nothing."""
        return self._disk.stat(path)

    def list_dir(self, path: str) -> list[Stat]:
        """Give a folder's entries in order of name."""
        return self._disk.list_dir(path)

    def make_dir(self, path: str) -> None:
        """Make one folder; nothing happens if it is there already."""
        if self.stat(path) is None:
            self.act(MakeDir(0, _name(path), 0, path))
        self._disk.make_dir(path)

    def create(self, path: str, *, mode: int = FILE_MODE) -> WatchedFile:
        """Make a new file open for reading and writing; raises if the name is taken."""
        if self.stat(path) is None:
            self.act(Create(0, _name(path), 0, mode, path))
        return WatchedFile(self, self._disk.create(path, mode=mode), writable=True)

    def open(self, path: str, *, writable: bool = False) -> WatchedFile:
        """Open a regular file that exists; links are refused."""
        return WatchedFile(self, self._disk.open(path, writable=writable), writable=writable)

    def map(self, path: str) -> memoryview:
        """Map a finished file read-only."""
        return self._disk.map(path)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone."""
        if source != target and self.stat(source) is not None:
            self.act(Rename(0, _name(source), 0, _name(target), 0, source, target))
        self._disk.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        if self.stat(path) is not None:
            self.act(Unlink(0, _name(path), 0, path))
        self._disk.unlink(path)

    def sync_dir(self, path: str) -> None:
        """Return once the names in this folder survive a power cut."""
        if not path or self.stat(path) is not None:
            self.act(SyncDir(0, path))
        self._disk.sync_dir(path)

    def lock(self, path: str, *, wait: bool = False) -> WatchedLock:
        """Take the lock file at ``path``; to make it is an act, to take it is none."""
        if self.stat(path) is None:
            self.act(Create(0, _name(path), 0, FILE_MODE, path))
        return WatchedLock(self, self._disk.lock(path, wait=wait))


class WatchedFile:
    """One open file of a WatchedDisk."""

    def __init__(self, disk: WatchedDisk, file: File, *, writable: bool) -> None:
        self.path = file.path
        self._disk = disk
        self._file = file
        self._closed = False
        self._writable = writable
        disk.keep(self)

    def size(self) -> int:
        """How many bytes it has now."""
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes ``[offset, offset + length)``; fewer only where the file ends."""
        return self._file.read(offset, length)

    def next_data(self, offset: int) -> int | None:
        """Find the first byte at or after ``offset`` that is not in a hole; None if none is."""
        return self._file.next_data(offset)

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data`` at ``offset``, or raise with any prefix of it written."""
        if self._writable:
            self._disk.act(Write(0, offset, bytes(data), self.path))
        self._file.write(offset, data)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or grow it with zeros."""
        if self._writable:
            self._disk.act(Truncate(0, size, self.path))
        self._file.truncate(size)

    def punch(self, offset: int, length: int) -> bool:
        """Zero a range and give its blocks back; False if this disk cannot."""
        if self._writable and length > 0:
            self._disk.act(Punch(0, offset, length, self.path))
        return self._file.punch(offset, length)

    def sync(self) -> None:
        """Return once bytes and size survive a power cut."""
        if not self._closed:
            self._disk.act(Sync(0, self.path))
        self._file.sync()

    def settle(self) -> None:
        """Sync, and let the next read come from the disk and not from memory: one act."""
        if not self._closed:
            self._disk.act(Sync(0, self.path))
        self._file.settle()

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        self._closed, self._writable = True, False
        self._disk.forget(self)
        self._file.close()

    abandon = close


class WatchedLock:
    """A held lock of a WatchedDisk."""

    def __init__(self, disk: WatchedDisk, lock: Lock) -> None:
        self._disk = disk
        self._lock = lock
        disk.keep(self)

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        self._disk.forget(self)
        self._lock.release()

    abandon = release


def mark_to_json(mark: Mark) -> str:
    """Put a mark of plain facts into one line."""
    return json.dumps({"mark": mark.label, "facts": dict(mark.facts)})


def mark_from_json(line: dict[str, object]) -> Mark:
    """Take a mark out of what a line of JSON said."""
    facts = line["facts"]
    pairs = facts.items() if isinstance(facts, dict) else ()
    return Mark(str(line["mark"]), tuple(sorted(pairs)))


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
