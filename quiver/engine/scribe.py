"""The thread that writes segments, in a store that has a worker.

The worker itself would be away for too long: it syncs for those who cannot wait, and does the jobs
of event loops.
"""

from __future__ import annotations

from quiver.engine.core import Core
from quiver.engine.sealed import try_write_sealed
from quiver.engine.worker import Worker
from quiver.errors import ClosedError

__all__ = ["Scribe"]


class Scribe:
    """Writes what is sealed, in a thread of its own, which begins with the first segment."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._worker: Worker | None = None
        self._stopped = False

    def ask(self) -> bool:
        """Have it write what is sealed; False if it cannot: it has ended, or there is no thread."""
        with self._core.lock:
            if self._stopped:
                return False
            try:
                if self._worker is None:
                    self._worker = Worker("quiver-scribe")
                self._worker.post(self)
            except (ClosedError, RuntimeError):
                return False
            return True

    def run(self) -> None:
        """Write it, unless somebody else did or is at it."""
        with self._core.lock:
            try_write_sealed(self._core)

    def refuse(self, error: ClosedError) -> None:
        """Leave it to whoever closes the store."""

    def stop(self) -> None:
        """End the thread after what it is at, and wait for that."""
        with self._core.lock:
            self._stopped = True
            worker = self._worker
        if worker is not None:
            worker.stop()
