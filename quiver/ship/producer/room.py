"""Memory that calls wait for, in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from quiver.clock import Clock
from quiver.errors import CapacityError, ClosedError, InputError
from quiver.units import SECOND, format_bytes

__all__ = ["Room", "Share"]


@dataclass(slots=True, eq=False)
class Share:
    """The room of one call."""

    is_taken: bool = False
    """Whether it has to be given back by who took it, and by nobody else."""


class Room:
    """So many bytes; who wants more than are left waits, and nobody overtakes him."""

    def __init__(self, limit: int, clock: Clock, *, when_full: Callable[[], object]) -> None:
        """``when_full`` is called, without a lock, by each who begins to wait."""
        self.limit = limit
        self._clock, self._when_full = clock, when_full
        self._turn = threading.Condition()
        self._waiting: deque[Share] = deque()
        self._used = 0
        self._closed = False

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return self._used

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for more than there is."""
        return bool(self._waiting)

    def take(self, cost: int, timeout: float | None, share: Share | None = None) -> bool:
        """Take room, and say whether that was a wait.

        ``timeout`` is in seconds; with 0 nobody waits. Raises InputError for what never fits,
        CapacityError, ClosedError. Whoever is interrupted in it gives ``share`` to ``let_go``.
        """
        share = share or Share()
        if cost > self.limit:
            raise InputError(
                f"one call takes {format_bytes(cost)}, and all together may take "
                f"{format_bytes(self.limit)}",
                hint="produce less at once, or raise memory",
            )
        with self._turn:
            if self._closed:
                raise closed()
            if not self._waiting and self._used + cost <= self.limit:
                self._used, share.is_taken = self._used + cost, True
                return False
            if timeout is not None and timeout <= 0:
                raise self._full(timeout)
            self._waiting.append(share)
        try:
            self._when_full()
        except BaseException:
            self._give_up(share)
            raise
        self._wait(share, cost, timeout)
        return True

    def _wait(self, share: Share, cost: int, timeout: float | None) -> None:
        until = None if timeout is None else self._clock.monotonic_ns() + round(timeout * SECOND)
        with self._turn:
            try:
                while self._waiting[0] is not share or self._used + cost > self.limit:
                    rest = None if until is None else until - self._clock.monotonic_ns()
                    if self._closed:
                        raise closed()
                    if rest is not None and rest <= 0:
                        raise self._full(timeout)
                    self._turn.wait(None if rest is None else rest / SECOND)
                if self._closed:
                    raise closed()
                self._used, share.is_taken = self._used + cost, True
            finally:
                self._give_up(share)

    def let_go(self, cost: int, share: Share) -> None:
        """Give back what was taken for a call that comes to nothing, wherever it ended."""
        with self._turn:
            if share.is_taken:
                self._used, share.is_taken = self._used - cost, False
            self._give_up(share)

    def _give_up(self, share: Share) -> None:
        with self._turn:
            if share in self._waiting:
                self._waiting.remove(share)
            self._turn.notify_all()  # The next one may fit beside.

    def give_back(self, cost: int) -> None:
        """Let others have it."""
        with self._turn:
            self._used -= cost
            self._turn.notify_all()

    def close(self) -> None:
        """Send all away who wait, and all who come."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()

    def _full(self, timeout: float | None) -> CapacityError:
        return CapacityError(
            f"{format_bytes(self._used)} of {format_bytes(self.limit)} wait to be sent"
            + (f", also after {timeout} s" if timeout else ""),
            hint="the store is slower than what is produced: wait, or raise memory",
        )


def closed() -> ClosedError:
    """Say that the producer takes no more."""
    return ClosedError("the producer is closed", hint="make a new one")
