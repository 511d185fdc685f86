"""Entries on their way through one node: admitted, written, synced, and only then passed on.

Whoever sends writes; a worker syncs once for all that was written by then, and passes it on, so
that a node writes what comes while it syncs what came before; who brings little does that himself.
What is passed on is joined to frames of a mebibyte, so that many small ones cost little behind it.
Acks come back from the end of the chain: the last node gives them when it has synced, the others
hand them on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from quiver.chain.copies import BlockCopy
from quiver.chain.peers import Ack, Entries, Route, Stream, without_frames
from quiver.chain.workers import Workers
from quiver.errors import ClosedError, QuiverError, RemoteError
from quiver.wal.format import Frame

__all__ = ["QUEUE_BYTES_MAX", "Passage"]

QUEUE_BYTES_MAX: Final = 16 << 20
"""So much may wait for a sync before whoever sends has to; one frame is always taken."""
_FRAME_BYTES: Final = 1 << 20
_FRAMES_MAX: Final = 500
_ALONE_BYTES_MAX: Final = 64 << 10
"""So little comes alone: a loader that has more sends it in larger frames."""


def _take_nothing(size: int) -> None:
    pass


class Passage:
    """A ``Stream`` into one node. Safe for many threads."""

    def __init__(
        self,
        copy: BlockCopy,
        route: Route,
        *,
        workers: Workers,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
        take: Callable[[int], None] = _take_nothing,
        check: Callable[[Sequence[Frame]], None] | None = None,
    ) -> None:
        """Begin; ``pass_to`` says who is behind, before anything is sent.

        ``take`` is called with the bytes that are about to be written; it raises if there is no
        room for them. ``check`` raises DamagedEntry for entries that are not taken.
        """
        self._take = take
        self._copy = copy
        self._tell_acked = acked
        self._tell_broken = broken
        self._check = check
        self._begun = copy.begin(route)
        self._behind: Stream | None = None
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._queue: deque[Entries] = deque()
        self._queued_bytes = 0
        self._is_full = False
        self._fault: QuiverError | None = None
        self._worker = workers.start(f"quiver chain {route.block}", self._step)

    def pass_to(self, behind: Stream) -> None:
        """Pass on to the next of the chain."""
        with self._room:
            self._behind = behind
            is_over = self._fault is not None
        if is_over:  # It was stopped while that one was opened.
            behind.close()

    def send(self, entries: Entries) -> None:
        """Write entries; they go on once they are synced. Waits while too much is waiting already.

        Raises what broke it: what cannot be taken breaks it, too.
        """
        size = len(entries.body)
        with self._writing:
            with self._lock:
                while self._queued_bytes >= QUEUE_BYTES_MAX and self._fault is None:
                    self._is_full = True
                    self._room.wait()
                if self._fault is not None:
                    raise self._fault
            try:
                found = self._copy.look_at(entries)
                if self._check is not None:
                    self._check(found)
                self._take(size)
                self._copy.append(self._begun, entries, found)
            except BaseException as error:
                self._break(error)
                raise
            with self._lock:
                if self._fault is not None:
                    raise self._fault
                self._queue.append(entries)
                self._queued_bytes += size
        if size <= _ALONE_BYTES_MAX:
            self._worker.hurry()
            if self._copy.lacks_room:
                self._make_room()
        else:
            self._worker.wake()

    def _make_room(self) -> None:
        """Prepare for the next small ones, behind these; what the disk says of it breaks it."""
        try:
            self._copy.make_room()
        except QuiverError as error:
            self.stop(error)

    def _break(self, error: BaseException) -> None:
        """Whatever is raised breaks it."""
        if not isinstance(error, QuiverError):
            error = RemoteError("a node stopped in the midst of its work", retryable=True)
        self.stop(error)

    def _step(self) -> None:
        """Sync all that was written by now, and pass it on."""
        frames = self._taken()
        if not frames:
            return
        try:
            is_last = self._behind is None
            extent = self._copy.sync(at_once=is_last and len(frames) == 1 and frames[0].has_heard)
            if self._behind is None:
                self._tell_acked(Ack(extent.length, extent.last_seq))
            else:
                for joined in _joined(frames):
                    self._behind.send(joined)
        except QuiverError as error:
            self.stop(error)
        except BaseException as error:
            self._break(error)
            raise
        if self._queue:
            self._worker.wake()

    def _taken(self) -> Sequence[Entries]:
        with self._lock:
            frames: list[Entries] = []
            while self._queue and len(frames) < _FRAMES_MAX and self._fault is None:
                frames.append(self._queue.popleft())
                self._queued_bytes -= len(frames[-1].body)
            if self._is_full:  # Else nobody waits, as for most.
                self._is_full = False
                self._room.notify_all()
            return frames

    def acked(self, ack: Ack) -> None:
        """Hand on what the node behind says that all from there on have."""
        with self._lock:
            if self._fault is not None:
                return
        self._tell_acked(ack)

    def stop(self, fault: QuiverError) -> None:
        """Break: nothing more is taken, and whoever sends is told why, once."""
        without_frames(fault)
        if self._end(fault):
            self._tell_broken(fault)

    def close(self) -> None:
        """End it; nobody is told anything any more."""
        self._end(ClosedError("the stream was closed"))

    def _end(self, fault: QuiverError) -> bool:
        with self._room:
            if self._fault is not None:
                return False
            self._fault = fault
            self._queue.clear()
            self._queued_bytes = 0
            self._room.notify_all()
        self._worker.end()
        if self._behind is not None:
            self._behind.close()
        return True


def _joined(frames: Sequence[Entries]) -> Iterator[Entries]:
    """Put frames that follow each other together, up to a mebibyte."""
    begin = 0
    while begin < len(frames):
        end, size = begin + 1, len(frames[begin].body)
        while end < len(frames) and size + len(frames[end].body) <= _FRAME_BYTES:
            size += len(frames[end].body)
            end += 1
        first, last = frames[begin], frames[end - 1]
        if first is not last:
            body = memoryview(b"".join(frame.body for frame in frames[begin:end]))
            first = Entries(first.epoch, first.offset, last.last_seq, body)
        yield first
        begin = end
