"""The store's thread: upkeep at each tick, syncs for those who cannot wait, jobs in order.

=============  ================================================================
wakes for      and does
=============  ================================================================
a job          what was posted by then, in order (the asyncio face lives on it)
``write_soon`` a write of what appends left to it
``hasten``     a flush, after the jobs: one sync for all of them
``flush_at``   the same, ``wal.flush_interval`` after the first append of a burst
a tick         ``Store.tick``, each quarter second, and a look at another core
=============  ================================================================

Another one, without a store to keep up, writes segments: its jobs take too long for all of this.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol

from quiver.clock import Clock
from quiver.engine.core import Core
from quiver.engine.listeners import Listener
from quiver.engine.neighbours import Neighbours
from quiver.engine.threads import begin_thread
from quiver.errors import ClosedError, QuiverError
from quiver.events import Events
from quiver.units import MILLISECOND, SECOND

if TYPE_CHECKING:
    from quiver.engine.store import Store

__all__ = ["Job", "Listening", "Worker"]

_TICK_NS = 250 * MILLISECOND


class Job(Protocol):
    """Something for the worker to do, once; one of the two is called, in the worker's thread."""

    def run(self) -> None:
        """Do it."""
        ...

    def refuse(self, error: ClosedError) -> None:
        """Learn that it will not be done: the worker has ended."""
        ...


