"""One thread at a time sends, and none out of the midst of its own sending."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from quiver.errors import CapacityError
from quiver.units import SECOND, parse_duration

__all__ = ["SendingTurn"]


class SendingTurn:
    """Whose turn it is to send to a partition. Safe for many threads."""

    def __init__(self, partition: str) -> None:
        """Let the first one in."""
        self._partition = partition
        self._lock = threading.RLock()
        self._is_taken = False

    @contextmanager
    def taken(self, timeout: float | str | None) -> Iterator[None]:
        """Wait for the turn, so long at most; CapacityError if it does not come.

        Or if this thread has it, further up: a signal handler came in between.
        """
        seconds = -1.0 if timeout is None else parse_duration(timeout) / SECOND
        if not self._lock.acquire(timeout=seconds):
            raise CapacityError(
                f"another thread has waited to send to {self._partition} for {timeout}",
                hint="its chain takes nothing: wait, or look at its nodes",
            )
        try:
            # Who was interrupted right behind the lock left it taken, and nothing else.
            if self._is_taken:
                raise CapacityError(
                    f"this thread is in the middle of sending to {self._partition}",
                    hint="this call comes out of that, as a signal handler's does: repeat it later",
                )
            self._is_taken = True
            try:
                yield
            finally:
                self._is_taken = False
        finally:
            self._lock.release()
