"""Threads in virtual time: one runs at a time, and waiting takes no time at all."""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable, Sequence

from quiver.ship.objects import Conflict, MemoryBucket, UnclearError

__all__ = ["DistantBucket", "VirtualTime"]

_START_NS = 1_700_000_000_000_000_000
_SECOND = 10**9
_KEPT_TRIPS = 100


class VirtualTime:
    """A clock that goes on to the next moment at which somebody wakes, when all are waiting."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._now = 0.0
        self._turn = 0
        self._sleepers: list[tuple[float, int, threading.Event]] = []
        self._failures: list[BaseException] = []

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        return _START_NS + self.monotonic_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds since the beginning."""
        return int(self._now * _SECOND)

    def pause(self, seconds: float) -> None:
        """Let others run until then."""
        mine = self._wake_at(self._now + seconds)
        self._wake_next()
        mine.wait()

    def run(self, acts: Sequence[Callable[[], None]]) -> None:
        """Run all of them to their ends; raises what the first of them raised."""
        starts = [self._wake_at(self._now) for _ in acts]
        threads = [
            threading.Thread(target=self._run, args=pair) for pair in zip(acts, starts, strict=True)
        ]
        for thread in threads:
            thread.start()
        self._wake_next()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, act: Callable[[], None], start: threading.Event) -> None:
        start.wait()
        try:
            act()
        except BaseException as error:  # noqa: BLE001 (told by run)
            self._failures.append(error)
        self._wake_next()

    def _wake_at(self, moment: float) -> threading.Event:
        self._turn += 1
        event = threading.Event()
        heapq.heappush(self._sleepers, (moment, self._turn, event))
        return event

    def _wake_next(self) -> None:
        if self._sleepers:
            self._now, _, event = heapq.heappop(self._sleepers)
            event.set()


class DistantBucket(MemoryBucket):
    """A store at a distance: each act takes a trip there, is done in one step, and one back."""

    def __init__(
        self, time: VirtualTime, *, seconds: float, seed: int, store: MemoryBucket
    ) -> None:
        """Take about so many seconds for each act on the objects of ``store``."""
        super().__init__(objects=store._objects)
        self._time = time
        self._seconds = seconds
        self._rng = random.Random(seed)
        self.kept_share = 0.0
        """How many of those who come too late wait a hundred trips for their answer."""
        self.gives_up = True
        """Whether it is given up when the caller does not want to wait that long."""

    def _trip(self) -> None:
        self._time.pause(self._seconds / 2 * self._rng.uniform(0.6, 1.4))

    def get(self, key):
        """Read an object, there and back."""
        self._trip()
        try:
            return super().get(key)
        finally:
            self._trip()

    def get_if_changed(self, key, tag):
        """Read an object if it changed, there and back."""
        self._trip()
        try:
            return super().get_if_changed(key, tag)
        finally:
            self._trip()

    def put(self, key, data):
        """Put an object, there and back."""
        self._trip()
        try:
            return super().put(key, data)
        finally:
            self._trip()

    def _keep_waiting(self, key, within):
        kept = _KEPT_TRIPS * self._seconds
        if within is not None and within < kept and self.gives_up:
            self._time.pause(within)
            raise UnclearError("no answer, in time", path=key, retryable=True)
        self._time.pause(kept)

    def put_if(self, key, data, tag, *, within=None):
        """Put an object on condition, there and back; who comes too late may be kept."""
        self._trip()
        try:
            return super().put_if(key, data, tag)
        except Conflict:
            if self._rng.random() < self.kept_share:
                self._keep_waiting(key, within)
            raise
        finally:
            self._trip()
