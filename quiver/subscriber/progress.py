"""How far one subscriber is: the resolved bundles of each segment, and the marks derived from them.

::

    segment        40    41    42    43        # resolved   . open
    bundles       ###   #.#   ###   ...
                        |
                        floor 41: all segments below are finished; high-water mark 40
    gaps          (41, 1, 1)  (43, 0, 3)       lag 4

A bundle is resolved once it was acked, dropped or given up as a dead letter; which of them is the
log's business. Acks in any order are fine: the floor waits for the oldest open bundle, a set for
each segment that was begun remembers the rest. One that was not begun or is finished has no set.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from quiver.errors import InputError, SubscriberError
from quiver.subscriber.bundle_set import BundleSet

__all__ = ["Progress"]


class Progress:
    """The resolved and open bundles of one subscriber."""

    def __init__(self, floor: int = 0) -> None:
        """Start with every segment below ``floor`` finished and none known."""
        self._settled = floor
        self._top = floor
        self._counts: dict[int, int] = {}
        self._begun: dict[int, BundleSet] = {}
        self._done: set[int] = set()
        self._open: list[int] = []
        self.lag = 0

    def add_segment(self, segment_seq: int, bundle_count: int) -> bool:
        """Learn of a segment with bundles ``[0, bundle_count)``; give whether any is open.

        One below the floor that this progress started with is finished already, one that is known
        stays as it is. Numbers may have holes and come in any order.
        """
        known = self._counts.get(segment_seq, bundle_count)
        if bundle_count < 1 or known != bundle_count:
            raise InputError(f"segment {segment_seq} cannot have {bundle_count} bundles")
        if segment_seq not in self._counts:
            self._counts[segment_seq] = bundle_count
            self._top = max(self._top, segment_seq + 1)
            if segment_seq >= self._settled:
                insort(self._open, segment_seq)
                self.lag += bundle_count
            else:
                self._done.add(segment_seq)
        return self._is_open(segment_seq)

    def forget_segment(self, segment_seq: int) -> bool:
        """Know no more of a segment, an unknown one too; give whether anything was open in it."""
        if segment_seq not in self._counts:
            return False
        left = self.outstanding(segment_seq)
        if left:
            self._close(segment_seq)
            self.lag -= left
        del self._counts[segment_seq]
        self._done.remove(segment_seq)
        self._begun.pop(segment_seq, None)
        return left > 0

    def resolve(self, segment_seq: int, first: int, count: int = 1) -> int:
        """Resolve bundles ``[first, first + count)``; give how many were open until now."""
        bundle_count = self._check(segment_seq, first, count)
        begun = self._begun.get(segment_seq)
        if begun is None:
            if not self._is_open(segment_seq):
                return 0
            begun = self._begun[segment_seq] = BundleSet()
        newly = begun.add(first, count)
        self.lag -= newly
        if begun.count == bundle_count:
            # In this order: if an interrupt comes in between, to resolve it again ends it.
            self._close(segment_seq)
            del self._begun[segment_seq]
        return newly

    def is_resolved(self, segment_seq: int, bundle_index: int) -> bool:
        """Whether one bundle has its outcome."""
        self._check(segment_seq, bundle_index, 1)
        begun = self._begun.get(segment_seq)
        return bundle_index in begun if begun else not self._is_open(segment_seq)

    def outstanding(self, segment_seq: int) -> int:
        """How many bundles of a segment are open; 0 if it is not known."""
        begun = self._begun.get(segment_seq)
        if begun is not None:
            return self._counts[segment_seq] - begun.count
        return self._counts[segment_seq] if self._is_open(segment_seq) else 0

    @property
    def floor(self) -> int:
        """The oldest segment with an open bundle, else one more than the newest ever known."""
        return self._open[0] if self._open else self._top

    @property
    def high_water_mark(self) -> int | None:
        """The newest number such that no segment up to and with it has an open bundle."""
        return self.floor - 1 if self.floor else None

    @property
    def open_segments(self) -> tuple[int, ...]:
        """The segments with an open bundle, oldest first."""
        return tuple(self._open)

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Go through what is open as runs (segment_seq, first, count), oldest first."""
        for segment_seq in self._open:
            for first, count in self.open_runs(segment_seq):
                yield segment_seq, first, count

    @property
    def gap_count(self) -> int:
        """How many runs ``gaps`` would give; costs what the segments are that were begun."""
        begun = sum(held.gap_count(0, self._counts[seq]) for seq, held in self._begun.items())
        return len(self._open) - len(self._begun) + begun

    def open_runs(self, segment_seq: int) -> list[tuple[int, int]]:
        """Give what is open in one segment as runs (first, count)."""
        if not self._is_open(segment_seq):
            return []
        whole = 0, self._counts[segment_seq]
        begun = self._begun.get(segment_seq)
        return list(begun.gaps(*whole)) if begun else [whole]

    def open_within(self, segment_seq: int, first: int, count: int) -> list[tuple[int, int]]:
        """Give what is open of bundles ``[first, first + count)``, which may be beyond the end."""
        count = min(count, self.bundle_count(segment_seq) - first)
        if count < 1 or not self._is_open(segment_seq):
            return []
        begun = self._begun.get(segment_seq)
        return list(begun.gaps(first, count)) if begun else [(first, count)]

    def resolved_runs(self, segment_seq: int) -> list[tuple[int, int]]:
        """Give what is resolved in one segment as runs (first, count)."""
        begun = self._begun.get(segment_seq)
        if begun:
            return list(begun.runs())
        if segment_seq not in self._counts or self._is_open(segment_seq):
            return []
        return [(0, self._counts[segment_seq])]

    def segments(self) -> list[tuple[int, int]]:
        """Give every known segment as (segment_seq, bundle_count), oldest first."""
        return sorted(self._counts.items())

    def begun_segments(self) -> list[int]:
        """Give the segments from the floor on of which something is resolved, oldest first."""
        floor = self.floor
        return sorted({*self._begun, *(seq for seq in self._done if seq > floor)})

    def bundle_count(self, segment_seq: int) -> int:
        """How many bundles a segment has; 0 if it is not known."""
        return self._counts.get(segment_seq, 0)

    def __contains__(self, segment_seq: object) -> bool:
        """Whether the segment is known."""
        return segment_seq in self._counts

    def _is_open(self, segment_seq: int) -> bool:
        return segment_seq in self._counts and segment_seq not in self._done

    def _check(self, segment_seq: int, first: int, count: int) -> int:
        bundle_count = self._counts.get(segment_seq)
        if bundle_count is None:
            raise SubscriberError(f"segment {segment_seq} is not here for this subscriber")
        if first < 0 or count < 1 or first + count > bundle_count:
            raise SubscriberError(
                f"segment {segment_seq} has bundles 0 to {bundle_count - 1}, "
                f"not {first} to {first + count - 1}"
            )
        return bundle_count

    def _close(self, segment_seq: int) -> None:
        if segment_seq not in self._done:
            del self._open[bisect_left(self._open, segment_seq)]
            self._done.add(segment_seq)
