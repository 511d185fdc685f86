"""Secrets that their files may replace while a receiver listens: tokens, certificates and keys.

Files are looked at when somebody comes, at most once a second. What cannot be read or used, as half
of a pair that is being replaced, changes nothing: what was there before goes on to be asked for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from quiver.clock import Clock, SystemClock
from quiver.errors import QuiverError
from quiver.events import Events
from quiver.otel.receivers.settings import Token
from quiver.units import SECOND

__all__ = ["LiveToken", "Renewing", "Watch"]

_Given = TypeVar("_Given")
_LOOK_NS: Final = SECOND


class Renewing(Generic[_Given]):
    """Something that is made of files, and made anew when they change; for any thread."""

    def __init__(
        self,
        paths: Sequence[str],
        make: Callable[[], _Given],
        *,
        clock: Clock,
        told: Callable[[QuiverError | None], object],
    ) -> None:
        """Make it; raises what ``make`` raises.

        ``told`` hears later, when files have changed, what ``make`` raised then, or None.
        """
        self._paths, self._make = tuple(path for path in paths if path), make
        self._clock, self._told = clock, told
        self._lock = threading.Lock()
        self._seen = self._state()
        self._looked_ns = clock.monotonic_ns()
        self._made = make()

    def get(self) -> _Given:
        """Give it as the files have it, or as they had it when they were last of use."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._looked_ns >= _LOOK_NS and self._lock.acquire(blocking=False):
            try:
                self._looked_ns = now_ns
                self._look()
            finally:
                self._lock.release()
        return self._made

    def _look(self) -> None:
        state = self._state()  # Before they are read: a change in between is seen the next time.
        if state == self._seen:
            return
        try:
            self._made = self._make()
        except QuiverError as error:
            self._told(error)  # They are read again with the next look: half may be written.
        else:
            self._seen = state
            self._told(None)

    def _state(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(_state_of, self._paths))


def _state_of(path: str) -> tuple[int, ...]:
    """Say by what a change is noticed; links, of which Kubernetes makes secrets, are followed."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


class Watch:
    """By which clock files are looked at, and who is told."""

    def __init__(self, clock: Clock | None = None, events: Events | None = None) -> None:
        """Tell nobody unless there are ``events``."""
        self._clock, self._events = clock or SystemClock(), events

    def renewing(
        self, what: str, paths: Sequence[str], make: Callable[[], _Given]
    ) -> Renewing[_Given]:
        """Make something of files that is made anew when they change; ``what`` is for logs."""

        def told(error: QuiverError | None) -> None:
            if self._events is None:
                return
            if error is None:
                self._events.end("receiver.renewal_failed")
                self._events.info("receiver.renewed", what=what)
            else:
                self._events.begin("receiver.renewal_failed", what=what, error=error)
            self._events.tell()

        return Renewing(paths, make, clock=self._clock, told=told)


class LiveToken(Token):
    """A token as its file has it now: who has the one before it is let in no more."""

    __slots__ = ("_live",)

    def __init__(self, path: str, watch: Watch) -> None:
        """Read it; raises ConfigError or StorageError if it cannot be used."""
        self._live = watch.renewing("token", [path], lambda: Token.of_file(path))

    def allows(self, authorization: bytes) -> bool:
        """Whether a header ``Authorization`` brings it, in a time that tells nothing of it."""
        return self._live.get().allows(authorization)
