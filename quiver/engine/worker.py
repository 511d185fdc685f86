"""The store's one thread: it calls ``maintain`` at each tick, so that nobody has to."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from quiver.engine.core import Core
from quiver.errors import ClosedError
from quiver.units import MILLISECOND, SECOND

if TYPE_CHECKING:
    from quiver.engine.store import Store

__all__ = ["Worker"]

_TICK_NS = 250 * MILLISECOND
_log = logging.getLogger("quiver.engine")


class Worker:
    """A daemon thread that ticks until it is stopped."""

    def __init__(self, store: Store, core: Core) -> None:
        """Start ticking: each quarter second, or each ``flush_interval`` if that is asked for."""
        self.failure: Exception | None = None
        self._store = store
        wal = core.config.wal
        self._tick_ns = wal.flush_interval if wal.durability == "interval" else _TICK_NS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quiver-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._tick_ns / SECOND):
            try:
                self._store.maintain()
                self.failure = None
            except ClosedError as error:
                # Closed or poisoned: appends raise it too, there is nothing left to keep up.
                self.failure = error
                return
            except Exception as error:  # noqa: BLE001 It is kept for whoever asks; upkeep goes on.
                if self.failure is None:
                    _log.warning("worker.tick_failed", extra={"error": str(error)})
                self.failure = error

    def stop(self) -> None:
        """End the thread and wait for its last tick."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
