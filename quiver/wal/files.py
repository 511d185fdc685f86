"""The files of a log: which there are, and all of them opened as they were at one moment.

Who has no lock opens files while the writer rotates, moves a tail, or deletes. A file that is open
keeps what was in it, but for what segments hold: a range of that can become a hole, and a file that
they hold as a whole can be begun anew. It says of which generation it is then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from quiver.disk import Disk, File, Stat
from quiver.errors import MissingError, StorageError, VersionError
from quiver.wal.format import GENERATION_MAX, Place
from quiver.wal.names import ACTIVE_NAME, rotated_generation, rotated_name
from quiver.wal.reuse import FIRST, generation_in
from quiver.wal.truncate import SIDECAR_NAME, read_sidecar

__all__ = ["WalFile", "generations", "open_files", "own_generation"]

_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class WalFile:
    """One open file of a log; the active one is the last."""

    generation: int
    is_active: bool
    file: File

    def was_reused(self) -> bool:
        """Whether it has been begun anew since: then segments hold all that was in it."""
        own = own_generation(self.file)
        return own is not None and own != self.generation


def own_generation(file: File) -> int | None:
    """Read which generation a file says it is of; None for one that was not used before."""
    return generation_in(file.read(0, FIRST))


def generations(entries: Iterable[Stat], *hints: Place | None) -> tuple[list[int], int]:
    """Give the rotated generations in order, and that of the active file, there or not."""
    numbers = (rotated_generation(entry.name) for entry in entries if entry.is_file)
    rotated = sorted(number for number in numbers if number is not None)
    if rotated:
        return rotated, rotated[-1] + 1
    # A rotated file goes only after the sidecar has left its generation.
    named = [place.generation for place in hints if place is not None]
    return [], max((number for number in named if 1 <= number <= GENERATION_MAX), default=1)


@contextmanager
def open_files(disk: Disk, folder: str, *, newest: Place | None) -> Iterator[list[WalFile]]:
    """Open all files of a log as they are at one moment; ``newest`` is a place segments know.

    Raises StorageError if they change faster than they can be opened, VersionError for a sidecar
    of a newer format.
    """
    for _ in range(_ATTEMPTS):
        names = _names(disk, folder, newest)
        with ExitStack() as stack:
            try:
                files = []
                for name, generation in names:
                    file = disk.open(f"{folder}/{name}")
                    stack.callback(file.close)
                    is_active = name == ACTIVE_NAME
                    own = own_generation(file) if is_active else None
                    files.append(WalFile(own or generation, is_active, file))
            except MissingError:
                continue
            if _names(disk, folder, newest) == names:
                yield files
                return
    raise StorageError(
        f"the files in {disk.locate(folder)} change faster than they can be opened",
        path=disk.locate(folder),
        hint="try again",
    )


def _names(disk: Disk, folder: str, newest: Place | None) -> list[tuple[str, int]]:
    entries = [] if disk.stat(folder) is None else disk.list_dir(folder)
    has_active = any(entry.is_file and entry.name == ACTIVE_NAME for entry in entries)
    sidecar = _sidecar(disk, folder) if has_active else None
    rotated, active = generations(entries, sidecar, newest)
    names = [(rotated_name(generation), generation) for generation in rotated]
    return [*names, (ACTIVE_NAME, active)] if has_active else names


def _sidecar(disk: Disk, folder: str) -> Place | None:
    try:
        return read_sidecar(disk, folder)[0]
    except VersionError as error:
        place = disk.locate(f"{folder}/{SIDECAR_NAME}")
        raise VersionError(f"{place}: {error.message}", hint=error.hint) from error
