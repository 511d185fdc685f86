"""Tell the system what will be read, so that it is fetched at once and nothing else is.

All of it is advice about speed: it changes no byte, reports no failure (``write_soon`` does), and
does nothing for files and views that are not those of a ``LocalDisk``.

Without advice a page of a mapped file that is not in memory is read with all that is around it, as
much as the disk's ``read_ahead_kb`` says, which is megabytes on some machines; and reads of many
files wait for the disk one after the other.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Final

from quiver.disk.local_file import LocalFile
from quiver.disk.mapping import PAGE, advise_map, map_of
from quiver.disk.vfs import File

__all__ = ["fetch", "fetch_ranges", "is_mapped", "let_go", "read_along", "read_apart", "write_soon"]

_PIECE: Final = 128 << 10
"""For one advice the system fetches no more than it would read ahead, which is this by default."""


def fetch(file: File, offset: int, length: int) -> None:
    """Begin to read ``[offset, offset + length)`` of an open file, without waiting for it."""
    if isinstance(file, LocalFile):
        file.fetch(offset, length)


def is_mapped(view: memoryview) -> bool:
    """Whether bytes are those of a mapped file, and not a copy of them."""
    return map_of(view) is not None


def write_soon(file: File, offset: int, length: int) -> None:
    """Begin to write ``[offset, offset + length)`` to the disk, so that a sync has less to do.

    Unlike the rest it may raise StorageError: a failure is that of a sync.
    """
    if isinstance(file, LocalFile):
        file.write_back(offset, length, wait=False)


def fetch_ranges(view: memoryview, ranges: Iterable[tuple[int, int]]) -> None:
    """Begin to read ranges of a mapped file, without waiting for them.

    ``ranges`` are half-open, in bytes of ``view``, which must be all of the map.
    """
    found = map_of(view)
    if found is None:
        return
    for start, end in ranges:
        stop = min(end, len(view))
        first = start // PAGE * PAGE if start < stop else stop
        for place in range(first, stop, _PIECE):
            advise_map(found[0], _WILL_NEED, start=place, length=min(_PIECE, stop - place))


def read_apart(view: memoryview) -> None:
    """Expect that small parts of a mapped file are read: each touch reads its own page alone.

    A page that was not fetched before costs a wait for the disk then, so whatever is read whole
    is to be told by ``read_along``: without that it takes twenty times as long.
    """
    found = map_of(view)
    if found is not None:
        advise_map(found[0], _RANDOM, start=0, length=found[1])


def read_along(view: memoryview, start: int, end: int) -> None:
    """Expect that ``[start, end)`` of a mapped file is read from beginning to end.

    ``view`` must be all of the map. Pages at both ends of the range count as part of it.
    """
    found = map_of(view)
    if found is not None and start < end:
        first = start // PAGE * PAGE
        advise_map(found[0], _SEQUENTIAL, start=first, length=min(end, len(view)) - first)


def let_go(view: memoryview, start: int = 0, end: int | None = None) -> None:
    """Have pages of a mapped file count no more as memory of this process.

    They stay in the system's cache: whoever reads them again waits for no disk because of that.
    ``view`` must be all of the map.
    """
    found = map_of(view)
    if found is not None:
        first = start // PAGE * PAGE
        stop = len(view) if end is None else min(end, len(view))
        advise_map(found[0], _NOT_NEEDED, start=first, length=stop - first)


_WILL_NEED: Final[int | None] = getattr(mmap, "MADV_WILLNEED", None)
_NOT_NEEDED: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None)
_RANDOM: Final[int | None] = getattr(mmap, "MADV_RANDOM", None)
_SEQUENTIAL: Final[int | None] = getattr(mmap, "MADV_SEQUENTIAL", None)
