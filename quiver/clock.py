"""Time, passed in and never read inside the store, so that a test can step it at will."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock", "processor_ns"]


class Clock(Protocol):
    """Two clocks: one that people read and one that never goes back."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC; may jump either way."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment of this process; never goes back."""
        ...

    def pause(self, seconds: float) -> None:
        """Do nothing for so long."""
        ...


class SystemClock:
    """The clocks of the operating system; asked for each entry, and so with no call of Python's."""

    wall_ns = staticmethod(time.time_ns)
    """Nanoseconds since 1970-01-01 UTC."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Nanoseconds since boot."""

    def pause(self, seconds: float) -> None:
        """Do nothing for so long."""
        time.sleep(seconds)


def processor_ns() -> int:
    """Nanoseconds of processor time that all threads of this process have had."""
    return time.process_time_ns()
