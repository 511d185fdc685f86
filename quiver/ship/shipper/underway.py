"""How far one run of a shipper has come, and what is under way in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from quiver.consumer import Pending, SegmentConsumer
from quiver.errors import DamageError, QuiverError
from quiver.ship.shipper.loading import Loaded, Loader

__all__ = ["Under", "Way"]


@dataclass(slots=True)
class Under:
    """A batch under way."""

    future: Future[Loaded]
    pending: Sequence[Pending]
    byte_count: int


@dataclass(slots=True)
class Way:
    """How far one run has come."""

    consumer: SegmentConsumer
    pool: ThreadPoolExecutor
    loader: Loader
    marks: dict[int, int] = field(default_factory=dict)
    """By core, the highest segment that the queue has."""
    taken: dict[int, int] = field(default_factory=dict)
    """By core, the highest segment that was looked at."""
    under: deque[Under] = field(default_factory=deque)
    error: QuiverError | None = None
    """Why nothing that is under way, or comes later, can be shipped."""
    blocked: DamageError | None = None
    """Why nothing that comes later can be."""
    told: set[tuple[int, int]] = field(default_factory=set)
    """Unreadable segments, by core and number, that were told of."""

    @property
    def byte_count(self) -> int:
        """Of the segments that are under way."""
        return sum(under.byte_count for under in tuple(self.under))

    def abandon(self) -> None:
        """Let go of what is under way; what is put already becomes garbage."""
        for under in self.under:
            under.future.cancel()
        for under in self.under:
            if not under.future.cancelled():
                under.future.exception()  # Waits for it; whatever it was, it is begun anew.
        self.under.clear()

    def start_over(self) -> None:
        """Let go of all that, and of what failed: it is tried anew, and may succeed."""
        self.abandon()
        self.error = self.blocked = None
