"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading

from quiver.units import parse_duration

__all__ = ["ManualClock"]

_START_NS = 1_700_000_000_000_000_000


class ManualClock:
    """Both clocks of ``quiver.clock.Clock``, stepped by hand; safe to use from several threads."""

    def __init__(self, *, wall_ns: int = _START_NS, monotonic_ns: int = 1) -> None:
        self._lock = threading.Lock()
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns

    def wall_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC, as last set."""
        with self._lock:
            return self._wall_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment, as last stepped."""
        with self._lock:
            return self._monotonic_ns

    def pause(self, seconds: float) -> None:
        """Let nobody wait: time passes by ``step`` alone."""

    def step(self, duration: float | str) -> None:
        """Let time pass on both clocks: seconds, or a duration such as ``"25ms"``."""
        passed_ns = parse_duration(duration)
        with self._lock:
            self._wall_ns += passed_ns
            self._monotonic_ns += passed_ns

    def jump_to(self, wall_ns: int) -> None:
        """Set the wall clock alone, as an administrator or a time server may, forward or back."""
        with self._lock:
            self._wall_ns = wall_ns
