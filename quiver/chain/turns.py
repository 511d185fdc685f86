"""A lock that no interrupt leaves taken, whoever waits for it and however long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

__all__ = ["Turn"]

_KINDS_MAX: Final = 16
_FOR_EVER: Final = -1.0


class Turn:
    """One thread at a time has it; that one may take it once more. Safe for many threads.

    No context manager: one that is written in Python may be interrupted behind its entry, and who
    keeps the traceback, as notebooks do, keeps the turn.
    """

    def __init__(self, lock: threading.RLock | None = None) -> None:
        """Let the first one in; others may have the lock of it."""
        self._lock = lock or threading.RLock()
        self._kinds: dict[float, type] = {}

    def run(self, act: Callable[[], object], seconds: float = _FOR_EVER) -> bool:
        """Wait for it, so long at most, and do something; False: it did not come."""
        is_mine = True
        try:
            with self._in_time(seconds) as is_mine:
                if is_mine:
                    act()
        except RuntimeError:  # What the lock says at the end to who has not got it.
            if is_mine:
                raise
        return is_mine

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
