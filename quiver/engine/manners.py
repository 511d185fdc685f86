"""Appends have the interpreter while long work in Python is under way behind them.

A thread that works in Python keeps all others out until somebody has waited for 5 ms, and one that
lets go for an instant, as each call into Arrow does, is back before another one is awake. So it
stays away for a while, now and then, as long as bundles come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from quiver.clock import Clock
from quiver.engine.core import Core
from quiver.segment import Rest
from quiver.units import MILLISECOND, SECOND

__all__ = ["Manners", "resting"]

_STRETCH_NS: Final = MILLISECOND
_AWAY_NS: Final = MILLISECOND // 10
"""As long as it takes another thread to be awake, and then some."""


class Manners(threading.local):
    """Says when to stay away, to each thread by itself."""

    def __init__(self, clock: Clock, count: Callable[[], int]) -> None:
        """Look at ``count``, which grows while bundles come."""
        self._clock = clock
        self._count = count
        self._seen = count()
        self._since_ns = clock.monotonic_ns()

    def rest(self) -> None:
        """Stay away for a while if this thread was at it for long, and bundles came meanwhile."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._since_ns < _STRETCH_NS:
            return
        seen = self._count()
        if seen != self._seen:
            self._seen = seen
            self._clock.pause(_AWAY_NS / SECOND)
            now_ns = self._clock.monotonic_ns()
        self._since_ns = now_ns


def resting(core: Core) -> Rest:
    """Give what work for a segment of a core is to call now and then."""
    return Manners(core.clock, lambda: core.next_wal_seq).rest
