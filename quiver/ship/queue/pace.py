"""How long to wait before the next try, so that nobody spins and nobody starves.

Appenders race for one object. Whoever wins holds the newest state and could win again before
anybody else has read it, so under contention a winner steps back, reads anew, and waits longest;
who has lost often waits least.
"""

from __future__ import annotations

from typing import Final

from quiver.clock import Clock
from quiver.ship.batch.names import Entropy
from quiver.units import SECOND

__all__ = ["Pace"]

_FAULT_SECONDS: Final = 0.05
_FAULT_SECONDS_MAX: Final = 5.0
_TRIP_SECONDS: Final = 0.005
_TRIP_SECONDS_MAX: Final = 1.0
_LEARN: Final = 0.2
_LOSSES_MAX: Final = 20
_QUIET: Final = 0.05


class Pace:
    """What one queue has learnt of its store: how long a try takes, and how many it loses."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._trip = _TRIP_SECONDS
        self._losses = 0.0

    @property
    def is_contended(self) -> bool:
        """Whether others have come first lately."""
        return self._losses > _QUIET

    def took(self, begin_ns: int) -> None:
        """Learn how long a try took, that began then."""
        seconds = (self._clock.monotonic_ns() - begin_ns) / SECOND
        self._trip += _LEARN * (min(max(seconds, 0.0), _TRIP_SECONDS_MAX) - self._trip)

    def won(self, losses: int) -> None:
        """Learn how often others came first."""
        self._losses += _LEARN * (min(losses, _LOSSES_MAX) - self._losses)

    def step_back(self) -> None:
        """Wait before another change, if others want to make theirs."""
        self._wait(2 * self._trip * (1 + self._losses))

    def after_conflict(self, losses: int) -> None:
        """Wait before the next try: the shorter, the more were lost."""
        self._wait(self._trip * (1 + self._losses) / (1 << min(losses, _LOSSES_MAX)))

    def after_fault(self, faults: int) -> None:
        """Wait before the next try: twice as long each time."""
        self._wait(min(_FAULT_SECONDS * 2**faults, _FAULT_SECONDS_MAX))

    def _wait(self, seconds: float) -> None:
        """Wait for up to so long, at least for a quarter."""
        lot = int.from_bytes(self._entropy(4), "big") / (1 << 32)
        self._clock.pause(seconds * (0.25 + 0.75 * lot))
