"""One job on its way to the store's worker, and its outcome on the way back to an event loop.

::

    event loop                        worker
    post --------------------------->  begins                 cancelled before: never begun
    (the loop goes on)                 does it                cancelled meanwhile: done, then undone
    wakes  <-- call_soon_threadsafe -  ends                   cancelled after: undone by another job

Each outcome has one owner: the task if it took it, else ``undo``, also if its loop is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from quiver.engine.worker import Worker
from quiver.errors import ClosedError

__all__ = ["Call", "ask", "errand"]

T = TypeVar("T")


async def ask(
    worker: Worker,
    act: Callable[[], T],
    *,
    undo: Callable[[T], object] | None = None,
    binding: bool = False,
) -> T:
    """Let the worker do something and give what it gave, or raise what it raised.

    If this is cancelled, ``act`` is not begun any more; had it begun, ``undo`` gets what it gave,
    in the worker too. A ``binding`` act is done also if whoever asked for it is cancelled. Raises
    ClosedError if the worker has ended.
    """
    call = Call(act, undo=undo, binding=binding)
    worker.post(call)
    try:
        await call.ended
    except BaseException:  # Cancelled, or thrown away with its loop.
        leftover = call.leave()
        if leftover is not None:
            errand(worker, leftover)
        raise
    return call.outcome()


def errand(worker: Worker, act: Callable[[], object]) -> None:
    """Let the worker do something that nobody waits for; a worker that has ended does not."""
    # What is asked for here gives claims back, and a closed store has forgotten them all.
    with contextlib.suppress(ClosedError):
        worker.post(_Errand(act))


class Call(Generic[T]):
    """A job that a task waits for."""

    def __init__(
        self, act: Callable[[], T], *, undo: Callable[[T], object] | None, binding: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._act: Callable[[], T] | None = act
        self._undo = undo
        self._binding = binding
        self._lock = threading.RLock()
        self._left = False
        self._values: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it, unless nobody waits for it any more."""
        with self._lock:
            act, self._act = self._act, None
        if act is None:
            return
        values: list[T] = []
        error: BaseException | None = None
        try:
            values.append(act())
        except BaseException as caught:  # noqa: BLE001 It is raised where it was asked for.
            error = caught
        self._end(values, error)

    def refuse(self, error: ClosedError) -> None:
        """Let the task know that it will not be done."""
        self._end([], error)

    def _end(self, values: list[T], error: BaseException | None) -> None:
        with self._lock:
            self._values, self._error = values, error
        if not self._left:
            try:
                self._loop.call_soon_threadsafe(self._wake)
                return
            except RuntimeError:
                pass  # The loop is closed: its tasks will never come.
        leftover = self.leave()
        if leftover is not None:
            leftover()

    def _wake(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def leave(self) -> Callable[[], object] | None:
        """Wait no more, and give what is to be done about an outcome that nobody took."""
        with self._lock:
            self._left = True
            if not self._binding:
                self._act = None
            values, undo = self._values, self._undo
            self._values, self._error = [], None
        if undo is None or not values:
            return None
        return lambda: undo(values[0])

    def outcome(self) -> T:
        """Take what came of it."""
        values, error = self._values, self._error
        self._values, self._error = [], None
        if error is not None:
            raise error
        return values[0]


class _Errand:
    """A job that nobody waits for."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def run(self) -> None:
        """Do it."""
        self._act()

    def refuse(self, error: ClosedError) -> None:
        """Nothing to do: as in ``errand``."""
