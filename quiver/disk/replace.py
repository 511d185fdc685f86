"""Write a file so that a reader, or the next start, sees all of the old or all of the new."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from quiver.disk.copying import write_parts
from quiver.disk.local_file import LocalFile
from quiver.disk.mapping import PAGE, map_of
from quiver.disk.vfs import FILE_MODE, Bytes, Disk, File
from quiver.errors import MissingError, QuiverError

__all__ = ["TEMPORARY", "NewFile", "is_temporary", "remove", "replace", "write_new"]

TEMPORARY = ".tmp"
"""How the names of unfinished files end; recovery deletes those that it knows."""


_PIECE: Final = 2 << 20
"""Bytes of a new file that are written at once, and by which the disk may lag behind."""

_COPIED: Final = 256 << 10
"""Of a piece that is copied before: so little stays in the processor's cache."""
_NEAR: Final = 32

_PARTS_MAX: Final = 512
"""Of a piece; a call takes no more than twice as many."""


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that was never finished."""
    return name.endswith(TEMPORARY)


def remove(disk: Disk, path: str) -> None:
    """Remove a name; nothing happens if somebody did it before."""
    with contextlib.suppress(MissingError):
        disk.unlink(path)


def replace(disk: Disk, path: str, data: Bytes) -> None:
    """Make ``data`` the content of ``path``; when this returns it survives a power cut."""
    write_new(disk, path, [data], mode=FILE_MODE)


def _pieces(parts: Iterable[Bytes]) -> Iterator[list[memoryview]]:
    """Give the bytes of parts in pieces of which all but the last have the same round size.

    Small writes, or such that end in the middle of a page, cost several times as much.
    """
    begun: list[memoryview] = []
    filled = 0
    for part in parts:
        rest = memoryview(part).cast("B")
        while rest:
            piece = rest[: _PIECE - filled]
            rest = rest[len(piece) :]
            begun.append(piece)
            filled += len(piece)
            if filled == _PIECE:
                yield begun
                begun, filled = [], 0
            elif len(begun) == _PARTS_MAX:
                begun = [memoryview(b"".join(begun))]
    if begun:
        yield begun


def _write_back(file: File, offset: int) -> None:
    """Let a piece go to the disk, once the one before it is there."""
    if isinstance(file, LocalFile):
        if offset:
            file.write_back(offset - _PIECE, _PIECE, wait=True)
        file.write_back(offset, _PIECE, wait=False)


def _is_slow_to_copy(data: memoryview, offset: int) -> bool:
    """Whether bytes lie so in memory that the kernel takes five times as long to copy them.

    Measured: so it is where a place of the file is a few bytes behind that of memory, both within
    their pages; as where a mapped file becomes a part of another one, behind its length.
    """
    found = map_of(data)
    return found is not None and data.nbytes == found[1] and 0 < offset % PAGE < _NEAR


def write_new(disk: Disk, path: str, parts: Iterable[Bytes], *, mode: int) -> int:
    """Write ``parts``, one after the other, as the file ``path``: temporary, sync, rename, sync.

    Gives its size. A file that has the name already is replaced in one step. If anything fails
    before the rename the temporary is removed, as far as the disk allows; the name is as it was.
    Each piece of a large file goes to the disk while the next one comes, so that the sync at the
    end is a short one and little is under way at any time: on a journaling file system, the syncs
    that others do meanwhile, of the log above all, wait for all of it.
    """
    temporary = path + TEMPORARY
    if disk.stat(temporary) is not None:
        disk.unlink(temporary)
    file = disk.create(temporary, mode=mode)
    offset = 0
    try:
        for piece in _pieces(parts):
            size = write_parts(file, offset, piece)
            if size == _PIECE:
                _write_back(file, offset)
            offset += size
        file.sync()
        file.close()
        disk.rename(temporary, path)
    except QuiverError:
        file.close()
        with contextlib.suppress(QuiverError):  # The first error is the one to tell.
            disk.unlink(temporary)
        raise
    disk.sync_dir(posixpath.dirname(path))
    return offset


class NewFile:
    """A file that grows under a temporary name until it is whole and gets its own.

    As in ``write_new`` the disk does not lag far behind. Who gives up discards it; a file of that
    temporary name which a dead process left is replaced.
    """

    def __init__(self, disk: Disk, temporary: str, *, mode: int = FILE_MODE) -> None:
        """Make the file."""
        remove(disk, temporary)
        self._disk = disk
        self._temporary = temporary
        self._file = disk.create(temporary, mode=mode)
        self._is_synced = False
        self.size = 0

    def write(self, data: Bytes) -> None:
        """Append bytes: many at a time, or each few cost as much as many.

        Also of many the first go to the disk while the others are written.
        """
        self._is_synced = False
        rest = memoryview(data).cast("B")
        is_slow = _is_slow_to_copy(rest, self.size)
        while rest:
            piece = rest[: _PIECE - self.size % _PIECE]
            if is_slow:
                piece = piece[: _COPIED - self.size % _COPIED]
            self._file.write(self.size, bytes(piece) if is_slow else piece)
            self.size += len(piece)
            rest = rest[len(piece) :]
            if not self.size % _PIECE:
                _write_back(self._file, self.size - _PIECE)

    def sync(self) -> None:
        """Return once what was written survives a power cut; ``finish`` has nothing to wait for."""
        self._file.sync()
        self._is_synced = True

    def finish(self, path: str) -> None:
        """Sync it and give it its name, durable after ``sync_dir`` of the folder."""
        if not self._is_synced:
            self._file.sync()
        self._file.close()
        self._disk.rename(self._temporary, path)

    def discard(self) -> None:
        """Take it away again, as far as the disk allows."""
        self._file.close()
        with contextlib.suppress(QuiverError):
            remove(self._disk, self._temporary)
