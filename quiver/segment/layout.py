"""Where the streams of a segment lie, and what follows of that, found while they are written.

Checksums leave the interpreter to others, and whatever else is to be done for the end of the file
has the time until the last byte before it is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from quiver.segment.body import Body
from quiver.segment.pages import PageSums
from quiver.segment.sums import BYTES_AT_ONCE, CRC32, CRC32C, Piece, Sums, join_sums, sum_up

__all__ = ["Checks", "InTheMeantime", "PlacedStream", "StreamChecks", "lay_out"]

_ALONE_BYTES: Final = 1 << 20
"""Less than this is checked sooner than a thread is there."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PlacedStream:
    """One stream: the zeros in front of it, where it starts and ends, and its bytes."""

    gap: bytes
    offset: int
    end: int
    body: Body


class StreamChecks(NamedTuple):
    """Where a stream lies in its file, and its checksums: of the whole, and of each page."""

    offset: int
    length: int
    crc32c: int
    pages: bytes


def lay_out(bodies: Iterable[Body]) -> list[PlacedStream]:
    """Put streams one after the other, each at the next place where it may start."""
    placed, end = [], 0
    for body in bodies:
        gap = bytes(-end % body.align)
        start = end + len(gap)
        end = start + sum(len(piece.data) for piece in body.pieces)
        placed.append(PlacedStream(gap, start, end, body))
    return placed


@dataclass(slots=True)
class Checks:
    """The checksums of each stream, and of all bytes of the file so far."""

    streams: list[StreamChecks] = field(default_factory=list)
    size: int = 0
    _sums: list[int] = field(default_factory=list)
    _lengths: list[int] = field(default_factory=list)

    @property
    def crc32(self) -> int:
        """The check of the whole file as far as it goes."""
        return join_sums(CRC32, self._sums, self._lengths)

    def add(self, piece: Piece) -> Sums:
        """Take the next bytes of the file, and give their own checksums."""
        sums = piece.sums or sum_up(piece.data)
        self._sums.append(sums.crc32)
        self._lengths.append(len(piece.data))
        self.size += len(piece.data)
        return sums

    def add_stream(self, stream: PlacedStream) -> None:
        """Take the next stream."""
        if not stream.body.paged:
            self._add_whole(stream)
            return
        self.add(Piece(stream.gap))
        pages = PageSums(stream.offset)
        ahead = stream.body.ahead
        known = range(0) if ahead is None else range(ahead.first, ahead.stop)
        wholes, lengths = [], []
        for place, piece in enumerate(stream.body.pieces):
            if ahead is not None and place == ahead.first:
                pages.extend(ahead.pages)
            for part in _parts(piece):
                wholes.append(self.add(part).crc32c)
                lengths.append(len(part.data))
                if place not in known:
                    pages.add(memoryview(part.data))
        whole = join_sums(CRC32C, wholes, lengths)
        length = stream.end - stream.offset
        self.streams.append(StreamChecks(stream.offset, length, whole, pages.found()))

    def _add_whole(self, stream: PlacedStream) -> None:
        """Take one without checks of pages, its pieces in one go: there may be very many."""
        found = sum_up(stream.gap).crc32, 0
        for piece in stream.body.pieces:
            found = sum_up(piece.data, Sums(*found))
        length = stream.end - stream.offset
        self._sums.append(found[0])
        self._lengths.append(len(stream.gap) + length)
        self.size += len(stream.gap) + length
        self.streams.append(StreamChecks(stream.offset, length, found[1], b""))


def _parts(piece: Piece) -> Iterable[Piece]:
    """Split a piece without checksums, so that all of them go over each part at once."""
    if piece.sums is not None:
        return [piece]
    view = memoryview(piece.data)
    starts = range(0, len(view), BYTES_AT_ONCE)
    return (Piece(view[start : start + BYTES_AT_ONCE]) for start in starts)


class InTheMeantime(Generic[_T]):
    """Does a task in a thread of its own, if there can be one and it is worth it."""

    def __init__(self, task: Callable[[], _T], size: int) -> None:
        """Begin, if the task is about ``size`` bytes or more of them."""
        self._task = task
        self._found: list[_T] = []
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        if size < _ALONE_BYTES:
            return
        thread = threading.Thread(target=self._run, name="quiver-checks", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # There are too many, or the interpreter is about to end.
            return
        self._thread = thread

    def _run(self) -> None:
        try:
            self._found.append(self._task())
        except BaseException as error:  # noqa: BLE001 Raised by ``result``.
            self._failure = error

    def result(self) -> _T:
        """Wait for it, once, and give what it gave or raise what it raised."""
        if self._thread is None:
            self._run()
        else:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._found[0]
