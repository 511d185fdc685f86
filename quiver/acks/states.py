"""Bytes that a checkpoint and an inbox share: segments with their runs, and nacks.

::

    a segment   fixed part (16) | run (8) ...
    a nack      32 bytes
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quiver.errors import DamagedEntry

__all__ = [
    "NACK_LAYOUT",
    "RUN_LAYOUT",
    "SEGMENT_LAYOUT",
    "Cursor",
    "NackState",
    "SegmentState",
    "is_ascending",
    "nack_parts",
    "read_nacks",
    "read_segments",
    "segment_parts",
    "states_fault",
]

SEGMENT_LAYOUT: Final = struct.Struct("<QII")
RUN_LAYOUT: Final = struct.Struct("<II")
NACK_LAYOUT: Final = struct.Struct("<QIIqHHI")


@dataclass(frozen=True, slots=True)
class SegmentState:
    """The resolved bundles of one segment as runs (first, count), ascending and apart."""

    segment_seq: int
    bundle_count: int
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NackState:
    """A bundle that was nacked and is still open: deliveries so far, and when the next may be."""

    segment_seq: int
    bundle_index: int
    attempt: int
    not_before_ns: int
    reason: int = 0


class Cursor:
    """Takes one thing after the other from the bytes of ``what``, and never past ``stop``."""

    def __init__(self, data: bytes, what: str, *, start: int, stop: int) -> None:
        self._data = data
        self._what = what
        self._stop = stop
        self.offset = start

    @property
    def left(self) -> int:
        """How many bytes there are still to be taken."""
        return self._stop - self.offset

    def take(self, length: int) -> bytes:
        """Take the next bytes; raises DamagedEntry if there are fewer."""
        if length > self.left:
            raise DamagedEntry(
                f"{self._what} has fewer bytes than it says",
                offset=self.offset,
                expected=length,
                found=self.left,
            )
        start, self.offset = self.offset, self.offset + length
        return self._data[start : self.offset]

    def take_one(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Take the next thing of this layout."""
        return layout.unpack(self.take(layout.size))

    def take_all(self, layout: struct.Struct, count: int) -> Iterator[tuple[Any, ...]]:
        """Take the next ``count`` things of this layout; none if there are fewer."""
        return layout.iter_unpack(self.take(layout.size * count))


def read_segments(cursor: Cursor, count: int) -> tuple[SegmentState, ...]:
    """Take so many segments with their runs."""
    segments = []
    for _ in range(count):
        seq, bundle_count, run_count = cursor.take_one(SEGMENT_LAYOUT)
        runs = tuple((first, count) for first, count in cursor.take_all(RUN_LAYOUT, run_count))
        segments.append(SegmentState(seq, bundle_count, runs))
    return tuple(segments)


def read_nacks(cursor: Cursor, count: int) -> tuple[NackState, ...]:
    """Take so many nacks."""
    return tuple(NackState(*values[:5]) for values in cursor.take_all(NACK_LAYOUT, count))


def segment_parts(segments: Iterable[SegmentState]) -> Iterator[bytes]:
    """Encode segments with their runs."""
    for segment in segments:
        yield SEGMENT_LAYOUT.pack(segment.segment_seq, segment.bundle_count, len(segment.runs))
        for run in segment.runs:
            yield RUN_LAYOUT.pack(*run)


def nack_parts(nacks: Iterable[NackState]) -> Iterator[bytes]:
    """Encode nacks."""
    for nack in nacks:
        place = nack.segment_seq, nack.bundle_index
        yield NACK_LAYOUT.pack(*place, nack.attempt, nack.not_before_ns, nack.reason, 0, 0)


def states_fault(segments: Sequence[SegmentState], nacks: Sequence[NackState]) -> str | None:
    """Say what a reader could not make sense of: the writer refuses it as the reader does."""
    if not is_ascending(segment.segment_seq for segment in segments):
        return "segments do not ascend"
    if not is_ascending((nack.segment_seq, nack.bundle_index) for nack in nacks):
        return "nacks do not ascend"
    for segment in segments:
        end = -1
        for first, count in segment.runs:
            if first <= end or count < 1 or first + count > segment.bundle_count:
                return f"segment {segment.segment_seq} has no run {first} to {first + count}"
            end = first + count
    return None


def is_ascending(values: Iterable[Any]) -> bool:
    """Whether each value is above the one before it."""
    before = None
    for value in values:
        if before is not None and value <= before:
            return False
        before = value
    return True
