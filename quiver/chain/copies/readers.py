"""Who waits for more of a copy to be visible, and who is told of it by whoever synced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quiver.chain.copies.entries import Extent
from quiver.chain.peers import Ack, Tell

__all__ = ["Readers"]


class Readers:
    """Those of one copy. Safe for many threads."""

    def __init__(self, lock: threading.RLock, shown: Extent) -> None:
        """Nobody is there yet; whoever changes what is visible has the lock."""
        self._changed = threading.Condition(lock)
        self._showing = threading.Lock()
        self._waiting = 0
        self.shown = shown
        """As far as it is visible, while it is open: all locations have synced that."""
        self._listeners: tuple[Tell, ...] = ()
        """Never changed, but another one: whoever synced looks at it without the lock."""

    @contextmanager
    def listening(self, tell: Tell | None) -> Iterator[None]:
        """Have somebody told at once; he is to ``wait`` beside that, for what he is not told."""
        if tell is None:
            yield
            return
        with self._changed:
            self._listeners = *self._listeners, tell
        try:
            yield
        finally:
            with self._changed:
                left = list(self._listeners)
                left.remove(tell)
                self._listeners = tuple(left)

    def wait(
        self,
        look: Callable[[], tuple[Extent, bool]],
        beyond: int,
        *,
        seconds: float,
        listens: bool,
    ) -> tuple[Extent, bool]:
        """Give what is visible, and whether it ends there; waits so long for more than that."""
        with self._changed:
            self._waiting += not listens  # Before it looks: what is synced from here on wakes it.
            try:
                seen, is_cut = look()
                if seconds and seen.length <= beyond and not is_cut:
                    self._changed.wait(seconds)
                    seen, is_cut = look()
                return seen, is_cut
            finally:
                self._waiting -= not listens

    def wake(self) -> None:
        """Have all look again; the lock is taken."""
        self._changed.notify_all()

    def show(self, extent: Extent, *, at_once: bool = False) -> None:
        """Let all see so much; ``at_once``: tell it here, if one listens, and nobody waits.

        That is for what nobody sends who has not heard of all before it (``Tell``).
        """
        with self._showing:  # Not the lock of whoever writes: it is not worth to wait for him.
            if extent.length <= self.shown.length:
                return
            self.shown = extent
        listeners = self._listeners
        if not (self._waiting or listeners):
            return
        is_one = at_once and len(listeners) == 1 and not self._waiting
        if not (is_one and listeners[0](Ack(extent.length, extent.last_seq))):
            with self._changed:
                self._changed.notify_all()
