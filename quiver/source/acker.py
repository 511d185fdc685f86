"""Tells a source what is committed, and nothing before it is."""

from __future__ import annotations

import contextlib
import threading
from typing import Final

from quiver.errors import QuiverError
from quiver.events import Events
from quiver.source.protocols import Connector, States

__all__ = ["Acker"]

_AGAIN: Final = 1.0
"""Seconds until what a source would not hear is told again."""


class Acker:
    """One thread that tells; only the newest state of each split is ever worth telling.

    What fails is tried again for as long as the acker lives; ``failure`` is then the last one.
    What was not told when it is closed is dropped: the same commits may be told by another.
    """

    def __init__(self, connector: Connector, events: Events, *, threads: bool = True) -> None:
        """With ``threads=False`` nothing is told but by ``tell``."""
        self.failure: Exception | None = None
        self._connector = connector
        self._events = events
        self._bell = threading.Condition()
        self._telling = threading.Lock()
        self._pending: dict[str, str] = {}
        self._is_closed = False
        self._thread: threading.Thread | None = None
        if threads:
            self._thread = threading.Thread(target=self._run, name="quiver-acker", daemon=True)
            self._thread.start()

    @property
    def pending(self) -> dict[str, str]:
        """What is still to be told."""
        with self._bell:
            return dict(self._pending)

    def post(self, states: States) -> None:
        """Have the source told that all before these states is committed."""
        with self._bell:
            if not self._is_closed:
                self._pending.update(states)
                self._bell.notify_all()

    def drop(self) -> None:
        """Forget what is still to be told, and wait until what is being told is over."""
        with self._bell:
            self._pending = {}
        with self._telling:
            pass

    def tell(self) -> bool:
        """Tell what is pending, once; gives whether nothing is left of it."""
        with self._telling:
            with self._bell:
                states = dict(self._pending)
            if not states:
                return True
            try:
                self._connector.acknowledge(states)
            except Exception as error:  # noqa: BLE001 It lasts, and is told; nothing depends on it.
                self.failure = error
                self._events.begin("source.ack_failed", error=error)
                return False
            self.failure = None
            self._events.end("source.ack_failed")
            with self._bell:
                for name, state in states.items():
                    if self._pending.get(name) == state:
                        del self._pending[name]
                return not self._pending

    def close(self) -> None:
        """Drop what is pending and end; a second call does nothing."""
        with self._bell:
            self._is_closed = True
            self._pending = {}
            self._bell.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._bell:
                self._bell.wait_for(lambda: self._pending or self._is_closed)
                if self._is_closed:
                    return
            if not self.tell():
                with contextlib.suppress(QuiverError):
                    self._events.tell()
                with self._bell:
                    self._bell.wait_for(lambda: self._is_closed, _AGAIN)
