"""What is logged: rare events, noted while a lock is held and told once it is free.

The logger is that of the room, ``quiver.wal``; the message is the name of the event, which does not
change, and what it is about is in attributes of the record. ``LOGS.md`` lists them all. Nothing of
a bundle is in them, and there is no event for each bundle.

A handler may do anything: wait for a lock of its own that another thread holds while it appends to
this store, or append itself. So nobody logs with the lock of a store held.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from quiver.errors import QuiverError

__all__ = ["Events"]

_ROOMS: Final = dict.fromkeys(("store", "core", "recovery", "worker", "receipt"), "engine") | {
    "receiver": "otel",
    "exporter": "otel",
    "pipeline": "otel",
}
"""Where the first word of an event is not the name of a room."""
_KEYS_MAX: Final = 4096

_Noted: TypeAlias = "tuple[int, str, dict[str, Any]]"


class Events:
    """The events of one core; from any thread. ``info`` and its like only note: ``tell`` logs."""

    def __init__(self, lock: threading.RLock | None = None, **about: object) -> None:
        """Nothing is told by who holds ``lock``; ``about`` goes into each record."""
        self.noted: deque[_Noted] = deque()
        self._lock = lock
        self._about = about
        self._lasting: set[str] = set()
        self._seen: set[tuple[object, ...]] = set()
        self._telling: set[int] = set()

    def info(self, event: str, **fields: object) -> None:
        """Note something that belongs to the life of a store."""
        self.noted.append((logging.INFO, event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Note a loss, a repair, or that something has to be tried again."""
        self.noted.append((logging.WARNING, event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Note what somebody gets as an exception, too."""
        self.noted.append((logging.ERROR, event, fields))

    def begin(self, event: str, **fields: object) -> None:
        """Warn of something that lasts; once, until ``end``."""
        if event not in self._lasting:
            self._lasting.add(event)
            self.warning(event, **fields)

    def end(self, event: str) -> bool:
        """Say that it is over; gives whether it had begun."""
        if event not in self._lasting:
            return False
        self._lasting.discard(event)
        return True

    def is_first(self, *key: object) -> bool:
        """Whether this is asked for the first time, or the last time is long ago."""
        if key in self._seen:
            return False
        if len(self._seen) >= _KEYS_MAX:
            self._seen.clear()
        self._seen.add(key)
        return True

    def tell(self) -> None:
        """Log what was noted by now, unless this thread holds the lock or is at it further up.

        What a handler or a filter raises goes where ``logging`` itself puts such: to stderr.
        """
        if self._lock is not None and self._lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            return
        thread = threading.get_ident()
        if thread in self._telling:
            return
        self._telling.add(thread)
        try:
            for _ in range(len(self.noted)):  # No more: a handler may add to it each time.
                self._log(*self.noted.popleft())
        except IndexError:
            return  # Another thread was faster.
        finally:
            self._telling.discard(thread)

    def _log(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        word = event.partition(".")[0]
        extra = {**self._about, **{name: _plain(value) for name, value in fields.items()}}
        try:
            logging.getLogger(f"quiver.{_ROOMS.get(word, word)}").log(level, event, extra=extra)
        except Exception:  # noqa: BLE001 No call of a store fails because of who listens.
            if logging.raiseExceptions:
                traceback.print_exc()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell at the end of a block, whatever comes of it; taken before the lock is."""
        try:
            yield
        finally:
            self.tell()


def _plain(value: object) -> object:
    """Give the text of an error; of one that is not ours no more than its kind."""
    if isinstance(value, QuiverError):
        return str(value)
    return type(value).__name__ if isinstance(value, BaseException) else value
