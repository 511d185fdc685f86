"""Open the active file for appends, once all that a crash left in it is known.

What was never finished is cut. A file that ends in damage is retired as it is, and a new one begun.
One that was used before loses what is older behind its end: from here on it grows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from quiver.disk import Disk
from quiver.wal.files import own_generation
from quiver.wal.format import CHECKPOINT, HEADER_BYTES
from quiver.wal.names import ACTIVE_NAME, RotatedFile, rotated_name
from quiver.wal.reader import Tail, first_entry
from quiver.wal.reuse import FIRST, MARK_BYTES, encode_mark, mask_of
from quiver.wal.writer import ReusedWriter, Writer

__all__ = ["Found", "first_of_active", "resume"]


class Found(NamedTuple):
    """What a replay found out about the active file."""

    generation: int
    own: int | None
    """The generation that it says it is of, if it was used before."""
    tail: Tail
    is_wrong: bool
    """Whether nothing may be appended to it."""
    last_seq: int


def resume(
    disk: Disk,
    folder: str,
    found: Found,
    *,
    rotated: list[RotatedFile],
    create: Callable[[int], Writer],
) -> Writer:
    """Open it; if it has to be retired ``rotated`` gets it, and ``create`` makes the next one."""
    path = f"{folder}/{ACTIVE_NAME}"
    tail = found.tail
    file = disk.open(path, writable=True)
    end = max(tail.offset, HEADER_BYTES)
    if tail.is_torn or (found.own is not None and not found.is_wrong):
        file.truncate(end)
    if found.own is not None and not found.is_wrong:
        file.write(end, encode_mark(found.last_seq, mask_of(found.own)))
    # What was read may still be in the page cache only, written by a process that was killed
    # before its sync; whoever is told about it must be able to rely on it.
    file.sync()
    if found.is_wrong:
        # Its header or its end is wrong. Keep all that is in it, but append to a file without
        # fault: damage tells, as long as it stays, which sequences were in it.
        size = file.size()
        file.close()
        disk.rename(path, f"{folder}/{rotated_name(found.generation)}")
        disk.sync_dir(folder)
        rotated.append(
            RotatedFile(found.generation, size, end if tail.is_torn else max(tail.end, end))
        )
        return create(found.generation + 1)
    if found.own is None:
        return Writer(file, found.generation, end)
    return ReusedWriter(file, found.own, end, file_bytes=end + MARK_BYTES, last_seq=found.last_seq)


def first_of_active(disk: Disk, folder: str, entry_bytes_max: int) -> int:
    """Where the first entry of the active file is, or would be, behind its checkpoint."""
    with closing(disk.open(f"{folder}/{ACTIVE_NAME}")) as file:
        if own_generation(file) is not None:
            return FIRST
        frame = first_entry(file, HEADER_BYTES, entry_bytes_max)
    if frame is None or frame.entry_type != CHECKPOINT:
        return HEADER_BYTES
    return HEADER_BYTES + frame.end - frame.offset
