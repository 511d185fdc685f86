"""How whoever produced something learns what became of it: by waiting, awaiting or looking."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass

from quiver.errors import QuiverError, WaitTimeoutError

__all__ = ["Durable", "Outcome", "WriteHandle", "forget_frames"]


@dataclass(frozen=True, slots=True)
class Durable:
    """Where records are that are in the queue: the batch is stored, and the manifest names it."""

    sequence: int
    location: str


class Outcome:
    """What became of one batch. Settled once, by the thread that sends."""

    __slots__ = ("_durable", "_error", "_listeners", "_lock", "_settled")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._listeners: list[Callable[[], object]] = []
        self._durable: Durable | None = None
        self._error: BaseException | None = None

    def succeed(self, durable: Durable) -> None:
        """Let all know that it is in the queue."""
        self._settle(durable, None)

    def fail(self, error: BaseException) -> None:
        """Let all know why it is not, or that nobody knows."""
        self._settle(None, error)

    def _settle(self, durable: Durable | None, error: BaseException | None) -> None:
        with self._lock:
            self._durable, self._error = durable, error
            self._settled.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    @property
    def settled(self) -> bool:
        """Whether it is known."""
        return self._settled.is_set()

    @property
    def durable(self) -> Durable | None:
        """Where it is; None if it is not there, or not yet."""
        return self._durable if self.settled else None

    @property
    def error(self) -> BaseException | None:
        """Why it failed; None if it did not, or not yet."""
        return self._error if self.settled else None

    def wait(self, timeout: float | None) -> bool:
        """Block until it is settled, or for so many seconds."""
        return self._settled.wait(timeout)

    async def settle(self) -> None:
        """Return once it is settled; the event loop goes on meanwhile."""
        loop = asyncio.get_running_loop()
        known: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not known.done():
                known.set_result(None)

        def call() -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed, and the task with it.
                loop.call_soon_threadsafe(wake)

        with self._lock:
            if self.settled:
                return
            self._listeners.append(call)
        try:
            await known
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._listeners.remove(call)

    def result(self) -> Durable:
        """Give where it is, or raise why it is not: an error of his own to each who asks."""
        error = self._error
        if error is not None:
            raise copy.copy(error) if isinstance(error, QuiverError) else error
        if self._durable is None:
            raise WaitTimeoutError("the batch is not sent yet", hint="wait, or call flush")
        return self._durable


class WriteHandle:
    """What one call of ``produce`` gave; all calls of one batch have the same end.

    ``await handle`` is ``wait_durable`` for asyncio. An error that is an ``UnclearError`` says that
    nobody knows whether the records are in the queue; after any other they are not.
    """

    __slots__ = ("_outcome", "ingestion_time_ms")

    def __init__(self, outcome: Outcome, ingestion_time_ms: int) -> None:
        self._outcome = outcome
        self.ingestion_time_ms = ingestion_time_ms

    def wait_durable(self, timeout: float | None = None) -> Durable:
        """Block until the records are in the queue. Raises what befell them, or WaitTimeoutError.

        ``timeout`` is in seconds; what is not sent by then goes on being sent.
        """
        if not self._outcome.wait(timeout):
            raise WaitTimeoutError(
                f"the batch is not in the queue after {timeout} s", hint="it is still being sent"
            )
        return self._outcome.result()

    def __await__(self) -> Generator[object, None, Durable]:
        """Wait as ``wait_durable`` does, while the event loop goes on."""
        yield from self._outcome.settle().__await__()
        return self._outcome.result()

    @property
    def done(self) -> bool:
        """Whether it is known what became of the records."""
        return self._outcome.settled

    @property
    def durable(self) -> Durable | None:
        """Where the records are; None while they are on their way, and if they failed."""
        return self._outcome.durable

    @property
    def sequence(self) -> int | None:
        """The number of their entry in the queue; None while there is none."""
        durable = self._outcome.durable
        return durable.sequence if durable else None

    @property
    def error(self) -> BaseException | None:
        """Why they failed; None while they are on their way, and if they did not."""
        return self._outcome.error

    def __repr__(self) -> str:
        """Say how it stands."""
        state = repr(self.durable or self.error) if self.done else "on its way"
        return f"WriteHandle({state})"


def forget_frames(error: BaseException) -> None:
    """Let go of the records of a batch, which the frames of an error hold."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
