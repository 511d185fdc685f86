"""Entries in a row, exactly as they stand in a log: checked, each of them, before they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quiver.disk import File, Window
from quiver.errors import DamagedEntry, DamageError, InputError
from quiver.wal.format import BUNDLE, ENTRY_OVERHEAD, LENGTH, Frame, frame_at

__all__ = [
    "ENTRY_BYTES_MAX",
    "Extent",
    "entries_between",
    "extent_behind",
    "frames_in",
    "pieces",
]

ENTRY_BYTES_MAX: Final = 0xFFFF_FFF7
"""More than that has no place in a file of Arrow streams."""


class Extent(NamedTuple):
    """How far a log goes, and from when to when."""

    length: int = 0
    last_seq: int = -1
    start: int = 0
    """Of no meaning as long as there is no entry."""
    end: int = 0

    def with_frame(self, frame: Frame) -> Extent:
        """Give it with an entry behind it; raises DamagedEntry if that one may not follow."""
        if frame.entry_type != BUNDLE:
            raise DamagedEntry(
                "an entry of a block is no bundle", offset=frame.offset, found=frame.entry_type
            )
        begins = not self.length
        if frame.wal_seq <= self.last_seq or (not begins and frame.ingestion_ns < self.end):
            raise DamagedEntry(
                "the sequence or the time of an entry goes back",
                offset=frame.offset,
                expected=f"above {self.last_seq}, at {self.end} or later",
                found=f"{frame.wal_seq} at {frame.ingestion_ns}",
            )
        start = frame.ingestion_ns if begins else self.start
        length = self.length + frame.end - frame.offset
        return Extent(length, frame.wal_seq, start, frame.ingestion_ns)


def frames_in(body: memoryview, entry_bytes_max: int) -> list[Frame]:
    """Check each entry of a row; raises InputError unless all of them are whole."""
    offset = 0
    frames = []
    try:
        while offset < len(body):
            frames.append(frame_at(body, offset, entry_bytes_max))
            offset = frames[-1].end
    except DamageError as error:
        raise _no_row(error) from error
    return frames


def extent_behind(frames: Sequence[Frame], extent: Extent) -> Extent:
    """Give an extent with these behind it; raises InputError unless they are in order."""
    try:
        for frame in frames:
            extent = extent.with_frame(frame)
    except DamageError as error:
        raise _no_row(error) from error
    return extent


def _no_row(error: DamageError) -> InputError:
    return InputError(
        f"what came is no row of entries: {error}",
        hint="it was damaged on its way, or whoever sent it writes no entries",
    )


def entries_between(
    file: File, start: int, end: int, *, entry_bytes_max: int
) -> Iterator[tuple[int, Frame]]:
    """Go through the good entries in bytes of a file, each with its place; the first must be one.

    Raises TornEntry or DamagedEntry at the first that is not.
    """
    window = Window(file)
    window.size = min(window.size, end)
    offset = start
    while offset < end:
        view, inside = window.view(offset, LENGTH.size)
        length = int.from_bytes(view[inside : inside + LENGTH.size], "little")
        if length <= entry_bytes_max:
            view, inside = window.view(offset, length + ENTRY_OVERHEAD)
        try:
            frame = frame_at(view, inside, entry_bytes_max)
        except DamageError as error:
            raise error.at(file.path, base=offset - inside) from error
        yield offset, frame
        offset += frame.end - frame.offset


def pieces(
    file: File, start: int, end: int, *, entry_bytes_max: int, piece_bytes: int
) -> Iterator[memoryview]:
    """Give the bytes of whole, good entries, about ``piece_bytes`` at a time."""
    begin = reached = start
    for offset, frame in entries_between(file, start, end, entry_bytes_max=entry_bytes_max):
        size = frame.end - frame.offset
        if offset > begin and offset + size - begin > piece_bytes:
            yield memoryview(file.read(begin, offset - begin))
            begin = offset
        reached = offset + size
    if reached > begin:
        yield memoryview(file.read(begin, reached - begin))
