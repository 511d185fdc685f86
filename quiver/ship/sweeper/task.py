"""A thread that sweeps now and then, for as long as somebody consumes."""

from __future__ import annotations

import copy
import threading
from typing import Final

from quiver.clock import Clock
from quiver.errors import FencedError, QuiverError
from quiver.events import Events
from quiver.ship.sweeper.sweep import Sweeper
from quiver.units import SECOND

__all__ = ["INTERVAL", "SweeperTask"]

INTERVAL: Final = "5m"
"""Time between rounds, unless the caller says otherwise."""


class SweeperTask:
    """A daemon thread; its first round is one interval after the start."""

    def __init__(self, sweeper: Sweeper, *, interval_ns: int, clock: Clock) -> None:
        """Start."""
        self.failure: Exception | None = None
        """Why the last round ended early; None if it did not."""
        self.round_count = 0
        """Rounds that were begun."""
        self.ended = threading.Event()
        """Set once there will be no more rounds."""
        self._sweeper, self._clock = sweeper, clock
        self._interval_ns = max(interval_ns, 1)
        self._events = Events(queue=sweeper.place)
        self._turn = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="quiver-sweeper", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Let it look at the clock now."""
        with self._turn:
            self._turn.notify()

    def stop(self) -> None:
        """End it, after the request that is on its way at most."""
        with self._turn:
            self._stopping = True
            self._turn.notify()
        self._sweeper.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._sweep_now_and_then()
        finally:
            self.ended.set()

    def _sweep_now_and_then(self) -> None:
        due_ns = self._clock.monotonic_ns() + self._interval_ns
        while self._rest(due_ns):
            self.round_count += 1
            try:
                self._sweeper.sweep()
                self.failure = None
                self._events.end("ship.sweep_failed")
            except FencedError as error:
                self.failure = copy.copy(error)
                return  # Whoever came after does it.
            except Exception as error:  # noqa: BLE001 It is kept for whoever asks; the next comes.
                self.failure = copy.copy(error) if isinstance(error, QuiverError) else error
                self._events.begin("ship.sweep_failed", error=error)
            self._events.tell()
            due_ns = self._clock.monotonic_ns() + self._interval_ns

    def _rest(self, due_ns: int) -> bool:
        """Wait until it is due; False if that is the end."""
        with self._turn:
            while not self._stopping:
                rest_ns = due_ns - self._clock.monotonic_ns()
                if rest_ns <= 0:
                    return True
                self._turn.wait(rest_ns / SECOND)
            return False
