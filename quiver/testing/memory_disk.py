"""A disk in RAM: it records each act, fills up, and fails when it is told to.

It keeps the promises of ``quiver.disk.vfs`` and no more. ``history`` is what
``quiver.testing.crash_images`` needs to say what a power cut would have left behind.
"""

from __future__ import annotations

import errno
import os
import posixpath

from quiver.disk import FILE_MODE, Stat
from quiver.errors import LockedError
from quiver.testing.acts import Create, MakeDir, Rename, SyncDir, Unlink
from quiver.testing.file_tree import BLOCK, ROOT, Tree
from quiver.testing.memory_file import MemoryFile
from quiver.testing.recorder import Recorder, locate, refuse

__all__ = ["MemoryDisk"]


class MemoryLock:
    """A held lock of a MemoryDisk."""

    __slots__ = ("_disk", "_inode")

    def __init__(self, disk: MemoryDisk, inode: int) -> None:
        self._disk = disk
        self._inode = inode

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        self._disk.unlock(self._inode)
        self._inode = -1


class MemoryDisk(Recorder):
    """Files and folders in RAM behind the ``Disk`` protocol; safe to use from several threads.

    ``capacity`` bounds the bytes in blocks of 4096, as a real disk does: a write beyond it puts
    down the prefix that fits and raises CapacityError. ``act_count`` counts the acts tried, so
    that a test can run a workload once and then fail each of its acts in turn.
    """

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        capacity: int | None = None,
        punch_supported: bool = True,
    ) -> None:
        """Start empty, or from a tree that counts as durable and is not changed."""
        super().__init__(tree, capacity, punch_supported=punch_supported)
        self._locked: set[int] = set()

    # The Disk protocol.

    def locate(self, path: str) -> str:
        """Give the path with a word in front that says where it is not."""
        return locate(path)

    def stat(self, path: str) -> Stat | None:
        """Look at a path; None if there is nothing."""
        with self.mutex:
            inode = self._find(path)
            return None if inode is None else self._stat(posixpath.basename(path), inode)

    def list_dir(self, path: str) -> list[Stat]:
        """Give a folder's entries in order of name."""
        with self.mutex:
            inode = self._inode(path, "list")
            if inode not in self.tree.folders:
                refuse(errno.ENOENT, "list", path)
            return [self._stat(name, i) for name, i in sorted(self.tree.folders[inode].items())]

    def make_dir(self, path: str) -> None:
        """Make one folder; nothing happens if it is there already."""
        with self.mutex:
            folder, name = self._parent(path, "make the folder")
            there = self._find(path)
            if there is None:
                self.act(MakeDir(folder, name, self.new_inode(), path))
            elif there in self.tree.blobs:
                refuse(errno.EEXIST, "make the folder", path)

    def create(self, path: str, *, mode: int = FILE_MODE) -> MemoryFile:
        """Make a new file open for reading and writing; raises if the name is taken."""
        with self.mutex:
            folder, name = self._parent(path, "create")
            if self._find(path) is not None:
                refuse(errno.EEXIST, "create", path)
            inode = self.new_inode()
            self.act(Create(folder, name, inode, mode, path))
            return MemoryFile(self, inode, path, writable=True)

    def open(self, path: str, *, writable: bool = False) -> MemoryFile:
        """Open a file that exists."""
        with self.mutex:
            inode = self._inode(path, "open")
            if inode in self.tree.folders:
                refuse(errno.EISDIR, "open", path)
            return MemoryFile(self, inode, path, writable=writable)

    def map(self, path: str) -> memoryview:
        """Give the bytes as they are now; later acts do not change the view."""
        with self.mutex:
            file = self.open(path)
            try:
                return memoryview(file.read(0, file.size()))
            finally:
                file.close()

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone."""
        with self.mutex:
            inode = self._inode(source, f"rename to {target}:")
            source_folder, source_name = self._parent(source, "rename")
            folder, name = self._parent(target, "rename")
            replaced = self._find(target)
            if replaced == inode:
                return
            if replaced in self.tree.folders:
                refuse(errno.EISDIR, f"rename to {target}:", source)
            self.act(Rename(source_folder, source_name, folder, name, inode, source, target))
            if replaced is not None:
                self.drop_if_unused(replaced)

    def unlink(self, path: str) -> None:
        """Remove a name; the file stays readable where it is open."""
        with self.mutex:
            inode = self._inode(path, "delete")
            if inode in self.tree.folders:
                refuse(errno.EISDIR, "delete", path)
            folder, name = self._parent(path, "delete")
            self.act(Unlink(folder, name, inode, path))
            self.drop_if_unused(inode)

    def sync_dir(self, path: str) -> None:
        """Make the names in this folder durable."""
        with self.mutex:
            inode = self._inode(path, "sync the folder")
            if inode not in self.tree.folders:
                refuse(errno.ENOENT, "sync the folder", path)
            self.act(SyncDir(inode, path))

    def lock(self, path: str, *, wait: bool = False) -> MemoryLock:  # noqa: ARG002 Nobody to wait for.
        """Take the lock file at ``path``, made if missing; raises LockedError if it is held."""
        with self.mutex:
            if self._find(path) is None:
                self.create(path).close()
            inode = self._inode(path, "open the lock")
            if inode in self._locked:
                folder = self.locate(posixpath.dirname(path))
                raise LockedError(f"{folder} is being written by this process", pid=os.getpid())
            self._locked.add(inode)
            return MemoryLock(self, inode)

    def unlock(self, inode: int) -> None:
        """Give one lock up."""
        with self.mutex:
            self._locked.discard(inode)

    def forget_locks(self) -> None:
        """Free every lock, as the death of the process that held them does."""
        with self.mutex:
            self._locked.clear()

    def mode(self, path: str) -> int:
        """Give the mode that a file was created with."""
        with self.mutex:
            return self.tree.blobs[self._inode(path, "look at")].mode

    def _parent(self, path: str, act: str) -> tuple[int, str]:
        folder, name = posixpath.split(path)
        inode = self._inode(folder, act)
        if inode not in self.tree.folders:
            refuse(errno.ENOENT, act, path)
        return inode, name

    def _find(self, path: str) -> int | None:
        inode = ROOT
        for name in filter(None, path.split("/")):
            found = self.tree.folders.get(inode, {}).get(name)
            if found is None:
                return None
            inode = found
        return inode

    def _inode(self, path: str, act: str) -> int:
        inode = self._find(path)
        if inode is None:
            refuse(errno.ENOENT, act, path)
        return inode

    def _stat(self, name: str, inode: int) -> Stat:
        blob = self.tree.blobs.get(inode)
        if blob is None:
            return Stat(name, is_file=False, size=BLOCK, allocated=BLOCK)
        return Stat(name, is_file=True, size=len(blob.data), allocated=BLOCK * len(blob.blocks))

    def __repr__(self) -> str:
        """Say how much was done on it."""
        return f"MemoryDisk({self.act_count} acts)"