class Worker:
    """A daemon thread that serves one store until it is stopped.

    It may start before its store is there, so that opening can be its first job.
    """

    def __init__(self, name: str = "quiver-worker") -> None:
        """Start to wait for jobs, in a thread of this name; CapacityError if there is none."""
        self.failure: BaseException | None = None
        # Its lock is reentrant: a task that is collected may post what it leaves behind.
        self._turn = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._store: Store | None = None
        self._clock: Clock | None = None
        self._events = Events()
        self._neighbours: Neighbours | None = None
        self._write_now = False
        self._flush_now = False
        self._flush_at: int | None = None
        self._tick_at: int | None = None
        self._stopping = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        begin_thread(self._thread)

    # asked of it, from any thread ----------------------------------------------------------------

    def serve(self, store: Store, core: Core) -> None:
        """Keep up a store from now on."""
        clock = core.clock
        with self._turn:
            self._store, self._clock, self._events = store, clock, core.events
            self._neighbours = Neighbours(core)
            self._tick_at = clock.monotonic_ns() + _TICK_NS
            self._turn.notify()

    def post(self, job: Job) -> None:
        """Let a job be done behind those posted before; ClosedError if the worker has ended."""
        if not self._thread.is_alive():
            raise _closed()  # Also in a forked child, where the lock may be taken for ever.
        with self._turn:
            if self._stopping or self._ended:
                raise _closed()
            self._jobs.append(job)
            self._turn.notify()

    def post_if_open(self, job: Job) -> None:
        """Do the same; nothing happens if the worker has ended."""
        with contextlib.suppress(ClosedError):
            self.post(job)

    def write_soon(self) -> None:
        """Ask for what waits to be written, with no sync; costs nothing if that was asked for."""
        if not self._write_now:
            with self._turn:
                self._write_now = True
                self._turn.notify()

    def hasten(self) -> None:
        """Ask for a flush as soon as the jobs posted so far are done."""
        with self._turn:
            self._flush_now = True
            self._turn.notify()

    def flush_within(self, interval_ns: int) -> None:
        """Ask for a flush at most this long from now."""
        # Who clears it looks for the end of the log afterwards, and so sees our append.
        if self._flush_at is not None or self._clock is None:
            return
        with self._turn:
            self._flush_at = self._clock.monotonic_ns() + interval_ns
            self._turn.notify()

    def stop(self) -> None:
        """End the thread after what it is at, and wait for that; jobs not begun are refused."""
        with self._turn:
            self._stopping = True
            self._turn.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._neighbours is not None:
            self._neighbours.stop()

    def dismiss(self) -> None:
        """End the thread once the jobs posted so far are done; does not wait."""
        with self._turn:
            if not self._stopping:
                self._jobs.append(_Dismissal(self))
                self._turn.notify()

    @property
    def stopping(self) -> bool:
        """Whether it takes no more jobs, because its store is being closed."""
        return self._stopping

    @property
    def is_current(self) -> bool:
        """Whether the caller is this very thread, in a job or in what it tells others."""
        return threading.current_thread() is self._thread

    @property
    def ended(self) -> bool:
        """Whether it does nothing more."""
        return self._ended

    # done by it ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._wait():
                self._take_turn()
        finally:
            self._end()

    def _take_turn(self) -> None:
        for act in (self._do_jobs, self._write_if_asked, self._flush_if_asked, self._tick_if_due):
            try:
                act()
            except BaseException as error:  # noqa: BLE001 A callback that exits ends no thread.
                self._keep(error)

    def _wait(self) -> bool:
        """Wait until there is something to do; False if that is to end."""
        with self._turn:
            while not self._stopping:
                rest_ns = self._rest_ns()
                if rest_ns is not None and rest_ns <= 0:
                    return True
                self._turn.wait(None if rest_ns is None else rest_ns / SECOND)
            return False

    def _rest_ns(self) -> int | None:
        if self._jobs or self._write_now or self._flush_now:
            return 0
        times = [at for at in (self._flush_at, self._tick_at) if at is not None]
        if self._clock is None or not times:
            return None
        return min(times) - self._clock.monotonic_ns()

    def _is_due(self, at_ns: int | None) -> bool:
        return at_ns is not None and self._clock is not None and at_ns <= self._clock.monotonic_ns()

    def _do_jobs(self) -> None:
        """Do what was posted by now, and leave what comes meanwhile for the next turn."""
        for _ in range(len(self._jobs)):
            with self._turn:
                if self._stopping:
                    return
                job = self._jobs.popleft()
            try:
                job.run()
            except BaseException as error:  # noqa: BLE001 Nobody waits for it; the others go on.
                if self.failure is None:
                    self._events.warning("worker.job_failed", error=error)
                    self._events.tell()
                self._keep(error)

    def _write_if_asked(self) -> None:
        if self._write_now:
            self._write_now = False  # Before the look at what waits, which may have grown since.
            if self._store is not None:
                self._store.write_for_waiters()

    def _flush_if_asked(self) -> None:
        with self._turn:
            if not self._flush_now and not self._is_due(self._flush_at):
                return
            self._flush_now, self._flush_at = False, None
        if self._store is not None:
            self._store.flush_for_waiters()

    def _tick_if_due(self) -> None:
        store, clock = self._store, self._clock
        if store is None or clock is None or not self._is_due(self._tick_at):
            return
        self._tick_at = clock.monotonic_ns() + _TICK_NS
        try:
            store.tick()
            self.failure = None
            if self._neighbours is not None:
                self._neighbours.look()
        except ClosedError as error:
            # Closed or poisoned: appends raise it too, there is nothing left to keep up.
            self.failure = error
            self._tick_at = None
            self._stopping = self._stopping or store.closed
        except BaseException as error:  # noqa: BLE001 It is kept for whoever asks; upkeep goes on.
            if self.failure is None:
                self._events.warning("worker.tick_failed", error=error)
            self._keep(error)
        finally:
            self._events.tell()

    def _keep(self, error: BaseException) -> None:
        # Without the frames, which may hold a whole segment.
        self.failure = copy.copy(error) if isinstance(error, QuiverError) else error

    def _end(self) -> None:
        with self._turn:
            self._ended = True
            jobs = tuple(self._jobs)
            self._jobs.clear()
        for job in jobs:
            job.refuse(_closed())
        if self._store is not None and not self._stopping:
            self._store.abandon_waiters(_closed())

    def begin_end(self) -> None:
        """End after the job that calls this."""
        self._stopping = True


class Listening:
    """The job of calling a listener."""

    def __init__(self, listener: Listener) -> None:
        """Take it."""
        self.run = listener

    def refuse(self, error: ClosedError) -> None:
        """Nothing to do: whoever closes the store tells."""


class _Dismissal:
    """The last job of a worker that is dismissed."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def run(self) -> None:
        self._worker.begin_end()

    def refuse(self, error: ClosedError) -> None:
        """Nothing to do: it has ended."""


def _closed() -> ClosedError:
    return ClosedError("the store is closed", hint="quiver.open(path) opens it again")
