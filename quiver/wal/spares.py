"""Files of the log whose entries are all in segments, kept to be written over.

A sync of bytes that were written before costs less than one of a file that grows, and a file that
is kept need not be given back. A spare has a name of its own, under which a start removes it, and
it is written to only when that name is durable: until then a power cut may bring the old one back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, TypeVar

from quiver.disk import Disk, remove
from quiver.errors import CapacityError, QuiverError
from quiver.wal.names import ACTIVE_NAME, RotatedFile, rotated_name

__all__ = ["Spares", "is_spare"]

_T = TypeVar("_T")
_COUNT_MAX: Final = 2
_PREFIX: Final = f"{ACTIVE_NAME}.spare-"


def is_spare(name: str) -> bool:
    """Say whether a file of the log is one of them."""
    return name.startswith(_PREFIX)


class Spares:
    """At most two of them, and none that is larger than a file of the log may get."""

    def __init__(self, disk: Disk, folder: str, *, bytes_max: int) -> None:
        """Keep files of so many bytes; of 0 to keep none."""
        self._disk = disk
        self._folder = folder
        self._bytes_max = bytes_max
        self._kept: list[tuple[str, int]] = []

    @property
    def disk_bytes(self) -> int:
        """What they take on the disk."""
        return sum(size for _, size in self._kept)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def put_aside(self, files: list[RotatedFile]) -> list[RotatedFile]:
        """Give files another name, as many as may be kept and are there, and say which.

        ``keep`` them once the folder is synced.
        """
        room = max(
            _COUNT_MAX - len(self._kept), 0
        )  # Two who truncate may both have put some aside.
        fit = [old for old in files if old.file_bytes <= self._bytes_max]
        chosen = []
        for old in fit[-room:] if room else []:
            name = f"{self._folder}/{rotated_name(old.generation)}"
            if self._disk.stat(name) is not None:  # Somebody may have removed it.
                self._disk.rename(name, self._path(old))
                chosen.append(old)
        return chosen

    def keep(self, files: list[RotatedFile]) -> None:
        """Take files that ``put_aside`` renamed, whose new names are durable."""
        self._kept += [(self._path(old), old.file_bytes) for old in files]

    def take(self) -> str | None:
        """Give the path of the largest, which is somebody else's now; None if there is none."""
        if not self._kept:
            return None
        largest = max(self._kept, key=lambda spare: spare[1])
        self._kept.remove(largest)
        return largest[0]

    def give_way(self, act: Callable[[], _T]) -> _T:
        """Do something, and once more without any if the disk has no room for it."""
        try:
            return act()
        except CapacityError:
            if not self._kept:
                raise
            self.drop()
            return act()

    def drop(self) -> None:
        """Delete all of them: the disk is short."""
        while self._kept:
            remove(self._disk, self._kept[-1][0])
            self._kept.pop()

    def give_up(self, *paths: str) -> None:
        """Delete these and all others; if the disk refuses, the next start does it."""
        with contextlib.suppress(QuiverError):
            for path in paths:
                remove(self._disk, path)
            self.drop()

    def _path(self, old: RotatedFile) -> str:
        return f"{self._folder}/{_PREFIX}{old.generation}"
