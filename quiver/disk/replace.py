"""Write a small file so that a reader, or the next start, sees all of the old or all of the new."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable

from quiver.disk.vfs import FILE_MODE, Bytes, Disk
from quiver.errors import MissingError, QuiverError

__all__ = ["TEMPORARY", "is_temporary", "remove", "replace", "write_new"]

TEMPORARY = ".tmp"
"""How the names of unfinished files end; recovery deletes those that it knows."""


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


def write_new(disk: Disk, path: str, parts: Iterable[Bytes], *, mode: int) -> int:
    """Write ``parts``, one after the other, as the file ``path``: temporary, sync, rename, sync.

    Gives its size. A file that has the name already is replaced in one step. If anything fails
    before the rename the temporary is removed, as far as the disk allows; the name is as it was.
    """
    temporary = path + TEMPORARY
    if disk.stat(temporary) is not None:
        disk.unlink(temporary)
    file = disk.create(temporary, mode=mode)
    offset = 0
    try:
        for part in parts:
            file.write(offset, part)
            offset += memoryview(part).nbytes
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
