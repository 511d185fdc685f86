"""Write a file aside, for many writers at once that do not know each other."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable
from typing import Final

from quiver.disk.own import fresh_name
from quiver.disk.replace import TEMPORARY, NewFile, is_temporary, remove
from quiver.disk.vfs import Bytes, Disk
from quiver.errors import QuiverError

__all__ = ["ASIDE", "FORGOTTEN_NS", "is_aside", "remove_forgotten", "write_aside"]

ASIDE: Final = ".aside-"
"""How the names of such files begin."""

FORGOTTEN_NS: Final = 24 * 3600 * 1_000_000_000
"""A temporary that nobody wrote to for so long belongs to a process that is gone."""


def is_aside(name: str) -> bool:
    """Whether a file of this name is one that is not whole, or was never finished."""
    return name.startswith(ASIDE) and is_temporary(name)


def write_aside(disk: Disk, folder: str, parts: Iterable[Bytes]) -> NewFile:
    """Write ``parts`` to a new file in ``folder`` and sync it, to be finished or discarded.

    Its name is one that nobody has or will have: who is slow renames his own file or none. Let its
    final name be in the same folder, so that one sync of that makes it durable.
    """
    path = posixpath.join(folder, f"{ASIDE}{fresh_name()}{TEMPORARY}")
    file = NewFile(disk, path)
    try:
        for part in parts:
            file.write(part)
        file.sync()
    except BaseException:
        file.discard()
        raise
    return file


def remove_forgotten(disk: Disk, folder: str, *, now_ns: int) -> int:
    """Remove what ``write_aside`` left of processes that are gone; gives how many.

    Should one be alive after all, its rename fails, and so does what it was about.
    """
    count = 0
    for entry in disk.list_dir(folder):
        age = now_ns - entry.modified_ns
        if is_aside(entry.name) and entry.is_file and age > FORGOTTEN_NS:
            with contextlib.suppress(QuiverError):
                remove(disk, posixpath.join(folder, entry.name))
                count += 1
    return count
