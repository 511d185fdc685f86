"""What waits to be sent, cut into batches, and when each of them is due. Pure: no lock, no clock.

A batch is closed when its bytes reach the size, so that it is over it by one call at most, and
before it becomes larger than what consumers decode. Calls that come while another batch is on its
way begin the next one. One call is never divided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from quiver.ship.producer.handle import Outcome
from quiver.ship.producer.room import Share
from quiver.ship.queue import Item

__all__ = ["RECORD_COST", "Call", "Gathering", "Load"]

RECORD_COST = 64
"""Memory that a record takes beside its bytes, so that empty ones count too."""
_CALL_COST = 256
_LENGTH_SIZE = 4


@dataclass(frozen=True, slots=True)
class Call:
    """One call of ``produce``."""

    records: tuple[bytes | memoryview, ...]
    metadata: bytes
    time_ms: int
    size: int
    """Bytes of records and metadata, as the size of a batch is counted."""
    share: Share = field(default_factory=Share)

    @property
    def block_size(self) -> int:
        """Bytes in the block of a batch."""
        return self.size - len(self.metadata) + _LENGTH_SIZE * len(self.records)

    @property
    def cost(self) -> int:
        """Memory that it is counted with."""
        return self.size + RECORD_COST * len(self.records) + _CALL_COST


@dataclass(slots=True)
class Load:
    """The calls of one batch."""

    begun_ns: int
    calls: list[Call] = field(default_factory=list)
    size: int = 0
    cost: int = 0
    block_size: int = 0
    outcome: Outcome = field(default_factory=Outcome)

    def add(self, call: Call) -> None:
        """Take one call more; its room is given back with all of the load from now on."""
        cost, block_size = call.cost, call.block_size
        # Nothing is called from here on, so no interrupt comes in between.
        self.calls += [call]
        self.size += call.size
        self.block_size += block_size
        self.cost, call.share.is_taken = self.cost + cost, False

    def records(self) -> Sequence[bytes | memoryview]:
        """Give all records in the order in which they came."""
        return [record for call in self.calls for record in call.records]

    def items(self) -> Sequence[Item]:
        """Give one item for each call, with the place of its first record."""
        starts = accumulate((len(call.records) for call in self.calls), initial=0)
        return [
            Item(start, call.time_ms, call.metadata)
            for start, call in zip(starts, self.calls, strict=False)
        ]


class Gathering:
    """Loads that wait: those that are closed, and at most one that still takes calls."""

    def __init__(self, *, flush_size: int, interval_ns: int, block_max: int) -> None:
        self._flush_size, self._interval_ns = flush_size, interval_ns
        self._block_max = block_max
        self._closed: deque[Load] = deque()
        self._open: Load | None = None

    def add(self, call: Call, now_ns: int) -> Outcome:
        """Take one call, and give what will become of its batch."""
        load = self._open
        if load is not None and load.block_size + call.block_size > self._block_max:
            self.close_open()
            load = None
        if load is None:
            load = self._open = Load(begun_ns=now_ns)
        load.add(call)
        if load.size >= self._flush_size:
            self.close_open()
        return load.outcome

    def close_open(self) -> None:
        """Make all that is here due."""
        if self._open is not None and self._open.calls:
            self._closed.append(self._open)
            self._open = None

    def rest_ns(self, now_ns: int) -> int | None:
        """Say how long until something is due: 0 if it is, None if nothing waits."""
        if self._closed:
            return 0
        if self._open is None or not self._open.calls:  # Who began it was interrupted.
            return None
        return max(self._open.begun_ns + self._interval_ns - now_ns, 0)

    def take(self, now_ns: int) -> Load | None:
        """Give the oldest load if it is due; both the size and the time are looked at."""
        if self.rest_ns(now_ns) != 0:
            return None
        if not self._closed:
            self.close_open()
        return self._closed.popleft()

    def waiting(self) -> list[Load]:
        """Give all loads, oldest first."""
        return [*self._closed, *([self._open] if self._open and self._open.calls else [])]
