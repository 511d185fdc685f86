"""How far one subscriber is: the resolved bundles of each segment, and the marks derived from them.

::

    segment        40    41    42    43        # resolved   . open
    bundles       ###   #.#   ###   ...
                        |
                        floor 41: all segments below are finished; high-water mark 40
    gaps          (41, 1, 1)  (43, 0, 3)       lag 4

A bundle is resolved once it was acked or dropped; which of the two is the log's business. Acks in
any order are fine: the floor waits for the oldest open bundle, the runs remember the rest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

from quiver.errors import InputError, SubscriberError
from quiver.subscriber.runs import RunSet

__all__ = ["Progress"]


@dataclass(slots=True)
class _Segment:
    bundle_count: int
    resolved: RunSet

    @property
    def outstanding(self) -> int:
        return self.bundle_count - self.resolved.count


class Progress:
    """The resolved and open bundles of one subscriber."""

    def __init__(self, floor: int = 0) -> None:
        """Start with every segment below ``floor`` finished and none known."""
        self._settled = floor
        self._top = floor
        self._segments: dict[int, _Segment] = {}
        self._open: list[int] = []
        self.lag = 0

    def add_segment(self, segment_seq: int, bundle_count: int) -> None:
        """Learn of a segment with bundles ``[0, bundle_count)``, all open; known ones stay.

        One below the floor that this progress started with is finished already. Numbers may have
        holes and come in any order.
        """
        known = self._segments.get(segment_seq)
        if bundle_count < 1 or (known is not None and known.bundle_count != bundle_count):
            raise InputError(f"segment {segment_seq} cannot have {bundle_count} bundles")
        if known is not None:
            return
        segment = self._segments[segment_seq] = _Segment(bundle_count, RunSet())
        self._top = max(self._top, segment_seq + 1)
        if segment_seq < self._settled:
            segment.resolved.add(0, bundle_count)
            return
        insort(self._open, segment_seq)
        self.lag += bundle_count

    def forget_segment(self, segment_seq: int) -> None:
        """Know no more of a segment, whatever was open in it; an unknown one is fine."""
        segment = self._segments.pop(segment_seq, None)
        if segment is not None and segment.outstanding:
            self._close(segment_seq)
            self.lag -= segment.outstanding

    def resolve(self, segment_seq: int, first: int, count: int = 1) -> int:
        """Resolve bundles ``[first, first + count)``; give how many were open until now."""
        segment = self._find(segment_seq, first, count)
        newly = segment.resolved.add(first, count)
        self.lag -= newly
        if newly and not segment.outstanding:
            self._close(segment_seq)
        return newly

    def is_resolved(self, segment_seq: int, bundle_index: int) -> bool:
        """Whether one bundle has its outcome."""
        return bundle_index in self._find(segment_seq, bundle_index, 1).resolved

    def outstanding(self, segment_seq: int) -> int:
        """How many bundles of a segment are open; 0 if it is not known."""
        segment = self._segments.get(segment_seq)
        return 0 if segment is None else segment.outstanding

    @property
    def floor(self) -> int:
        """The oldest segment with an open bundle, else one more than the newest ever known."""
        return self._open[0] if self._open else self._top

    @property
    def high_water_mark(self) -> int | None:
        """The newest number such that no segment up to and with it has an open bundle."""
        return self.floor - 1 if self.floor else None

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Go through what is open as runs (segment_seq, first, count), oldest first."""
        for segment_seq in self._open:
            for first, count in self.open_runs(segment_seq):
                yield segment_seq, first, count

    def open_runs(self, segment_seq: int) -> list[tuple[int, int]]:
        """Give what is open in one segment as runs (first, count)."""
        segment = self._segments.get(segment_seq)
        return [] if segment is None else list(segment.resolved.gaps(0, segment.bundle_count))

    def resolved_runs(self, segment_seq: int) -> list[tuple[int, int]]:
        """Give what is resolved in one segment as runs (first, count)."""
        segment = self._segments.get(segment_seq)
        return [] if segment is None else list(segment.resolved.runs())

    def segments(self) -> list[tuple[int, int]]:
        """Give every known segment as (segment_seq, bundle_count), oldest first."""
        return sorted((seq, segment.bundle_count) for seq, segment in self._segments.items())

    def __contains__(self, segment_seq: object) -> bool:
        """Whether the segment is known."""
        return segment_seq in self._segments

    def _find(self, segment_seq: int, first: int, count: int) -> _Segment:
        segment = self._segments.get(segment_seq)
        if segment is None:
            raise SubscriberError(f"segment {segment_seq} is not here for this subscriber")
        if first < 0 or count < 1 or first + count > segment.bundle_count:
            raise SubscriberError(
                f"segment {segment_seq} has bundles 0 to {segment.bundle_count - 1}, "
                f"not {first} to {first + count - 1}"
            )
        return segment

    def _close(self, segment_seq: int) -> None:
        del self._open[bisect_left(self._open, segment_seq)]
