"""Who is told when something changes that a thread does not wait for on the core's condition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Listener", "Listeners"]

Listener: TypeAlias = Callable[[], None]
"""Called with the core's lock held: it returns at once and takes no lock but a last one."""


class Listeners:
    """Functions to call at each change, from the thread that made it."""

    def __init__(self) -> None:
        # Reentrant: a coroutine that is collected takes its listener out, wherever that happens.
        self._lock = threading.RLock()
        self._listeners: dict[Listener, None] = {}

    def add(self, listener: Listener) -> None:
        """Call this one too from now on; once for each change, however often it was added."""
        with self._lock:
            self._listeners[listener] = None

    def discard(self, listener: Listener) -> None:
        """Call this one no more, if it was called."""
        with self._lock:
            self._listeners.pop(listener, None)

    def call(self) -> None:
        """Tell all of them."""
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()
