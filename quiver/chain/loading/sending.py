"""One thread at a time sends, and none out of the midst of its own sending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, TypeVar

from quiver.errors import CapacityError
from quiver.units import SECOND, parse_duration

__all__ = ["SendingTurn"]

_T = TypeVar("_T")
_KINDS_MAX: Final = 16


class SendingTurn:
    """Whose turn it is to send to a partition. Safe for many threads.

    No context manager: one that is written in Python may be interrupted behind its entry, and who
    keeps the traceback, as notebooks do, keeps the turn.
    """

    def __init__(self, partition: str) -> None:
        """Let the first one in."""
        self._partition = partition
        self._lock = threading.RLock()
        self._kinds: dict[float, type] = {}
        self._is_taken = False

    def run(self, act: Callable[[], _T], timeout: float | str | None) -> _T:
        """Wait for the turn, so long at most, and do something; CapacityError if it does not come.

        Or if this thread has it, further up: a signal handler came in between.
        """
        if timeout is None:
            with self._lock:
                return self._alone(act)
        is_late = False
        try:
            with self._in_time(parse_duration(timeout) / SECOND) as is_mine:
                if is_mine:
                    return self._alone(act)
                is_late = True
        except RuntimeError:  # What the lock says at the end to who has not got it.
            if not is_late:
                raise
        raise CapacityError(
            f"another thread has waited to send to {self._partition} for {timeout}",
            hint="its chain takes nothing: wait, or look at its nodes",
        )

    def run_if_free(self, act: Callable[[], object]) -> None:
        """Do something unless another thread has the turn; CapacityError as for ``run``."""
        is_free = True
        try:
            with self._in_time(0.0) as is_free:
                if is_free:
                    self._alone(act)
        except RuntimeError:
            if is_free:
                raise

    def _in_time(self, seconds: float) -> AbstractContextManager[bool]:
        """Give what enters the lock, if it is free in so many seconds, and says whether it did.

        Entered and left in C: there is no step between at which a handler may raise and leave the
        lock behind, as there is behind each call in Python.
        """
        kind = self._kinds.get(seconds)
        if kind is None:
            lock = self._lock
            # Static: from Python 3.14 on a class binds a partial as it does a function.
            enter = staticmethod(partial(lock.acquire, timeout=seconds))
            kind = type("_InTime", (), {"__enter__": enter, "__exit__": lock.__exit__})
            if len(self._kinds) < _KINDS_MAX:  # A class each time would be work for the collector.
                self._kinds[seconds] = kind
        entered: AbstractContextManager[bool] = kind()
        return entered

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
