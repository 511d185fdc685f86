"""Zeros ahead of a log that small entries come to, one by one: room that is on the disk already.

::

    | entry | entry | 0 0 0 0 0 0 0 0 0 0 0 |     the end of the file
                    ^ where the next one goes

A sync of a file that grew waits for the journal of its file system, that of one that did not writes
what changed and no more. Pure of what entries are: it is about bytes behind the last one.
"""

from __future__ import annotations

from typing import Final

from quiver.disk import File, write_soon
from quiver.errors import QuiverError
from quiver.wal.format import ENTRY_OVERHEAD, LENGTH

__all__ = ["add_room", "is_unfinished", "room_wanted"]

_LEAST: Final = 64 << 10
_MOST: Final = 2 << 20
_PIECE: Final = 64 << 10
_PAGE: Final = 4096
_ZEROS: Final = bytes(_MOST)


def room_wanted(left: int, log_bytes: int) -> int:
    """Say how many zeros to add where so many are left: as many as the log has, within bounds."""
    return min(max(log_bytes, 2 * _LEAST), _MOST) if left < _LEAST else 0


def add_room(file: File, place: int, byte_count: int) -> bool:
    """Write zeros from ``place`` on, not durably; False if the disk refuses, or has no more.

    Nothing is lost by that: whoever finds no room grows the file, and tells what the disk says.
    Raises what the disk raises if they cannot be on their way to it.
    """
    try:
        file.write(place, memoryview(_ZEROS)[:byte_count])
    except QuiverError:
        return False
    write_soon(file, place, byte_count)
    return True


def is_unfinished(file: File, begin: int, end: int) -> bool:
    """Whether what stands from ``begin`` to ``end`` of a file is room, or a write stopped in it.

    ``begin`` is where no good entry begins. A process that is killed while it writes stops at the
    end of a page, so zeros from a page's begin inside the entry to the end of the file are what it
    did not come to; an entry that is wrong and all there is damage.
    """
    last = _behind_last(file, begin, end)
    page = -(-last // _PAGE) * _PAGE
    if last == begin or page >= end:
        return last == begin
    length = int.from_bytes(file.read(begin, LENGTH.size), "little")
    return page < begin + length + ENTRY_OVERHEAD


def _behind_last(file: File, begin: int, end: int) -> int:
    """Find where the zeros at the end of ``[begin, end)`` begin."""
    while end > begin:
        start = max(begin, end - _PIECE)
        rest = file.read(start, end - start).rstrip(b"\0")
        if rest:
            return start + len(rest)
        end = start
    return begin
