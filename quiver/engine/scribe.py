"""The thread that writes segments, in a store that has a worker, and prepares them before.

The worker itself would be away for too long: it syncs for those who cannot wait, and does the jobs
of event loops.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

import pyarrow as pa

from quiver.engine.ahead import AHEAD_BYTES, Preparation
from quiver.engine.core import Core
from quiver.engine.manners import resting
from quiver.engine.pace import work_of
from quiver.engine.sealed import try_write_sealed
from quiver.engine.worker import Job, Worker
from quiver.errors import ClosedError, QuiverError
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
        # What was begun is let go if it is far too fast: the rest of it would take longer.
        if core.pace.hurries(work_of(opened), age_ns if core.ahead is None else 2 * age_ns):
            core.ahead = None
            return
        if core.ahead is None:
            core.ahead = Preparation(core.config.segment, resting(core))
        ahead, slots, done = core.ahead, core.manifest.slots, core.ahead.bundle_count
        if done is None:
            return
        bundles = [b for b in opened.bundles[done:] if isinstance(b, EncodedBundle)]
    with contextlib.suppress(QuiverError, MemoryError, *ARROW_FAULTS):
        ahead.add(bundles, done, slots)
        ahead.spent_ns += core.clock.monotonic_ns() - began_ns
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
    """Writes what is sealed, in a thread of its own, which begins with the first segment."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._worker: Worker | None = None
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
        if self._core.writer is not None:  # Both at once would leave little time to appends.
            return
        self._looked_bytes = opened.payload_bytes
        with self._core.lock:
            self._post(_LookAhead(self._core))

    def ask(self) -> bool:
        """Have it write what is sealed; False if it cannot: it has ended, or there is no thread."""
        with self._core.lock:
            return self._post(self)

    def _post(self, job: Job) -> bool:
        if self._stopped:
            return False
        try:
            if self._worker is None:
                self._worker = Worker("quiver-scribe")
            self._worker.post(job)
        except (ClosedError, RuntimeError):
            return False
        return True

    def run(self) -> None:
        """Write it, unless somebody else did or is at it."""
        with self._core.events.telling(), self._core.lock:
            try_write_sealed(self._core)
        _let_go_of_memory()

    def refuse(self, error: ClosedError) -> None:
        """Leave it to whoever closes the store."""

    def stop(self) -> None:
        """End the thread after what it is at, and wait for that."""
        with self._core.lock:
            self._stopped = True
            worker = self._worker
        if worker is not None:
            worker.stop()
