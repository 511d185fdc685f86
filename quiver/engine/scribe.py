"""Two threads for segments, in a store that has a worker: one writes them, one prepares the next.

The worker itself would be away for too long: it syncs for those who cannot wait, and does the jobs
of event loops. Who writes waits for the disk most of the time, and who prepares never does.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

import pyarrow as pa

from quiver.engine.ahead import AHEAD_BYTES, Preparation
from quiver.engine.core import Core
from quiver.engine.fold import fold
from quiver.engine.forgoing import forgo, is_kept_up
from quiver.engine.manners import resting
from quiver.engine.pace import work_of
from quiver.engine.sealed import try_reclaim, try_write_sealed
from quiver.engine.worker import Job, Worker
from quiver.errors import CapacityError, ClosedError, QuiverError
from quiver.ipc import ARROW_FAULTS
from quiver.payload import EncodedBundle
from quiver.segment import OpenSegment

__all__ = ["Scribe", "look_ahead"]


def look_ahead(core: Core) -> None:
    """Prepare for the open segment what came since the last look.

    If that fails, so will the writing of the segment, which tells; here nobody would hear.
    """
    with core.lock:
        opened = core.open_segment
        if core.closing or opened.stored_count or not opened.bundles:
            return
        began_ns = core.clock.monotonic_ns()
        age_ns = began_ns - (opened.opened_ns or began_ns)
        ahead, segment = core.ahead, core.config.segment
        # What was begun is let go if it is far too fast: the rest of it would take longer.
        is_uniting = ahead is not None and not ahead.keeps
        keeps = core.pace.hurries(work_of(opened), 2 * age_ns if is_uniting else age_ns)
        if ahead is not None and ahead.keeps != keeps:
            core.ahead = ahead = None
        if keeps and segment.compression != "none":
            return
        if core.writer is not None and not keeps:  # Both at once would leave little to appends.
            return
        done = 0 if ahead is None else ahead.bundle_count
        if done is not None and is_kept_up(core, opened, done):
            return  # Perhaps no segment is made of it.
        if ahead is None:
            core.ahead = ahead = Preparation(segment, resting(core), keeps=keeps)
        slots, done = core.manifest.slots, ahead.bundle_count
        if done is None:
            return
        bundles = [b for b in opened.bundles[done:] if isinstance(b, EncodedBundle)]
    with contextlib.suppress(QuiverError, MemoryError, *ARROW_FAULTS):
        ahead.add(bundles, done, slots)
        ahead.spent_ns += core.clock.monotonic_ns() - began_ns
    if not keeps:
        _let_go_of_memory()


def _let_go_of_memory() -> None:
    """Give back what Arrow's allocator keeps for this thread, which needs little of it next.

    What is kept of one look and not fit for the next would come to as much as a segment.
    """
    pa.default_memory_pool().release_unused()


class _LookAhead:
    """The same as a job, for while there is nothing to write."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def run(self) -> None:
        """Do it."""
        look_ahead(self._core)

    def refuse(self, error: ClosedError) -> None:
        """Leave it to whoever closes the store."""


class Scribe:
    """Has what is sealed written and what is open prepared, each in a thread of its own.

    A thread begins with the first that there is for it to do.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._writer: Worker | None = None
        self._preparer: Worker | None = None
        self._stopped = False
        # Weak: once it is a file, what was open must not stay in memory.
        self._opened: Callable[[], OpenSegment | None] = lambda: None
        self._looked_bytes = 0

    def look_ahead(self) -> None:
        """Have what is open prepared, if enough came since the last time.

        Threads that call it at once may ask twice, or once too late: nothing depends on it.
        """
        opened = self._core.open_segment
        if opened is not self._opened():
            self._opened, self._looked_bytes = weakref.ref(opened), 0
        if opened.payload_bytes - self._looked_bytes < AHEAD_BYTES:
            return
        if self._core.writer is not None and not self._core.pace.hurried:
            return
        self._looked_bytes = opened.payload_bytes
        with self._core.lock:
            if self._preparer is None:
                self._preparer = self._begin("quiver-ahead")
            _post(self._preparer, _LookAhead(self._core))

    def ask(self) -> bool:
        """Have it write what is sealed; False if it cannot: it has ended, or there is no thread."""
        with self._core.lock:
            if self._writer is None:
                self._writer = self._begin("quiver-scribe")
            return _post(self._writer, self)

    def _begin(self, name: str) -> Worker | None:
        if not self._stopped:
            with contextlib.suppress(CapacityError):
                return Worker(name)
        return None

    def run(self) -> None:
        """Write it, unless somebody else did or is at it."""
        with self._core.events.telling(), self._core.lock:
            if self._is_forgone():
                try_reclaim(self._core)
            else:
                try_write_sealed(self._core)
        _let_go_of_memory()

    def _is_forgone(self) -> bool:
        """Do without the file if nobody needs it; if that cannot be written down, it is made."""
        try:
            return forgo(self._core, is_over=lambda: self._stopped, fold=fold)
        except QuiverError:
            self._core.check()
            return False

    def refuse(self, error: ClosedError) -> None:
        """Leave it to whoever closes the store."""

    def stop(self) -> None:
        """End the threads after what they are at, and wait for that."""
        with self._core.lock:
            self._stopped = True
            workers = (self._preparer, self._writer)
        for worker in workers:
            if worker is not None:
                worker.stop()


def _post(worker: Worker | None, job: Job) -> bool:
    """Let a thread do a job; False if it cannot."""
    try:
        if worker is not None:
            worker.post(job)
            return True
    except ClosedError:
        pass
    return False
