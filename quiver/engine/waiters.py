"""Who waits for durability without syncing: a thread with a timeout, a task, a function."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from quiver.clock import Clock
from quiver.engine.commit import Ticket
from quiver.errors import WaitTimeoutError
from quiver.events import Events
from quiver.units import SECOND

if TYPE_CHECKING:
    import asyncio

__all__ = ["CallWaiter", "LoopWaiter", "ThreadWaiter"]


class ThreadWaiter:
    """A thread that waits so long and no longer."""

    calls_others: Final = False

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self._told = threading.Event()
        self._error: Exception | None = None

    def tell(self, error: Exception | None) -> None:
        """Wake the thread."""
        self._error = error
        self._told.set()

    def wait(self, clock: Clock, limit_ns: int) -> None:
        """Return once told that the bundle is durable; WaitTimeoutError if the limit passes."""
        while not self._told.is_set():
            rest_ns = limit_ns - clock.monotonic_ns()
            if rest_ns <= 0:
                raise WaitTimeoutError(
                    f"bundle {self.ticket.wal_seq} is not durable yet",
                    hint="it is taken and will be: wait again",
                )
            self._told.wait(rest_ns / SECOND)
        if self._error is not None:
            raise copy.copy(self._error) from self._error  # Several threads may raise it at once.


class CallWaiter:
    """A function that is called once, in the thread that knows.

    That thread has others to tell: what the function raises is logged, and no error of theirs. It
    holds no lock of the store, for the function may want one that somebody has who appends.
    """

    calls_others: Final = True

    def __init__(
        self, ticket: Ticket, act: Callable[[Exception | None], object], events: Events
    ) -> None:
        self.ticket = ticket
        self._acts = [act]
        self._events = events

    def tell(self, error: Exception | None) -> None:
        """Call it, unless it was called."""
        try:
            act = self._acts.pop()
        except IndexError:
            return
        try:
            act(error)
        except Exception as raised:  # noqa: BLE001 It is no error of who is told next.
            if self._events.is_first("receipt.call_failed", type(raised)):
                self._events.warning("receipt.call_failed", error=raised)
                self._events.tell()


class LoopWaiter:
    """A task on an event loop. It is told through its loop, so it sees everything in one thread."""

    calls_others: Final = False

    def __init__(self, ticket: Ticket, loop: asyncio.AbstractEventLoop) -> None:
        self.ticket = ticket
        self.future: asyncio.Future[None] = loop.create_future()
        self._loop = loop

    def tell(self, error: Exception | None) -> None:
        """Wake the task, from any thread."""
        # RuntimeError: the loop was closed meanwhile, and the task went with it.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, error)

    def _end(self, error: Exception | None) -> None:
        if self.future.done():
            return  # Cancelled.
        if error is None:
            self.future.set_result(None)
        else:
            mine = copy.copy(error)
            mine.__cause__ = error
            self.future.set_exception(mine)
