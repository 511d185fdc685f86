"""A disk some of whose locks are held already, by whoever passes it on.

Work on a whole store opens and closes one part after the other, and each opening takes the lock of
its part. Nobody may come in between: so the locks are taken once, and handed out again from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from quiver.disk.vfs import FILE_MODE, Disk, File, Lock, Stat

__all__ = ["HeldDisk"]


class _Lent:
    """A lock that somebody else holds and gives up."""

    def release(self) -> None:
        """Do nothing: it stays held."""


class HeldDisk:
    """All acts go to the disk behind it; locks in ``paths`` are held from start to ``release``."""

    def __init__(self, disk: Disk, paths: Iterable[str]) -> None:
        """Take the locks; raises LockedError, and holds none then."""
        self._disk = disk
        self._held: dict[str, Lock] = {}
        try:
            for path in paths:
                self._held[path] = disk.lock(path)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give all locks up, the last one first; a second call does nothing.

        Who waits for the first one finds all others free.
        """
        for lock in reversed(self._held.values()):
            lock.release()
        self._held.clear()

    def __enter__(self) -> Self:
        """Hold the locks for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give them up."""
        self.release()

    # The Disk protocol.

    def lock(self, path: str, *, wait: bool = False) -> Lock:
        """Lend a lock that is held, or take it from the disk."""
        return _Lent() if path in self._held else self._disk.lock(path, wait=wait)

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
        self._disk.make_dir(path)

    def create(self, path: str, *, mode: int = FILE_MODE) -> File:
        """Make a new file open for reading and writing; raises if the name is taken."""
        return self._disk.create(path, mode=mode)

    def open(self, path: str, *, writable: bool = False) -> File:
        """Open a regular file that exists; links are refused."""
        return self._disk.open(path, writable=writable)

    def map(self, path: str) -> memoryview:
        """Map a finished file read-only; it stays readable after an unlink of its name."""
        return self._disk.map(path)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone."""
        self._disk.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self._disk.unlink(path)

    def sync_dir(self, path: str) -> None:
        """Return once the names in this folder survive a power cut; "" is the root."""
        self._disk.sync_dir(path)
