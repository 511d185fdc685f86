"""One thread at a time sends, and none out of the midst of its own sending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from quiver.errors import CapacityError
from quiver.units import SECOND, parse_duration

__all__ = ["SendingTurn"]

_T = TypeVar("_T")


class SendingTurn:
    """Whose turn it is to send to a partition. Safe for many threads.

    No context manager: one that is written in Python may be interrupted behind its entry, and who
    keeps the traceback, as notebooks do, keeps the turn.
    """

    def __init__(self, partition: str) -> None:
        """Let the first one in."""
        self._partition = partition
        self._lock = threading.RLock()
        self._is_taken = False

    def run(self, act: Callable[[], _T], timeout: float | str | None) -> _T:
        """Wait for the turn, so long at most, and do something; CapacityError if it does not come.

        Or if this thread has it, further up: a signal handler came in between.
        """
        if timeout is None:
            with self._lock:
                return self._alone(act)
        if not self._lock.acquire(timeout=parse_duration(timeout) / SECOND):
            raise CapacityError(
                f"another thread has waited to send to {self._partition} for {timeout}",
                hint="its chain takes nothing: wait, or look at its nodes",
            )
        try:
            return self._alone(act)
        finally:
            self._lock.release()

    def run_if_free(self, act: Callable[[], object]) -> None:
        """Do something unless another thread has the turn; CapacityError as for ``run``."""
        if self._lock.acquire(blocking=False):
            try:
                self._alone(act)
            finally:
                self._lock.release()

    def _alone(self, act: Callable[[], _T]) -> _T:
        if self._is_taken:
            raise CapacityError(
                f"this thread is in the middle of sending to {self._partition}",
                hint="this call comes out of that, as a signal handler's does: repeat it later",
            )
        self._is_taken = True
        try:
            return act()
        finally:
            self._is_taken = False
