"""Where the streams of a segment lie, and what follows of that, found while they are written.

Checksums leave the interpreter to others, and whatever else is to be done for the end of the file
has the time until the last byte before it is written.
"""

from __future__ import annotations

import itertools
import operator
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from quiver.segment.body import Bodies, Body, KeptBodies
from quiver.segment.format import ALIGNMENT
from quiver.segment.pages import PageSums
from quiver.segment.rest import Rest, no_rest
from quiver.segment.sums import (
    BYTES_AT_ONCE,
    CRC32,
    CRC32C,
    Bytes,
    Piece,
    Sums,
    join_sums,
    sum_up,
)

__all__ = [
    "Checks",
    "InTheMeantime",
    "Placed",
    "PlacedKept",
    "PlacedStream",
    "StreamChecks",
    "lay_out",
]

_ALONE_BYTES: Final = 1 << 20
"""Less than this is checked sooner than a thread is there."""

_ZEROS_CRC32: Final = [zlib.crc32(bytes(count)) for count in range(ALIGNMENT)]
"""The check of so many zeros, for what may lie in front of a stream."""

_T = TypeVar("_T")


class PlacedStream(NamedTuple):
    """One stream: the zeros in front of it, where it starts and ends, and its bytes."""

    gap: bytes
    offset: int
    end: int
    body: Body

    @classmethod
    def behind(cls, end: int, body: Body) -> PlacedStream:
        """Put it where it may start."""
        gap = bytes(-end % body.align)
        start = end + len(gap)
        return cls(gap, start, start + sum(len(piece.data) for piece in body.pieces), body)

    def parts(self) -> Sequence[Bytes]:
        """Give all bytes, in order."""
        return [self.gap, *(piece.data for piece in self.body.pieces)]


class PlacedKept(NamedTuple):
    """Kept streams: what lies in front of each payload, where each starts, and where all end."""

    fronts: Sequence[bytes]
    offsets: Sequence[int]
    end: int
    body: KeptBodies

    @classmethod
    def behind(cls, end: int, body: KeptBodies) -> PlacedKept:
        """Put each at the next multiple of ``ALIGNMENT``."""
        around = len(body.head) + np.array([len(tail) for tail in body.tails], np.int64)
        lengths = around + [len(payload) for payload in body.payloads]
        rooms = -(-lengths // ALIGNMENT) * ALIGNMENT
        offsets = end + -end % ALIGNMENT + np.cumsum(rooms) - rooms
        ends = offsets + lengths
        gaps = offsets - np.concatenate([[end], ends[:-1]])
        fronts = [bytes(gap) + body.head for gap in gaps.tolist()]
        return cls(fronts, offsets.tolist(), int(ends[-1]), body)

    def parts(self) -> Sequence[Bytes]:
        """Give all bytes, in order; each payload is one part, and all between two is another."""
        payloads, tails = self.body.payloads, self.body.tails
        between = map(operator.add, tails, [*self.fronts[1:], b""])
        return [self.fronts[0], *itertools.chain.from_iterable(zip(payloads, between, strict=True))]


Placed: TypeAlias = PlacedStream | PlacedKept


class StreamChecks(NamedTuple):
    """Where a stream lies in its file, and its checksums: of the whole, and of each page."""

    offset: int
    length: int
    crc32c: int
    pages: bytes


def lay_out(bodies: Iterable[Bodies]) -> list[Placed]:
    """Put streams one after the other, each at the next place where it may start."""
    placed: list[Placed] = []
    end = 0
    for body in bodies:
        each: Placed
        if isinstance(body, KeptBodies):
            each = PlacedKept.behind(end, body)
        else:
            each = PlacedStream.behind(end, body)
        placed.append(each)
        end = each.end
    return placed


@dataclass(slots=True)
class Checks:
    """The checksums of each stream, and of all bytes of the file so far."""

    rest: Rest = no_rest
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

    def add_streams(self, placed: Placed) -> None:
        """Take the next stream, or streams."""
        if isinstance(placed, PlacedKept):
            self._add_kept(placed)
        else:
            self._add_stream(placed)

    def _add_stream(self, stream: PlacedStream) -> None:
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
                self.rest()
        whole = join_sums(CRC32C, wholes, lengths)
        length = stream.end - stream.offset
        self.streams.append(StreamChecks(stream.offset, length, whole, pages.found()))

    def _add_kept(self, placed: PlacedKept) -> None:
        """Take streams of a payload each, in as few steps as there can be for so many."""
        fronts, offsets, end, (head, payloads, tails, paged_bytes, known) = placed
        front_sums = sum_up(head)
        columns = zip(fronts, offsets, payloads, tails, strict=True)
        for place, (front, offset, payload, tail) in enumerate(columns):
            if place < len(known):
                found = known[place]
            else:
                found = sum_up(tail, sum_up(payload, front_sums))
            gap_bytes = len(front) - len(head)
            length = len(head) + len(payload) + len(tail)
            self._sums += (_ZEROS_CRC32[gap_bytes], found.crc32)
            self._lengths += (gap_bytes, length)
            is_paged = len(payload) >= paged_bytes
            pages = _pages(offset, (head, payload, tail)) if is_paged else b""
            self.streams.append(StreamChecks(offset, length, found.crc32c, pages))
            self.rest()
        self.size = end


def _pages(offset: int, parts: Iterable[Bytes]) -> bytes:
    pages = PageSums(offset)
    for part in parts:
        pages.add(memoryview(part))
    return pages.found()


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
