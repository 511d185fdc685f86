"""Entries on their way through one node: admitted, written, synced, and passed on.

Whoever sends writes; a worker syncs once for all that was written by then, and passes it on, so
that a node writes what comes while it syncs what came before; who brings little does that himself.
What is passed on is joined to frames of a mebibyte, so that many small ones cost little behind it.

One whose loader had heard of all before it goes on before it is synced: it comes alone, and nodes
sync it side by side. Its word is passed on behind it, once this node and all before it have synced;
the last node shows and acks nothing before that. Acks come back from there, others hand them on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from quiver.chain.copies import BlockCopy, Extent
from quiver.chain.peers import Ack, Entries, Route, Stream, without_frames
from quiver.chain.workers import Workers
from quiver.errors import ClosedError, InputError, QuiverError, RemoteError
from quiver.wal.format import Frame

__all__ = ["QUEUE_BYTES_MAX", "Passage"]

QUEUE_BYTES_MAX: Final = 16 << 20
"""So much may wait for a sync before whoever sends has to; one frame is always taken."""
_FRAME_BYTES: Final = 1 << 20
_FRAMES_MAX: Final = 500
_ALONE_BYTES_MAX: Final = 64 << 10
"""So little comes alone: a loader that has more sends it in larger frames."""
_EVERYTHING: Final = 1 << 63
"""A loader has nothing to sync: whatever it sends is sure."""


def _take_nothing(size: int) -> None:
    pass


class _Synced(NamedTuple):
    """What one sync was for."""

    extent: Extent
    at_once: bool
    """Whether it was one entry, whose loader had heard of all before it."""


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
        self._telling = threading.Lock()
        """Held while the last node shows and acks: by whoever synced and whoever brings a word."""
        self._queue: deque[Entries] = deque()
        self._queued_bytes = 0
        self._is_full = False
        self._sure = 0 if route.sender else _EVERYTHING
        """As far as all before this node have synced."""
        self._synced: deque[_Synced] = deque()
        """By this node, and not by all before it."""
        self._owed = self._assured = 0
        """Up to where the node behind waits for this one's word, and where it has it."""
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
                if entries.has_heard and (len(found) != 1 or entries.offset > self._sure):
                    raise _unheard(entries)
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
                if not entries.has_heard:
                    self._sure = max(self._sure, entries.offset + size)
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
        is_early = len(frames) == 1 and frames[0].has_heard
        try:
            if is_early:
                self._pass_on(frames)
            extent = self._copy.sync()
            if not is_early:
                self._pass_on(frames)
            self._synced.append(_Synced(extent, is_early))
            if extent.length <= self._sure:  # Else it is done when the word for it comes.
                self._settle()
        except QuiverError as error:
            self.stop(error)
        except BaseException as error:
            self._break(error)
            raise
        if self._queue:
            self._worker.wake()

    def _pass_on(self, frames: Sequence[Entries]) -> None:
        if self._behind is not None:
            for joined in _joined(frames) if len(frames) > 1 else frames:
                if joined.has_heard:
                    self._owed = joined.offset + len(joined.body)
                self._behind.send(joined)

    def assure(self, length: int) -> None:
        """Take in that all before this node have synced so much."""
        with self._lock:
            self._sure = max(self._sure, length)
        try:
            self._settle()
        except BaseException as error:
            self._break(error)
            raise

    def _settle(self) -> None:
        """Show what this node and all before it have synced; or say it to the one behind."""
        if self._behind is not None:
            found, is_owed = self._settled()
            if is_owed:
                self._behind.assure(found[-1].extent.length)
            return
        with self._telling:  # Else an ack may come behind one of more, and is the last that counts.
            found, _ = self._settled()
            if found:
                extent = found[-1].extent
                self._copy.readers.show(extent, at_once=len(found) == 1 and found[0].at_once)
                self._tell_acked(Ack(extent.length, extent.last_seq))

    def _settled(self) -> tuple[list[_Synced], bool]:
        """Take what is synced by all up to here, and say if the node behind waits for the word."""
        found: list[_Synced] = []
        with self._lock:
            while self._synced and self._synced[0].extent.length <= self._sure:
                found.append(self._synced.popleft())
            is_owed = bool(found) and self._assured < self._owed
            if is_owed:  # What nobody was told is told with the next.
                self._assured = found[-1].extent.length
        return found, is_owed

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
        while end < len(frames) and _joins(frames[begin], frames[end], size):
            size += len(frames[end].body)
            end += 1
        first, last = frames[begin], frames[end - 1]
        if first is not last:
            body = memoryview(b"".join(frame.body for frame in frames[begin:end]))
            first = Entries(first.epoch, first.offset, last.last_seq, body)
        yield first
        begin = end


def _unheard(entries: Entries) -> InputError:
    """Say that a loader cannot have heard: so no node has more than one entry that is not sure."""
    return InputError(
        f"entry {entries.last_seq} is said to be sent alone, behind an ack of all before it; the "
        "last node gave none, or there are others in its frame",
        hint="whoever sent it is no loader of Quiver",
    )


def _joins(first: Entries, entries: Entries, size: int) -> bool:
    """Whether entries may go in one frame with others; of one that has heard all is not synced."""
    is_sure = not (first.has_heard or entries.has_heard)
    return is_sure and size + len(entries.body) <= _FRAME_BYTES
