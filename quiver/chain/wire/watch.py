"""Notices silence: Flight itself never finds out that a link was cut.

It looks every so often, and at the moment when somebody was silent for too long: a pause behind a
fault is that silence, and little else.

If the process was stopped itself, by a signal or a machine that stood still, nobody is blamed for
what could not be heard meanwhile: all begin anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from quiver.chain.peers import tell_stopped
from quiver.clock import Clock
from quiver.units import SECOND

__all__ = ["Watchdog", "Watched"]

_LATE = 4
_LEAST_NS = 1_000_000


class Watched:
    """One who has to be heard now and then."""

    def __init__(self, dog: Watchdog, seconds: float, act: Callable[[], None]) -> None:
        self._dog, self._now_ns = dog, dog.now_ns
        self.limit_ns = int(seconds * SECOND)
        self.act = act
        self.heard_ns = dog.now_ns()
        self.is_busy = False

    def heard(self, at_ns: int | None = None) -> None:
        """Note that it was heard, now or then."""
        self.heard_ns = self._now_ns() if at_ns is None else max(self.heard_ns, at_ns)

    def __enter__(self) -> Self:
        """Begin own work, which keeps one from listening."""
        self.is_busy = True
        return self

    def __exit__(self, *_: object) -> None:
        """End it; that counts as heard."""
        self.heard_ns = self._now_ns()
        self.is_busy = False

    def stop(self) -> None:
        """Watch it no more; may be called again."""
        self._dog.forget(self)


class Watchdog:
    """Calls off what was silent for too long. Safe for many threads."""

    def __init__(self, clock: Clock, *, every: float) -> None:
        """Look so often, in seconds, by a thread of its own; 0: whenever ``look`` is called."""
        self.now_ns: Callable[[], int] = clock.monotonic_ns
        self._every = every
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._watched: set[Watched] = set()
        self._looked_ns = 0
        self._runs = False

    def watch(self, seconds: float, act: Callable[[], None]) -> Watched:
        """Call ``act`` once if it is silent for so long."""
        watched = Watched(self, seconds, act)
        with self._lock:
            self._watched.add(watched)
            if self._every and not self._runs:
                self._looked_ns = self.now_ns()
                self._start(watched)
        return watched

    def _start(self, watched: Watched) -> None:
        """Begin to look; the system may have no thread for that now, and later one."""
        try:
            threading.Thread(target=self._run, name="quiver-watch", daemon=True).start()
        except BaseException:
            self._watched.discard(watched)
            raise
        self._runs = True

    def forget(self, watched: Watched) -> None:
        """Watch it no more."""
        with self._lock:
            self._watched.discard(watched)

    def look(self) -> float:
        """Call off who was silent for too long; gives the seconds until somebody may be."""
        with self._lock:
            now, before = self.now_ns(), self._looked_ns
            self._looked_ns = now
            was_stopped = self._every and now - before > _LATE * self._every * SECOND
            silent = []
            left_ns = int(self._every * SECOND)
            for each in self._watched:
                left = each.heard_ns + each.limit_ns - now
                if was_stopped:
                    each.heard_ns = max(each.heard_ns, now)
                elif each.is_busy:
                    continue
                elif left < 0:
                    silent.append(each)
                else:
                    left_ns = min(left_ns, left)
            self._watched.difference_update(silent)
        for each in silent:
            try:
                each.act()
            except Exception as error:  # noqa: BLE001 The others were silent as well.
                tell_stopped(error)
        return max(left_ns, _LEAST_NS) / SECOND

    def _run(self) -> None:
        seconds = self._every
        while True:
            try:
                self._wake.wait(seconds)
                seconds = self.look()
            except Exception as error:  # noqa: BLE001 Else nobody looks from then on.
                tell_stopped(error)
            with self._lock:
                if not self._watched:
                    self._runs = False
                    return
