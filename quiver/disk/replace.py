"""Write a small file so that a reader, or the next start, sees all of the old or all of the new."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from quiver.disk.vfs import FILE_MODE, Bytes, Disk
from quiver.errors import MissingError, QuiverError

__all__ = ["TEMPORARY", "is_temporary", "remove", "replace", "write_new"]

TEMPORARY = ".tmp"
"""How the names of unfinished files end; recovery deletes those that it knows."""


_PIECE: Final = 4 << 20
"""Bytes of a new file that one sync has to write, about."""


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


def _pieces(parts: Iterable[Bytes]) -> Iterator[memoryview]:
    """Cut parts so that none is longer than is synced at once."""
    for part in parts:
        view = memoryview(part).cast("B")
        yield from (view[start : start + _PIECE] for start in range(0, len(view), _PIECE))


def write_new(disk: Disk, path: str, parts: Iterable[Bytes], *, mode: int) -> int:
    """Write ``parts``, one after the other, as the file ``path``: temporary, sync, rename, sync.

    Gives its size. A file that has the name already is replaced in one step. If anything fails
    before the rename the temporary is removed, as far as the disk allows; the name is as it was.
    A large file is synced piece by piece: on a journaling file system, one long sync would hold up
    the short ones that others do meanwhile, of the log above all.
    """
    temporary = path + TEMPORARY
    if disk.stat(temporary) is not None:
        disk.unlink(temporary)
    file = disk.create(temporary, mode=mode)
    offset = synced = 0
    try:
        for piece in _pieces(parts):
            if offset - synced >= _PIECE:
                file.sync()
                synced = offset
            file.write(offset, piece)
            offset += len(piece)
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
