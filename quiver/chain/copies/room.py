"""Zeros ahead of a log that small entries come to, one by one: room that is on the disk already.

::

    | entry | entry | 0 0 0 0 0 0 0 0 0 0 0 |     the end of the file
                    ^ where the next one goes

A sync of a file that grew waits for the journal of its file system, that of one that did not writes
what changed and no more.
"""

from __future__ import annotations

from typing import Final

from quiver.disk import File, write_soon
from quiver.errors import QuiverError
from quiver.wal.format import LENGTH

__all__ = ["LEAST_BYTES", "add_room", "is_unfinished"]

LEAST_BYTES: Final = 64 << 10
"""With less than that left there is to be more: no small frame is larger."""
_ZEROS: Final = bytes(128 << 10)
"""So little at a time that a disk is done with it before the next entry comes to it."""
_PIECE: Final = 64 << 10


def add_room(file: File, place: int) -> int:
    """Write zeros from ``place`` on, not durably, and say how many; 0 if the disk refuses.

    Nothing is lost by that: whoever finds no room grows the file, and tells what the disk says.
    Raises what the disk raises if they cannot be on their way to it.
    """
    try:
        file.write(place, _ZEROS)
    except QuiverError:
        return 0
    write_soon(file, place, len(_ZEROS))
    return len(_ZEROS)


def is_unfinished(file: File, begin: int, end: int) -> bool:
    """Whether what stands from ``begin`` to ``end`` of a file is room, or a write stopped in it.

    ``begin`` is where no good entry begins. A process that is killed while it writes leaves zeros
    from somewhere inside the entry to the end of the file, its checksum among them. An entry that
    is wrong and has one is damage.
    """
    last = _behind_last(file, begin, end)
    if last in (begin, end):
        return last == begin
    length = int.from_bytes(file.read(begin, LENGTH.size), "little")
    return last <= begin + LENGTH.size + length


def _behind_last(file: File, begin: int, end: int) -> int:
    """Find where the zeros at the end of ``[begin, end)`` begin."""
    while end > begin:
        start = max(begin, end - _PIECE)
        rest = file.read(start, end - start).rstrip(b"\0")
        if rest:
            return start + len(rest)
        end = start
    return begin
