"""One folder of a disk as a disk of its own: to build something there and rename it as a whole."""

from __future__ import annotations

import posixpath

from quiver.disk.vfs import FILE_MODE, Disk, File, Lock, Stat

__all__ = ["FolderDisk"]


class FolderDisk:
    """A folder of another disk, which it must have; paths are relative to it.

    Open files know the path that they have on the other disk.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        """Look at ``folder``; "" is the root."""
        self._disk = disk
        self._folder = folder

    def _path(self, path: str) -> str:
        return posixpath.join(self._folder, path) if path else self._folder

    def locate(self, path: str) -> str:
        """Give the path that a person would use."""
        return self._disk.locate(self._path(path))

    def stat(self, path: str) -> Stat | None:
        """Look at a path without following links; None if there is nothing."""
        return self._disk.stat(self._path(path))

    def list_dir(self, path: str) -> list[Stat]:
        """Give a folder's entries in order of name."""
        return self._disk.list_dir(self._path(path))

    def make_dir(self, path: str) -> None:
        """Make one folder; nothing happens if it is there already."""
        self._disk.make_dir(self._path(path))

    def create(self, path: str, *, mode: int = FILE_MODE) -> File:
        """Make a new file open for reading and writing; raises if the name is taken."""
        return self._disk.create(self._path(path), mode=mode)

    def open(self, path: str, *, writable: bool = False) -> File:
        """Open a regular file that exists; links are refused."""
        return self._disk.open(self._path(path), writable=writable)

    def map(self, path: str) -> memoryview:
        """Map a finished file read-only."""
        return self._disk.map(self._path(path))

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone."""
        self._disk.rename(self._path(source), self._path(target))

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self._disk.unlink(self._path(path))

    def sync_dir(self, path: str) -> None:
        """Return once the names in this folder survive a power cut."""
        self._disk.sync_dir(self._path(path))

    def lock(self, path: str, *, wait: bool = False) -> Lock:
        """Take the lock file at ``path``."""
        return self._disk.lock(self._path(path), wait=wait)
