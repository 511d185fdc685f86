"""Which of a subscriber's open bundles may be handed out now.

::

    offered --take---> claimed --give_back-> offered     deferred, or its handle was lost
                          |-------wait-----> waiting     nacked; offered again once it is time
                          '------settle----> settled     acked, dropped, given up

Bundles are taken as runs of one segment. One that was nacked before comes alone, for its attempts
are its own, and so does one of a run that could not be read.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort

from quiver.subscriber.bundle_set import BundleSet
from quiver.subscriber.order import Order, oldest
from quiver.subscriber.progress import Progress

__all__ = ["Bundle", "Offers", "Run"]

Bundle = tuple[int, int]
"""A bundle's place: (segment_seq, bundle_index)."""

Run = tuple[int, int, int]
"""Bundles one behind the other: (segment_seq, first, count)."""


class Offers:
    """The bundles to hand out, over the segments that ``progress`` knows.

    ``waiting`` and ``ready`` are there to be looked at: a waiting bundle maps to its time, and
    ``ready`` has the segments with a bundle to take, ascending. ``revision`` changes whenever there
    is something new to take.
    """

    def __init__(self, progress: Progress) -> None:
        self.waiting: dict[Bundle, int] = {}
        self.ready: list[int] = []
        self.revision = 0
        self._progress = progress
        self._taken: dict[int, BundleSet] = {}
        self._nacked: dict[int, BundleSet] = {}
        self._alarms: list[tuple[int, Bundle]] = []

    def add_segment(self, segment_seq: int) -> None:
        """Offer a segment that the progress just learned of: all of it is open."""
        insort(self.ready, segment_seq)
        self.revision += 1

    def forget_segment(self, segment_seq: int) -> None:
        """Offer no more of a segment; the progress still knows it."""
        self.settle(segment_seq, 0, self._progress.bundle_count(segment_seq))
        self._taken.pop(segment_seq, None)

    def take(self, now_ns: int, *, order: Order = oldest, limit: int = 1) -> Run | None:
        """Claim the next bundle and up to ``limit`` in a row; None if all are taken.

        ``now_ns`` is wall time.
        """
        while self._alarms and self._alarms[0][0] <= now_ns:
            due_ns, bundle = heapq.heappop(self._alarms)
            if self.waiting.get(bundle) == due_ns:
                self._offer(*bundle, 1)
        window = order(self) if self.ready else None
        if window is None:
            return None
        segment_seq, low, stop = window
        taken, nacked = self._taken.get(segment_seq), self._nacked.get(segment_seq)
        first = low if taken is None else taken.next_absent(low)
        stop = min(stop, first + limit)
        if limit > 1 and taken is not None:
            stop = taken.next_present(first, stop)
        if limit > 1 and nacked is not None:
            stop = first + 1 if first in nacked else nacked.next_present(first, stop)
        self._take(segment_seq, first, stop - first)
        return segment_seq, first, stop - first

    def take_at(self, bundle: Bundle) -> bool:
        """Claim one bundle, even if it waits; False if it is claimed or settled."""
        if bundle in self.waiting:
            del self.waiting[bundle]
            return True
        return self._take(*bundle, 1)

    def offered_in(self, segment_seq: int, low: int, stop: int) -> bool:
        """Whether there is a bundle to take within ``[low, stop)`` of a segment."""
        at = bisect_left(self.ready, segment_seq)
        if at == len(self.ready) or self.ready[at] != segment_seq:
            return False
        taken = self._taken.get(segment_seq)
        return taken is None or taken.next_absent(low) < stop

    def bundle_count(self, segment_seq: int) -> int:
        """How many bundles a segment has."""
        return self._progress.bundle_count(segment_seq)

    def give_back(self, run: Run) -> None:
        """Offer claimed bundles again, at once."""
        self._offer(*run)

    def wait(self, bundle: Bundle, due_ns: int) -> None:
        """Hold a bundle, claimed or not, back until a wall time, as one that was nacked."""
        segment_seq, bundle_index = bundle
        self._take(segment_seq, bundle_index, 1)
        self._nacked.setdefault(segment_seq, BundleSet()).add(bundle_index)
        self.waiting[bundle] = due_ns
        heapq.heappush(self._alarms, (due_ns, bundle))

    def set_apart(self, run: Run) -> None:
        """Let each of these bundles come alone from now on."""
        segment_seq, first, count = run
        self._nacked.setdefault(segment_seq, BundleSet()).add(first, count)

    def settle(self, segment_seq: int, first: int, count: int) -> None:
        """Never offer these bundles again."""
        self._take(segment_seq, first, count)
        self.settle_taken(segment_seq, first, count)

    def settle_taken(self, segment_seq: int, first: int, count: int) -> None:
        """Do the same with bundles that are claimed, all of them."""
        if not self._progress.outstanding(segment_seq):
            del self._taken[segment_seq]
        nacked = self._nacked.get(segment_seq)
        if nacked is None:
            return
        if count == 1:
            self.waiting.pop((segment_seq, first), None)
        else:
            inside = range(first, first + count)
            for seq, index in [b for b in self.waiting if b[0] == segment_seq and b[1] in inside]:
                del self.waiting[seq, index]
        nacked.remove(first, count)
        if not nacked.count:
            del self._nacked[segment_seq]

    def move_alarms(self, back_ns: int) -> None:
        """Offer what waits so much earlier."""
        self.waiting = {bundle: max(due - back_ns, 0) for bundle, due in self.waiting.items()}
        self._alarms = [(due_ns, bundle) for bundle, due_ns in self.waiting.items()]
        heapq.heapify(self._alarms)

    def next_alarm_ns(self) -> int | None:
        """Give the wall time at which the first waiting bundle is offered again."""
        while self._alarms:
            due_ns, bundle = self._alarms[0]
            if self.waiting.get(bundle) == due_ns:
                return due_ns
            heapq.heappop(self._alarms)
        return None

    def _take(self, segment_seq: int, first: int, count: int) -> bool:
        """Have bundles taken; False if all of them were. A segment goes with its last one."""
        taken = self._taken.get(segment_seq)
        if taken is None:
            taken = self._taken[segment_seq] = BundleSet()
        newly = taken.add(first, count)
        if newly and taken.count == self._progress.bundle_count(segment_seq):
            del self.ready[bisect_left(self.ready, segment_seq)]
        return newly > 0

    def _offer(self, segment_seq: int, first: int, count: int) -> None:
        self.waiting.pop((segment_seq, first), None)
        taken = self._taken[segment_seq]
        if taken.count == self._progress.bundle_count(segment_seq):
            insort(self.ready, segment_seq)
        taken.remove(first, count)
        self.revision += 1
