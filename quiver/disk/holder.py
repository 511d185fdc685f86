"""Who holds a lock, found out without taking it: a reader must never keep a writer out.

Linux lists all locks in one file. Not seen are those of processes in another namespace, and of
other machines: on a network file system nobody knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Final

from quiver.disk.local import LocalDisk
from quiver.disk.vfs import Disk
from quiver.errors import QuiverError

__all__ = ["LOCKS", "lock_holders"]

LOCKS: Final = "/proc/locks"

_PID_BYTES_MAX: Final = 20
_FIELDS: Final = 6
"""``1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF``; who waits has an arrow for a second one."""


def lock_holders(disk: Disk, paths: Iterable[str], *, locks: str = LOCKS) -> dict[str, int] | None:
    """Say which process holds the lock at each path; those that nobody holds are left out.

    None if the system does not tell. ``locks`` is for tests.
    """
    if not isinstance(disk, LocalDisk):
        return None
    try:
        with open(locks, encoding="ascii", errors="replace") as file:
            held = _held(file)
    except OSError:
        return None
    found: dict[str, int] = {}
    for path in paths:
        with suppress(OSError):
            stat = os.stat(disk.locate(path), follow_symlinks=False)
            for pid, device, inode in held:
                # Some file systems are listed under another device than their files have.
                is_same = device == (os.major(stat.st_dev), os.minor(stat.st_dev))
                if inode == stat.st_ino and (is_same or _names(disk, path, pid)):
                    found[path] = pid
    return found


def _held(lines: Iterable[str]) -> list[tuple[int, tuple[int, int], int]]:
    """Take process, device and inode from each line that is of a lock held by ``flock``."""
    found = []
    for line in lines:
        fields = line.split()
        if len(fields) < _FIELDS or fields[1] != "FLOCK" or fields[3] != "WRITE":
            continue
        with suppress(ValueError):
            major, minor, inode = fields[5].split(":")
            found.append((int(fields[4]), (int(major, 16), int(minor, 16)), int(inode)))
    return found


def _names(disk: Disk, path: str, pid: int) -> bool:
    """Whether a lock file says that this process holds it."""
    with suppress(QuiverError), closing(disk.open(path)) as file:
        return file.read(0, _PID_BYTES_MAX).strip() == b"%d" % pid
    return False
