"""Share what is to be read out into partitions of about equal size, in order.

A partition costs Spark some 50 ms whatever it reads, and cores that have none wait for the others.
So there are as many partitions as cores, or a multiple of that if they would exceed the given size,
and all are about equally large: a segment is cut between chunks where that is needed. What lies
side by side in a file goes to one task, and neighbouring files too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from quiver.scan.plan import Piece

__all__ = ["plan"]

_BYTES_MIN: Final = 4 << 20
"""Smaller partitions take longer to start than to read."""


def plan(pieces: Sequence[Piece], *, bytes_max: int, count_min: int) -> list[tuple[Piece, ...]]:
    """Pack pieces into partitions of about ``bytes_max`` at most, by how many bytes are read.

    Their number is a multiple of ``count_min``, unless they would be tiny. A single chunk is never
    cut, nor is a segment that holds the slot under several schemas.
    """
    sizes = [_size(piece) for piece in pieces]
    total = sum(sizes)
    count = _count(total, bytes_max=bytes_max, count_min=count_min)
    share = total / count if count else 0.0
    partitions: list[list[Piece]] = [[] for _ in range(count)]
    start = 0.0
    for piece, size in zip(pieces, sizes, strict=True):
        for owner, part in _cut(piece, start, start + size, share=share):
            partitions[min(owner, count - 1)].append(part)
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


def _cut(piece: Piece, start: float, end: float, *, share: float) -> Iterator[tuple[int, Piece]]:
    """Cut a piece that lies at ``[start, end)`` of all bytes where shares end; with whose it is."""
    first, last = _owner(start, share), _owner(end, share, closed=True)
    ids = [s.stream_id for s in piece.part.streams] if piece.chunks is None else [*piece.chunks]
    if first == last or len(ids) != 1:
        yield _owner((start + end) / 2, share), piece
        return
    (stream,) = (s for s in piece.part.streams if s.stream_id == ids[0])
    mask = np.ones(stream.chunk_count, bool) if piece.chunks is None else piece.chunks[ids[0]]
    chunks = np.flatnonzero(mask)
    # A chunk belongs to whoever has its middle.
    middles = start + (end - start) * (np.arange(len(chunks)) + 0.5) / len(chunks)
    owners = (middles / share).astype(int)
    for owner in np.unique(owners).tolist():
        own = np.zeros(stream.chunk_count, bool)
        own[chunks[owners == owner]] = True
        yield owner, replace(piece, chunks={stream.stream_id: own})


def _owner(place: float, share: float, *, closed: bool = False) -> int:
    owner = int(place / share)
    return owner - 1 if closed and owner and place <= owner * share else owner
