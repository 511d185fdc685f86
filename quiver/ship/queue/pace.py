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
_WAIT_SECONDS_MAX: Final = 5.0
_TRIP_SECONDS: Final = 0.005
_TRIP_SECONDS_MIN: Final = 0.0002
_TRIP_SECONDS_MAX: Final = 1.0
_OUTLIER: Final = 3
"""A try that took longer than so many times what is usual counts as so many times."""
_LEARN: Final = 0.2
_FORGET: Final = 0.05
_LOSSES_MAX: Final = 20
_QUIET: Final = 0.05
_PATIENCE: Final = 3
_PATIENCE_MAX: Final = 8
_TURN_TRIPS: Final = 6
_HANGS_TRIPS: Final = 20
_HANGS_SECONDS: Final = 0.1
_HANGS_MAX: Final = 6
_KNOWN: Final = 8
"""So many tries tell how long one takes; before that twice the quickest one counts."""
_LOOK_EVERY: Final = 8


class Pace:
    """What one queue has learnt of its store: how long a try takes, and how many it loses."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._trip = _TRIP_SECONDS
        self._losses = 0.0
        self._changes = 0
        self._tries = 0
        self._quickest = 0.0
        self._slowest = 0.0

    @property
    def turn_seconds(self) -> float:
        """How long others have to wait so that a try gets in between."""
        return _TURN_TRIPS * self._trip

    @property
    def _widest(self) -> float:
        """How long a try takes to whoever is farthest, as far as that is known."""
        return max(self._trip, self._slowest)

    def patience(self, hangs: int, losses: int) -> float | None:
        """How many seconds to wait for an answer, after so many that did not come; None: any.

        ``losses``: how often others came first in this change.

        Some stores keep one of those who meet in them for a second and more, for a lock of theirs.
        By then somebody else has come first, and there is nothing to wait for. Who is alone, or
        does not know the store yet, waits as long as it takes.
        """
        if not (self.is_contended or losses) or not self._tries or hangs >= _HANGS_MAX:
            return None
        trip = self._widest if self._tries >= _KNOWN else max(2 * self._quickest, self._slowest)
        return max(_HANGS_TRIPS * trip, _HANGS_SECONDS) * (1 << hangs)

    def is_time_to_look(self) -> bool:
        """Say now and then, and always under contention, that somebody may wait for his turn."""
        self._changes += 1
        return self.is_contended or self._changes % _LOOK_EVERY == 0

    @property
    def is_contended(self) -> bool:
        """Whether others have come first lately."""
        return self._losses > _QUIET

    def took(self, begin_ns: int) -> None:
        """Learn how long a try took, that began then.

        Some stores let one in a hundred wait for a second, for a lock of theirs. That says little
        of the next, so no single one raises what is known by much.
        """
        seconds = (self._clock.monotonic_ns() - begin_ns) / SECOND
        self._quickest = min(seconds, self._quickest) if self._tries else seconds
        self._tries += 1
        most = min(_OUTLIER * self._trip, _TRIP_SECONDS_MAX)
        self._trip += _LEARN * (min(max(seconds, _TRIP_SECONDS_MIN), most) - self._trip)

    def won(self, losses: int) -> None:
        """Learn how often others came first."""
        self._losses += _LEARN * (min(losses, _LOSSES_MAX) - self._losses)
        self._slowest *= 1 - _FORGET

    def asked(self, seconds: float) -> None:
        """Learn that somebody loses, and that others have to wait so long for him; wait once."""
        self._losses = max(self._losses, 1.0)
        self._slowest = max(self._slowest, seconds / _TURN_TRIPS)
        self._clock.pause(seconds)

    def step_back(self) -> None:
        """Wait before another change, since others want to make theirs."""
        self._wait(2 * self._widest * (1 + self._losses))

    def after_conflict(self, losses: int) -> bool:
        """Wait before the next try: the shorter, the more were lost. Says if it is unfair."""
        self._wait(self._widest * (1 + self._losses) / (1 << min(losses, _LOSSES_MAX)))
        return losses >= min(_PATIENCE * (1 + self._losses), _PATIENCE_MAX)

    def after_fault(self, faults: int) -> None:
        """Wait before the next try: twice as long each time."""
        self._wait(_FAULT_SECONDS * 2**faults)

    def _wait(self, seconds: float) -> None:
        """Wait for up to so long, at least for a quarter."""
        seconds = min(seconds, _WAIT_SECONDS_MAX)
        lot = int.from_bytes(self._entropy(4), "big") / (1 << 32)
        self._clock.pause(seconds * (0.25 + 0.75 * lot))
