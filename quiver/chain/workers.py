"""Who does what goes on beside the caller: threads; or, in a test, whoever it chooses to let on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from quiver.chain.peers import tell_stopped
from quiver.chain.turns import Turn

__all__ = ["ThreadWorkers", "Worker", "Workers"]


class Worker(Protocol):
    """One who does the same work again and again, as often as there is some."""

    def wake(self) -> None:
        """Have the work done after this call began, at least once; returns at once."""
        ...

    def hurry(self) -> None:
        """Have it done as well, perhaps by the caller, who finds it done when this returns then.

        For who has nothing else to do until it is: to wake another thread takes a while. Not for a
        thread that is interrupted.
        """
        ...

    def lend(self, act: Callable[[], None]) -> bool:
        """Have the caller do something in the worker's place, unless that one is at work: False.

        An interrupt of the caller ends that, and no more.
        """
        ...

    def end(self) -> None:
        """Do it no more; work under way is not waited for."""
        ...


class Workers(Protocol):
    """Where workers come from. Safe for many threads."""

    def start(self, name: str, work: Callable[[], None]) -> Worker:
        """Make a worker, who waits until he is woken."""
        ...

    def spawn(self, name: str, task: Callable[[], None]) -> None:
        """Have a task done once, beside everything else; nobody waits for it."""
        ...


class ThreadWorkers:
    """A thread for each worker and for each task; none keeps the process from ending."""

    def start(self, name: str, work: Callable[[], None]) -> Worker:
        """Start a thread that waits until it is woken."""
        return _ThreadWorker(name, work)

    def spawn(self, name: str, task: Callable[[], None]) -> None:
        """Start a thread."""
        threading.Thread(target=task, name=name, daemon=True).start()


class _ThreadWorker:
    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._work = work
        # An event is set in Python: an interrupt there would leave it locked for ever.
        self._wanted: SimpleQueue[None] = SimpleQueue()
        self._is_ended = False
        self._lock = threading.RLock()
        self._turn = Turn(self._lock)
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while not self._is_ended:
            try:
                self._wanted.get()
                while not self._wanted.empty():
                    self._wanted.get()
                self._turn.run(self._once)
            except Exception as error:  # noqa: BLE001 Else nobody would do it from then on.
                tell_stopped(error)
                self.wake()

    def _once(self) -> None:
        if not self._is_ended:
            self._work()

    def wake(self) -> None:
        self._wanted.put(None)

    def hurry(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.wake()  # Whoever is at it may not have seen what the caller brought.
            return
        try:
            if not self._is_ended:
                self._work()
        finally:
            self._lock.release()

    def lend(self, act: Callable[[], None]) -> bool:
        return self._turn.run(act, 0.0)

    def end(self) -> None:
        self._is_ended = True
        self.wake()
