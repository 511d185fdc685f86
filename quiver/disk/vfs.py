"""What the store asks of an operating system, with the durability of each act in words.

A ``Disk`` is one folder, the root of a store; every path is relative to it, with ``/`` between
names and no ``..``. Two implementations exist: ``LocalDisk`` (this package) and ``MemoryDisk``
(``quiver.testing``), which records each act and enumerates what a power cut may leave behind.

Nothing is durable until synced, and bytes and names are synced apart:

===============  ===================================================================
act              survives a power cut after
===============  ===================================================================
write, truncate  ``File.sync`` of that file returned
create, rename,  ``Disk.sync_dir`` of the folder that holds the name returned
unlink
===============  ===================================================================

A failed sync says nothing about what is on disk, and a second one may succeed although the bytes
are gone: never retry it. Acts raise StorageError (MissingError if there is nothing at the path,
CapacityError if the disk is full) and name the whole path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from pyarrow import Buffer

__all__ = ["FILE_MODE", "FOLDER_MODE", "SEALED_MODE", "Bytes", "Disk", "File", "Lock", "Stat"]

Bytes: TypeAlias = "bytes | bytearray | memoryview | Buffer"
"""Anything contiguous that a file can be written from."""

FOLDER_MODE = 0o700
FILE_MODE = 0o600
SEALED_MODE = 0o440
"""The mode of finished segments: nobody writes to them again, not even their owner."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What is at a path. ``allocated`` is what the file takes on the disk, holes not counted.

    ``modified_ns`` is when its bytes were last written, as far as the system knows: 0 on a disk
    without a clock. Two looks at one file are equal whatever it says. Links are looked at and not
    what they point to.
    """

    name: str
    is_file: bool
    size: int
    allocated: int
    modified_ns: int = field(default=0, compare=False)
    is_link: bool = False


class File(Protocol):
    """One open regular file. Reads and writes name their place; there is no cursor."""

    @property
    def path(self) -> str:
        """Its path below the disk's root."""
        ...

    def size(self) -> int:
        """How many bytes it has now."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes ``[offset, offset + length)``; fewer only where the file ends."""
        ...

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data`` at ``offset``, or raise with any prefix of it written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or grow it with zeros."""
        ...

    def punch(self, offset: int, length: int) -> bool:
        """Zero a range and give its blocks back; size stays. False: this disk cannot."""
        ...

    def next_data(self, offset: int) -> int | None:
        """Find the first byte at or after ``offset`` that is not in a hole; None if none is."""
        ...

    def sync(self) -> None:
        """Return once bytes and size survive a power cut."""
        ...

    def settle(self) -> None:
        """Sync, and let the next read come from the disk and not from memory.

        After a failed sync the system still shows bytes that are on no disk, and calls the next
        sync a success. Whoever finds a file that another process wrote settles it before reading.
        """
        ...

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        ...


class Lock(Protocol):
    """A held lock; it goes with the process, whatever way that ends."""

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        ...


class Disk(Protocol):
    """One folder and everything below it."""

    def locate(self, path: str) -> str:
        """Give the path that a person would use, for messages."""
        ...

    def stat(self, path: str) -> Stat | None:
        """Look at a path without following links; None if there is nothing."""
        ...

    def list_dir(self, path: str) -> list[Stat]:
        """Give a folder's entries in order of name."""
        ...

    def make_dir(self, path: str) -> None:
        """Make one folder; nothing happens if it is there already."""
        ...

    def create(self, path: str, *, mode: int = FILE_MODE) -> File:
        """Make a new file open for reading and writing; raises if the name is taken."""
        ...

    def open(self, path: str, *, writable: bool = False) -> File:
        """Open a regular file that exists; links are refused."""
        ...

    def map(self, path: str) -> memoryview:
        """Map a finished file read-only; it stays readable after an unlink of its name."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone.

        A folder goes with all that is in it, to a name that is free, and on a real disk also to
        that of an empty folder. An overlay renames files alone.
        """
        ...

    def unlink(self, path: str) -> None:
        """Remove a name."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return once the names in this folder survive a power cut; "" is the root."""
        ...

    def lock(self, path: str, *, wait: bool = False) -> Lock:
        """Take the lock file at ``path``, made if missing.

        If it is held this raises LockedError, or waits if that is asked for.
        """
        ...
