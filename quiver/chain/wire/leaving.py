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
        self._under_way: dict[object, tuple[threading.Thread, Callable[[], object] | None]] = {}
        self._is_over = False
        self._ended = threading.Event()

    def calling(self, cancel: Callable[[], object] | None = None) -> _Call:
        """Be in Flight, and say how that is cancelled; a process that ends lets no thread in.

        Such a thread ends by SystemExit, of which nothing is printed.
        """
        return _Call(self, cancel)

    def enter(self, call: _Call) -> None:
        """Begin one; raises SystemExit."""
        thread = threading.current_thread()
        call.under_way, call.ended = self._under_way, self._ended
        call.under_way[call] = thread, call.cancel
        if self._is_over and thread is not threading.main_thread():
            self.leave(call)
            raise SystemExit

    def leave(self, call: _Call) -> None:
        """End it."""
        del call.under_way[call]
        if self._is_over:
            call.ended.set()

    def end(self) -> None:
        """Cancel what can be, and wait a moment for all of it."""
        self._is_over = True  # Each call looks at it behind its entry: it is seen, or it sees.
        own = threading.current_thread()
        cancelled: set[object] = set()
        clock = SystemClock()
        until_ns = clock.monotonic_ns() + _PATIENCE_NS
        while (left_ns := until_ns - clock.monotonic_ns()) > 0:
            self._ended.clear()
            others = {key: call for key, (by, call) in self._under_way.copy().items() if by != own}
            if not others:
                return
            for key in others.keys() - cancelled:
                cancelled.add(key)
                if (cancel := others[key]) is not None:
                    with suppress(Exception):  # It is over anyway.
                        cancel()
            self._ended.wait(left_ns / SECOND)


class _Call:
    """One call. Entered in Python each time a frame is sent: no generator, which takes longer."""

    __slots__ = ("_calls", "cancel", "ended", "under_way")

    ended: threading.Event
    under_way: dict[object, tuple[threading.Thread, Callable[[], object] | None]]
    """Of the process that entered it."""

    def __init__(self, calls: Calls, cancel: Callable[[], object] | None) -> None:
        self._calls = calls
        self.cancel = cancel

    def __enter__(self) -> None:
        self._calls.enter(self)

    def __exit__(self, *_: object) -> None:
        self._calls.leave(self)


_calls: Final = Calls()
calling: Final = _calls.calling


def cancel_soon(call: Any) -> None:  # noqa: ANN401
    """Cancel a call; whoever waits in it comes back."""
    with calling():
        call.cancel()


os.register_at_fork(after_in_child=_calls.begin)
atexit.register(_calls.end)
