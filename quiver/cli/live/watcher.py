"""The thread that looks at a store, or a chain, so that a slow disk holds up nobody but itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from quiver.units import SECOND

__all__ = ["Looks", "Taken", "Watcher"]


class Taken(Protocol):
    """A look that was taken."""

    @property
    def took_ns(self) -> int:
        """How long it took."""
        ...


class Looks(Protocol):
    """Whoever can look at a store, or a chain; see ``Looker``."""

    def look(self) -> Taken:
        """Look now."""
        ...

    def close(self) -> None:
        """Let go of what is looked at."""
        ...


class Watcher:
    """Looks once in each interval and tells; one look at a time, however long it takes.

    Between two looks passes at least the time that the last one took, so that looking is never more
    than half of what a thread can do. The thread ends with the process, also in the middle of a
    look at a disk that hangs.
    """

    def __init__(
        self,
        looker: Looks,
        *,
        interval_ns: int,
        tell: Callable[[Any], object],
        fail: Callable[[Exception], object],
    ) -> None:
        """``tell`` and ``fail`` are called in the thread; ``fail`` is the last call."""
        self._looker = looker
        self._interval_ns = interval_ns
        self._tell, self._fail = tell, fail
        self._state = threading.Condition()
        self._is_paused = self._is_over = False
        self._thread = threading.Thread(target=self._run, name="quiver-top", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def pause(self, *, paused: bool) -> None:
        """Look no more for now, or again, at once."""
        with self._state:
            self._is_paused = paused
            self._state.notify_all()

    def stop(self) -> None:
        """Look no more; does not wait for a look that has begun."""
        with self._state:
            self._is_over = True
            self._state.notify_all()

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, but not longer than ``timeout`` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while self._waits(0):
                look = self._looker.look()
                self._tell(look)
                if not self._waits(max(self._interval_ns - look.took_ns, look.took_ns)):
                    break
            self._looker.close()
        except Exception as error:  # noqa: BLE001 It is raised where the screen ends.
            self._fail(error)

    def _waits(self, ns: int) -> bool:
        """Wait for a time, and while this is paused; False if it is over."""
        with self._state:
            if ns:
                self._state.wait_for(lambda: self._is_over, ns / SECOND)
            self._state.wait_for(lambda: self._is_over or not self._is_paused)
            return not self._is_over
