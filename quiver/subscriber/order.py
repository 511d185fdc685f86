"""In which order a subscriber gets what is there: oldest first, newest first, or by rank.

An order names the part of a segment from which the next bundle is taken. Bundles of one segment
always come as they were appended, so that files are read along and not back and forth.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

__all__ = ["Offered", "Order", "Ranked", "Ranks", "Window", "newest", "oldest"]

Window: TypeAlias = tuple[int, int, int]
"""A part of a segment with a bundle to take: (segment_seq, first, stop)."""

Ranks: TypeAlias = Callable[[int], Iterable[tuple[float, int, int]]]
"""Gives for a segment its bundles as runs (rank, first, count); all bundles are in one of them."""

_UNSEEN: Final = -1


class Offered(Protocol):
    """What is to be had, as ``Offers`` knows it."""

    ready: list[int]
    revision: int

    def offered_in(self, segment_seq: int, low: int, stop: int) -> bool:
        """Whether there is a bundle to take within ``[low, stop)`` of a segment."""
        ...

    def bundle_count(self, segment_seq: int) -> int:
        """How many bundles a segment has."""
        ...


Order: TypeAlias = Callable[[Offered], Window | None]
"""Chooses among what is offered; called only if a segment is ready, and gives None for none."""


def oldest(offers: Offered) -> Window:
    """Take from the oldest segment."""
    segment_seq = offers.ready[0]
    return segment_seq, 0, offers.bundle_count(segment_seq)


def newest(offers: Offered) -> Window:
    """Take from the newest segment; what is older is filled in while there is nothing newer."""
    segment_seq = offers.ready[-1]
    return segment_seq, 0, offers.bundle_count(segment_seq)


class Ranked:
    """Take what has the highest rank, and of equals the oldest. Ranks are asked for once."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._known: dict[int, Sequence[tuple[float, int, int]]] = {}
        self._heap: list[tuple[float, int, int, int]] = []
        self._revision = _UNSEEN

    def __call__(self, offers: Offered) -> Window | None:
        """Choose; the first call after something was offered looks at all that is."""
        if offers.revision != self._revision:
            self._look(offers.ready)
            self._revision = offers.revision
        while self._heap:
            _, segment_seq, low, stop = self._heap[0]
            if offers.offered_in(segment_seq, low, stop):
                return segment_seq, low, stop
            heapq.heappop(self._heap)
        return None

    def _look(self, ready: list[int]) -> None:
        for segment_seq in ready:
            if segment_seq not in self._known:
                self._known[segment_seq] = tuple(self._ranks(segment_seq))
        self._known = {segment_seq: self._known[segment_seq] for segment_seq in ready}
        self._heap = [
            (-rank, segment_seq, first, first + count)
            for segment_seq, runs in self._known.items()
            for rank, first, count in runs
        ]
        heapq.heapify(self._heap)
