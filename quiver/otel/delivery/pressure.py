"""Whether this process is short of processor time: then who appends leaves some to who exports.

An interpreter runs one thread at a time, so what takes in faster than it can be given away takes
the time from just that, and all of it has to be read again from segments later. Where an exporter
is behind for another reason, a slow network or a slow other side, nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quiver.clock import Clock
from quiver.units import MILLISECOND

__all__ = ["Pressure"]

_WINDOW_NS: Final = 50 * MILLISECOND
_BUSY: Final = 0.6
"""Of one processor."""


class Pressure:
    """Looks now and then at how much of the time the process was running.

    Threads that look at once may both measure: nothing depends on it.
    """

    def __init__(self, clock: Clock, spent_ns: Callable[[], int]) -> None:
        """``spent_ns`` gives the processor time that the process has had."""
        self._clock, self._spent_ns = clock, spent_ns
        self._last = clock.monotonic_ns(), spent_ns()
        self._is_high = False

    @property
    def is_high(self) -> bool:
        """Whether it ran most of the time, lately."""
        now_ns = self._clock.monotonic_ns()
        at_ns, spent_ns = self._last
        if now_ns - at_ns >= _WINDOW_NS:
            self._last = now_ns, self._spent_ns()
            self._is_high = self._last[1] - spent_ns >= _BUSY * (now_ns - at_ns)
        return self._is_high
