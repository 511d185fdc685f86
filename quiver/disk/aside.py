"""Write a file aside, for many writers at once that do not know each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from quiver.disk.own import fresh_name
from quiver.disk.replace import TEMPORARY, NewFile, is_temporary, remove
from quiver.disk.vfs import Bytes, Disk
from quiver.errors import MissingError, QuiverError

__all__ = ["FORGOTTEN_NS", "remove_forgotten", "write_aside"]

FORGOTTEN_NS: Final = 24 * 3600 * 1_000_000_000
"""A temporary that nobody wrote to for so long belongs to a process that is gone."""


def write_aside(disk: Disk, folder: str, parts: Iterable[Bytes]) -> NewFile:
    """Write ``parts`` to a new file in ``folder`` and sync it, to be finished or discarded.

    Its name is one that nobody has or will have: who is slow renames his own file or none.
    """
    file = NewFile(disk, f"{folder}/{fresh_name()}{TEMPORARY}")
    try:
        for part in parts:
            file.write(part)
        file.sync()
    except BaseException:
        file.discard()
        raise
    return file


def remove_forgotten(disk: Disk, folder: str, *, now_ns: int) -> int:
    """Remove temporaries of processes that are gone; gives how many.

    Should one be alive after all, its rename fails, and so does what it was about.
    """
    count = 0
    with contextlib.suppress(MissingError):
        for entry in disk.list_dir(folder):
            age = now_ns - entry.modified_ns
            if is_temporary(entry.name) and entry.is_file and age > FORGOTTEN_NS:
                with contextlib.suppress(QuiverError):
                    remove(disk, f"{folder}/{entry.name}")
                    count += 1
    return count
