"""Which of a subscriber's open bundles may be handed out now.

::

    offered --take---> claimed --give_back-> offered     deferred, or its handle was lost
                          |-------wait-----> waiting     nacked; offered again once it is time
                          '------settle----> settled     acked or dropped
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from quiver.subscriber.runs import RunSet

__all__ = ["Bundle", "Offers"]

Bundle = tuple[int, int]
"""A bundle's place: (segment_seq, bundle_index)."""


@dataclass(slots=True)
class _Segment:
    bundle_count: int
    taken: RunSet


class Offers:
    """The bundles to hand out: oldest segment first, lowest index first.

    ``claimed`` and ``waiting`` are there to be looked at; a waiting bundle maps to its time.
    """

    def __init__(self) -> None:
        self.claimed: set[Bundle] = set()
        self.waiting: dict[Bundle, int] = {}
        self._segments: dict[int, _Segment] = {}
        self._ready: list[int] = []
        self._alarms: list[tuple[int, Bundle]] = []

    def add_segment(
        self, segment_seq: int, bundle_count: int, settled: Iterable[tuple[int, int]]
    ) -> None:
        """Offer the bundles of a new segment, but for the runs (first, count) in ``settled``."""
        segment = self._segments[segment_seq] = _Segment(bundle_count, RunSet(settled))
        if segment.taken.count < bundle_count:
            insort(self._ready, segment_seq)

    def forget_segment(self, segment_seq: int) -> set[Bundle]:
        """Offer no more of a segment; give what of it was claimed."""
        segment = self._segments.get(segment_seq)
        if segment is None:
            return set()
        claimed = self.settle(segment_seq, 0, segment.bundle_count)
        del self._segments[segment_seq]
        return claimed

    def take(self, now_ns: int) -> Bundle | None:
        """Claim the next bundle; None if all are taken. ``now_ns`` is wall time."""
        while self._alarms and self._alarms[0][0] <= now_ns:
            due_ns, bundle = heapq.heappop(self._alarms)
            if self.waiting.get(bundle) == due_ns:
                self._offer(bundle)
        if not self._ready:
            return None
        segment_seq = self._ready[0]
        bundle = segment_seq, self._segments[segment_seq].taken.next_absent(0)
        self._take(bundle)
        self.claimed.add(bundle)
        return bundle

    def take_at(self, bundle: Bundle) -> bool:
        """Claim one bundle, even if it waits; False if it is claimed or settled."""
        if bundle in self.waiting:
            del self.waiting[bundle]
        elif not self._take(bundle):
            return False
        self.claimed.add(bundle)
        return True

    def give_back(self, bundle: Bundle) -> None:
        """Offer a claimed bundle again, at once."""
        self.claimed.remove(bundle)
        self._offer(bundle)

    def wait(self, bundle: Bundle, due_ns: int) -> None:
        """Hold a bundle, claimed or not, back until a wall time."""
        self._take(bundle)
        self.claimed.discard(bundle)
        self.waiting[bundle] = due_ns
        heapq.heappush(self._alarms, (due_ns, bundle))

    def settle(self, segment_seq: int, first: int, count: int) -> set[Bundle]:
        """Never offer these bundles again; give what of them was claimed."""
        segment = self._segments[segment_seq]
        if segment.taken.add(first, count):
            self._update_ready(segment_seq)
        if count == 1:
            bundle = segment_seq, first
            self.waiting.pop(bundle, None)
            claimed = self.claimed & {bundle}
        else:
            inside = range(first, first + count)
            for seq, index in [b for b in self.waiting if b[0] == segment_seq and b[1] in inside]:
                del self.waiting[seq, index]
            claimed = {b for b in self.claimed if b[0] == segment_seq and b[1] in inside}
        self.claimed -= claimed
        return claimed

    def next_alarm_ns(self) -> int | None:
        """Give the wall time at which the first waiting bundle is offered again."""
        while self._alarms:
            due_ns, bundle = self._alarms[0]
            if self.waiting.get(bundle) == due_ns:
                return due_ns
            heapq.heappop(self._alarms)
        return None

    def _take(self, bundle: Bundle) -> bool:
        segment_seq, bundle_index = bundle
        newly = self._segments[segment_seq].taken.add(bundle_index)
        if newly:
            self._update_ready(segment_seq)
        return newly > 0

    def _offer(self, bundle: Bundle) -> None:
        self.waiting.pop(bundle, None)
        segment_seq, bundle_index = bundle
        segment = self._segments[segment_seq]
        if segment.taken.count == segment.bundle_count:
            insort(self._ready, segment_seq)
        segment.taken.discard(bundle_index)

    def _update_ready(self, segment_seq: int) -> None:
        """Take a segment off the list when the last of its bundles was just taken."""
        segment = self._segments[segment_seq]
        if segment.taken.count == segment.bundle_count:
            del self._ready[bisect_left(self._ready, segment_seq)]
