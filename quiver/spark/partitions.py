"""Share a slot's bundles out into partitions of about equal size, in order.

A partition costs Spark some 50 ms whatever it reads, so small segments share one; a large segment
is cut between bundles. There are as many as the cores that are there, and more only if one would
exceed the given size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from quiver.scan import SegmentRef, SlotPart

__all__ = ["Piece", "plan"]

_BYTES_MIN: Final = 4 << 20
"""Smaller partitions take longer to start than to read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bundles ``[first, stop)`` of one segment."""

    segment: SegmentRef
    first: int
    stop: int


def plan(parts: Sequence[SlotPart], *, bytes_max: int, count_min: int) -> list[tuple[Piece, ...]]:
    """Pack all that ``parts`` hold of the slot into partitions of at most ``bytes_max`` each.

    At least ``count_min`` of them, unless they would be tiny. A single bundle is never cut, and
    bundles of one segment count as equally large.
    """
    total = sum(part.byte_count for part in parts)
    target = min(bytes_max, max(_BYTES_MIN, -(-total // count_min)))
    partitions: list[tuple[Piece, ...]] = []
    packed: list[Piece] = []
    packed_bytes = 0
    for piece, piece_bytes in _pieces(parts, target):
        if packed and packed_bytes + piece_bytes > target:
            partitions.append(tuple(packed))
            packed, packed_bytes = [], 0
        packed.append(piece)
        packed_bytes += piece_bytes
    if packed:
        partitions.append(tuple(packed))
    return partitions


def _pieces(parts: Sequence[SlotPart], target: int) -> Iterator[tuple[Piece, int]]:
    for part in parts:
        if part.row_count == 0:
            continue
        count = min(part.bundle_count, max(1, -(-part.byte_count // target)))
        bounds = [part.bundle_count * number // count for number in range(count + 1)]
        for first, stop in pairwise(bounds):
            yield Piece(part.segment, first, stop), part.byte_count // count
