"""What a screen shows: the last look, the rates since the one before, and what happened."""

from __future__ import annotations

from collections import deque
from typing import Final

from quiver.cli.live.events import Event, events_between, first_events
from quiver.cli.live.look import Look
from quiver.cli.live.rates import History, Rates, rates_between

__all__ = ["EVENTS_MAX", "Board"]

EVENTS_MAX: Final = 300
"""How many events are remembered."""


class Board:
    """Looks go in, one after the other; what is to be seen comes out."""

    def __init__(self, folder: str, *, interval_ns: int, cap: int | None = None) -> None:
        """Begin with nothing; ``cap`` is in bytes, for the whole store."""
        self.folder = folder
        self.interval_ns = interval_ns
        self.cap = cap
        self.look: Look | None = None
        """The last look that saw the store."""
        self.problem: str | None = None
        """Why the last look did not."""
        self.rates: Rates | None = None
        self.history = History()
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        """The newest first."""
        self.look_count = 0
        self._last: Look | None = None

    def take(self, look: Look) -> None:
        """Learn what a look saw."""
        before, self._last = self._last, look
        found = first_events(look) if before is None else events_between(before, look)
        self.events.extendleft(found)
        self.rates = rates_between(before, look)
        self.problem = look.problem
        self.look_count += 1
        if look.problem is None:
            self.look = look
        if self.rates is not None:
            self.history.add(self.rates.total)
