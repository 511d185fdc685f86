"""Share what is to be read out into partitions of about equal size, in order.

A partition costs Spark some 50 ms whatever it reads, and cores that have none wait for the others.
So there are as many partitions as cores, or a multiple of that if they would exceed the given size,
and all are about equally large: a segment is cut between chunks where that is needed, but not for
a sliver. What lies
side by side in a file goes to one task, and neighbouring files too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from quiver.scan.plan import Piece

__all__ = ["Shares", "plan"]

_BYTES_MIN: Final = 4 << 20
"""Smaller partitions take longer to start than to read."""
_SLIVER: Final = 1 / 32
"""A part of a share that is too small to open a segment for, and to check its pages one by one."""


class Shares:
    """So many equal shares of what is to be read, laid end to end: who has which part of it."""

    def __init__(self, total: int, *, bytes_max: int, count_min: int) -> None:
        """Make shares of about ``bytes_max`` at most.

        Their number is a multiple of ``count_min``, unless they would be tiny.
        """
        self.count = _count(total, bytes_max=bytes_max, count_min=count_min)
        self._each = total / self.count if self.count else 1.0

    def owner(self, place: float) -> int:
        """Give the share that a place is in."""
        return min(self.count - 1, int(place / self._each))

    def only_owner(self, start: float, end: float) -> int | None:
        """Give the share that has all of ``[start, end)`` but for slivers; None if two have it."""
        sliver = min(self._each * _SLIVER, (end - start) / 2)
        first, last = self.owner(start + sliver), self.owner(end - sliver)
        return first if first == last else None

    def owners(self, start: float, end: float, parts: int) -> list[int]:
        """Say who has each of so many equal parts of ``[start, end)``: by its middle."""
        middles = start + (end - start) * (np.arange(parts) + 0.5) / parts
        return [self.owner(middle) for middle in middles.tolist()]


def plan(pieces: Sequence[Piece], *, bytes_max: int, count_min: int) -> list[tuple[Piece, ...]]:
    """Pack pieces into partitions of about ``bytes_max`` at most, by how many bytes are read.

    Their number is a multiple of ``count_min``, unless they would be tiny. A single chunk is never
    cut, nor is a segment that holds the slot under several schemas.
    """
    sizes = [_size(piece) for piece in pieces]
    shares = Shares(sum(sizes), bytes_max=bytes_max, count_min=count_min)
    partitions: list[list[Piece]] = [[] for _ in range(shares.count)]
    start = 0
    for piece, size in zip(pieces, sizes, strict=True):
        for owner, part in _cut(piece, start, start + size, shares=shares):
            partitions[owner].append(part)
        start += size
    return [tuple(partition) for partition in partitions if partition]


def _count(total: int, *, bytes_max: int, count_min: int) -> int:
    if not total:
        return 0
    count = max(1, -(-total // bytes_max), min(count_min, total // _BYTES_MIN))
    return -(-count // count_min) * count_min if count > count_min else count


def _size(piece: Piece) -> int:
    """Estimate the bytes that are read: a stream's chunks count as equally large."""
    if piece.chunks is None:
        return max(1, piece.part.byte_count)
    by_id = {stream.stream_id: stream for stream in piece.part.streams}
    read = sum(
        by_id[stream_id].byte_length * int(mask.sum()) // max(1, len(mask))
        for stream_id, mask in piece.chunks.items()
    )
    return max(1, read)


def _cut(piece: Piece, start: int, end: int, *, shares: Shares) -> Iterator[tuple[int, Piece]]:
    """Cut a piece that lies at ``[start, end)`` of all bytes where shares end; with whose it is."""
    only = shares.only_owner(start, end)
    ids = [s.stream_id for s in piece.part.streams] if piece.chunks is None else [*piece.chunks]
    if only is not None or len(ids) != 1:
        yield shares.owner((start + end) / 2) if only is None else only, piece
        return
    (stream,) = (s for s in piece.part.streams if s.stream_id == ids[0])
    mask = np.ones(stream.chunk_count, bool) if piece.chunks is None else piece.chunks[ids[0]]
    chunks = np.flatnonzero(mask)
    owners = np.array(shares.owners(start, end, len(chunks)))
    for owner in np.unique(owners).tolist():
        own = np.zeros(stream.chunk_count, bool)
        own[chunks[owners == owner]] = True
        yield owner, replace(piece, chunks={stream.stream_id: own})
