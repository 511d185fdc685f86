"""The end of a process: calls under way are cancelled and waited for, and no thread begins another.

A thread that comes back from Flight when the interpreter is gone ends the process with a
segmentation fault, behind all that it did.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from quiver.clock import SystemClock
from quiver.units import SECOND

__all__ = ["Calls", "calling", "cancel_soon"]

_PATIENCE_NS: Final = 2 * SECOND


class Calls:
    """Those under way. No lock: an interrupt, or a finalizer, may make a call in a call."""

    def __init__(self) -> None:
        """Begin with none."""
        self.begin()

    def begin(self) -> None:
        """Begin anew: in a forked process those of the other one's threads are not here."""
        self.under_way: dict[object, tuple[int, Callable[[], object] | None]] = {}
        """Each with its thread, and what cancels it."""
        self.is_over = False
        self.ended = threading.Event()
        """Set when one has ended since it was over."""

    def calling(self, cancel: Callable[[], object] | None = None) -> _Call:
        """Be in Flight, and say how that is cancelled; a process that ends lets no thread in.

        Such a thread ends by SystemExit, of which nothing is printed.
        """
        return _Call(self, cancel)

    def end(self) -> None:
        """Cancel what can be, and wait a moment for all of it."""
        self.is_over = True  # Each call looks at it behind its entry: it is seen, or it sees.
        own = threading.get_ident()
        cancelled: set[object] = set()
        clock = SystemClock()
        until_ns = clock.monotonic_ns() + _PATIENCE_NS
        while (left_ns := until_ns - clock.monotonic_ns()) > 0:
            self.ended.clear()
            others = {key: call for key, (by, call) in self.under_way.copy().items() if by != own}
            if not others:
                return
            for key in others.keys() - cancelled:
                cancelled.add(key)
                if (cancel := others[key]) is not None:
                    with suppress(Exception):  # It is over anyway.
                        cancel()
            self.ended.wait(left_ns / SECOND)


class _Call:
    """One call. Entered in Python each time a frame is sent: no generator, which takes longer."""

    __slots__ = ("_calls", "_cancel", "_ended", "_under_way")

    _ended: threading.Event
    _under_way: dict[object, tuple[int, Callable[[], object] | None]]
    """Of the process that entered it."""

    def __init__(self, calls: Calls, cancel: Callable[[], object] | None) -> None:
        self._calls = calls
        self._cancel = cancel

    def __enter__(self) -> None:
        calls = self._calls
        self._under_way, self._ended = calls.under_way, calls.ended
        thread = threading.get_ident()
        self._under_way[self] = thread, self._cancel
        if calls.is_over and thread != threading.main_thread().ident:
            self.__exit__()
            raise SystemExit

    def __exit__(self, *_: object) -> None:
        del self._under_way[self]
        if self._calls.is_over:
            self._ended.set()


_calls: Final = Calls()
calling: Final = _calls.calling


def cancel_soon(call: Any) -> None:  # noqa: ANN401
    """Cancel a call; whoever waits in it comes back."""
    with calling():
        call.cancel()


os.register_at_fork(after_in_child=_calls.begin)
atexit.register(_calls.end)
