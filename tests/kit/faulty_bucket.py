"""A store in memory whose answers go wrong when they are told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quiver.ship.objects import Conflict, MemoryBucket, UnclearError

__all__ = ["FaultyBucket"]


class FaultyBucket(MemoryBucket):
    """Each conditional put takes the next of ``faults``; without any it does what it should.

    ``lost``: it is done, and no answer comes. ``repeated``: it is done, and the answer is that of
    a second try. ``missed``: it is not done, and no answer comes. ``late``: no answer comes, and
    it is done after the next act, if it still can be. ``refused``: it is not done, for no reason.
    """

    def __init__(self, path: str = "") -> None:
        """Begin an empty store without faults."""
        super().__init__(path)
        self.faults: deque[str] = deque()
        self.meanwhile: list[Callable[[], None]] = []
        """What others do just before the next conditional put, the last of it first."""
        self.under_way: list[tuple] = []
        self.calls: list[str] = []

    def get(self, key):
        """Read, then let what is under way arrive."""
        self.calls.append("get")
        found = super().get(key)
        self.arrive()
        return found

    def get_if_changed(self, key, tag):
        """Read, then let what is under way arrive."""
        self.calls.append("get_if_changed")
        found = super().get_if_changed(key, tag)
        self.arrive()
        return found

    def put_if(self, key, data, tag, *, within=None):
        """Put, as the next fault has it."""
        self.calls.append("put_if")
        if self.meanwhile:
            faults, self.faults = self.faults, deque()
            self.meanwhile.pop()()
            self.faults = faults
        fault = self.faults.popleft() if self.faults else ""
        if fault == "late":
            self.under_way.append((key, bytes(data), tag))
        if fault == "refused":
            raise Conflict("it is refused", path=key, retryable=True)
        if fault in ("late", "missed"):
            raise UnclearError("no answer", path=key, retryable=True)
        new = super().put_if(key, data, tag, within=within)
        self.arrive()
        if fault == "lost":
            raise UnclearError("no answer", path=key, retryable=True)
        if fault == "repeated":
            raise Conflict("it is not what it was", path=key, retryable=True)
        return new

    def arrive(self) -> None:
        """Let conditional puts arrive that took long; most of them come too late."""
        while self.under_way:
            try:
                super().put_if(*self.under_way.pop())
            except Conflict:
                continue
