"""Small requests that come while others are read: several of them become one batch.

To read a request and to append it takes a while however little it holds, and requests of OTLP one
behind the other are a request. So while a thread is at some, those that come wait for it, and are
the next. Each has its own answer; where anything is wrong with one, or there is no room, each is
read and taken by itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, TypeAlias

from quiver.otel.batch import Batch
from quiver.otel.nodes import SwiftIntake
from quiver.otel.receivers.answering import Work
from quiver.otel.signals import Signal

__all__ = ["JOINED_MAX", "Joining", "is_framed"]

JOINED_MAX: Final = 64 << 10
"""A request of more bytes is read by itself."""
_TOGETHER_MAX: Final = 256 << 10
_FIELDS_MAX: Final = 64
_REPEATED: Final = 0x0A
"""The tag of all that a request has: messages of field 1."""
_LENGTH_BYTES: Final = 4

_End: TypeAlias = Callable[[Work, Exception | None], None]


def is_framed(request: bytes) -> bool:
    """Whether a request ends where its last field does, and has nothing but what it repeats.

    Only then it takes nothing of one that is put behind it, however wrong it is within.
    """
    at, end = 0, len(request)
    for _ in range(_FIELDS_MAX):
        if at == end:
            return True
        if request[at] != _REPEATED:
            return False
        size = shift = 0
        for place in range(at + 1, min(at + 1 + _LENGTH_BYTES, end)):
            size |= (request[place] & 0x7F) << shift
            shift += 7
            if request[place] < 0x80:  # noqa: PLR2004 - the last byte of a varint
                at = place + 1 + size
                break
        else:
            return False
        if at > end:
            return False
    return at == end


class Joining:
    """Has one thread at a time read what came by then; ``add`` is for the event loop."""

    def __init__(
        self,
        swift: SwiftIntake,
        decode: Callable[[Signal, bytes], Sequence[Batch]],
        *,
        threads: Executor,
        apart: Callable[[Work], None],
        end: _End,
    ) -> None:
        """``apart`` works on one request alone and may wait, ``end`` answers one."""
        self._swift, self._decode = swift, decode
        self._threads, self._apart, self._end = threads, apart, end
        self._lock = threading.Lock()
        self._waiting: deque[Work] = deque()
        self._is_busy = False

    def add(self, work: Work) -> None:
        """Have a request worked on that is framed, with the next ones."""
        with self._lock:
            self._waiting.append(work)
            if self._is_busy:
                return
            self._is_busy = True
        self._threads.submit(self._run)

    def _run(self) -> None:
        while works := self._next():
            if not self._begin(works):
                for work in works:
                    self._leave_apart(work)

    def _next(self) -> list[Work]:
        """Take those of one signal that fit together."""
        with self._lock:
            works: list[Work] = []
            size = 0
            while self._waiting:
                work = self._waiting[0]
                size += len(work.plain)
                if works and (work.signal != works[0].signal or size > _TOGETHER_MAX):
                    break
                works.append(self._waiting.popleft())
            self._is_busy = bool(works)
            return works

    def _begin(self, works: Sequence[Work]) -> bool:
        """Have them taken as one batch; False if that is not how it can be done."""
        try:
            batches = self._decode(works[0].signal, b"".join(work.plain for work in works))
            if len(batches) != 1:
                return False  # Half of it could be taken.
            for work in works:
                work.size = len(work.plain)
            works[0].batches = batches
            self._swift.begin(batches, lambda error: self._end_all(works, error), wait=False)
        except Exception as error:  # noqa: BLE001 - each finds out by itself, and tells its sender
            if works[0].turns:
                works[0].batches = ()
                return False
            self._end_all(works, error)
            return True
        try:
            self._swift.hasten()
        except Exception as error:  # noqa: BLE001 - whoever sent it is told of any
            self._end_all(works, error)
        return True

    def _end_all(self, works: Sequence[Work], error: Exception | None) -> None:
        for work in works:
            self._end(work, error)

    def _leave_apart(self, work: Work) -> None:
        try:
            self._threads.submit(self._apart, work)
        except RuntimeError:  # The threads are about to end, with this one.
            self._apart(work)
