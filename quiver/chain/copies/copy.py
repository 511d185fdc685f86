"""One node's copy of one block: its promise, its log, and its segment once there is one.

::

    made --append, sync--> log --fence--> nothing more comes --cut--> sealed --finish--> segment
    segment --settle--> the log is gone;  fetched: a segment from the start

What is promised, where it ends and what was made of it stands in one small file, which is put in
one step before anything is done that rests on it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from quiver.chain.copies.entries import Extent, extent_behind, frames_in
from quiver.chain.copies.format import CopyState, encode_state
from quiver.chain.copies.log import BlockLog
from quiver.chain.copies.names import ASIDE, LOG, SEGMENT, STATE, file_of
from quiver.chain.copies.readers import Readers
from quiver.chain.copies.rules import CopyRules, bytes_of, check_length, not_here, said, without_log
from quiver.chain.copies.segments import make_segment, read_file
from quiver.chain.peers import BlockName, Entries, Finished, Holding, Route
from quiver.chain.sealing import Answer, Copy, Frame, Sealed, admit, promise
from quiver.disk import Disk, remove
from quiver.disk import replace as put
from quiver.errors import FencedError, InputError, MissingError
from quiver.wal.format import Frame as Entry

__all__ = ["BlockCopy"]


class BlockCopy:
    """A copy. Safe for many threads."""

    def __init__(
        self, disk: Disk, state: CopyState, *, log: BlockLog | None, rules: CopyRules
    ) -> None:
        self._disk = disk
        self._rules = rules
        self._state = state
        self._log = log
        self._lock = threading.RLock()
        self.readers = Readers(self._lock, log.found_sure if log else Extent())
        self._finishing = threading.Lock()
        self._stream = 0
        self.lacks_room = False
        """Whether small entries that come next would need a larger file."""
        self._is_dropped = self._is_closed = False
        self._condemned = 0

    @property
    def name(self) -> BlockName:
        """Which block it is of."""
        return self._state.name

    @property
    def state(self) -> CopyState:
        """What this node holds to about it."""
        return self._state

    @property
    def is_cut(self) -> bool:
        """Whether its block is sealed, as far as this node was told."""
        return self._state.sealed is not None or self._state.is_settled

    @property
    def holding(self) -> Holding:
        """What there is, as others are told."""
        with self._lock:
            state = self._state
            found = (state.sealed or self._log.synced) if self._log else Extent()
            return Holding(state.name, state.epoch, found.length, state.finished)

    @property
    def byte_count(self) -> int:
        """What it takes, with the segment that is to be made of its log."""
        with self._lock:
            return bytes_of(self._log.extent.length if self._log else 0, self._state.finished)

    # to write ----------------------------------------------------------------------------------

    def prepare(self, route: Route, layout: str) -> None:
        """Make room anew: of a greater epoch, or the same one as long as no stream came."""
        with self._lock:
            epoch = self._promised(route.epoch)
            log = self._usable_log()
            if log.extent.length or self._state.sealed is not None or self._stream:
                raise InputError(f"{said(self.name)} is not empty: no room is made for it again")
            self._put(self._state._replace(epoch=epoch, chain=route.chain, layout=layout))

    def begin(self, route: Route) -> int:
        """Let a stream in, and no older one any more; gives what it appends with.

        Raises FencedError, and InputError for another chain than room was made for.
        """
        with self._lock:
            self._check_open(route.epoch)
            if (route.epoch, route.chain) != (self._state.epoch, self._state.chain):
                raise InputError(
                    f"room for {said(self.name)} was made in epoch {self._state.epoch} for "
                    f"{', '.join(self._state.chain)}, not in {route.epoch} for "
                    f"{', '.join(route.chain)}"
                )
            self._usable_log()
            self._stream += 1
            return self._stream

    def look_at(self, entries: Entries) -> list[Entry]:
        """Give what is in it, views of its body; raises InputError unless all of it is whole."""
        return frames_in(entries.body, self._rules.entry_bytes_max)

    def append(self, stream: int, entries: Entries, found: Sequence[Entry]) -> Extent:
        """Write entries in their place, which hold what was found; durable after ``sync``.

        Raises FencedError, InputError, and what the disk raises. Nothing is left of what failed.
        """
        with self._lock:
            if stream != self._stream:
                raise InputError(f"another stream of {said(self.name)} was opened")
            log, state = self._log or self._usable_log(), self._state
            if state.sealed is not None or entries.epoch < state.epoch:
                self._check_open(entries.epoch)
            copy = Copy(state.epoch, log.extent.length)
            admit(copy, Frame(entries.epoch, entries.offset, len(entries.body)))
            extent = extent_behind(found, log.extent)
            if (last := extent.last_seq) != entries.last_seq:
                raise InputError(f"a frame says {entries.last_seq}, and ends with entry {last}")
            check_length(state.name, extent.length, self._rules)
            log.append(entries.body, extent)
            self.lacks_room = log.lacks_room
            return extent

    def make_room(self) -> None:
        """Have small entries that come need no larger file."""
        with self._lock:
            if self._log is not None and self._state.sealed is None:
                self._log.make_room()

    def sync(self) -> Extent:
        """Return once all that was appended survives a power cut; gives how far that is."""
        return (self._log or self._usable_log()).sync()

    # to end ------------------------------------------------------------------------------------

    def fence(self, epoch: int) -> Answer:
        """Promise durably to let no smaller epoch in, and say what there is, synced."""
        with self._lock:
            self._promised(epoch)
            if epoch != self._state.epoch:
                self._put(self._state._replace(epoch=epoch))
            if self._log is not None:
                self._log.note()
                extent = self._log.extent
            elif (end := self._state.sealed) is not None:
                extent = Extent(end.length, end.last_seq, end.start, end.end)
            else:
                raise without_log(self.name, self._rules.node)
            self.readers.wake()
            is_rebooted = self._state.boot != self._rules.boot
            return Answer(self._rules.node, *extent, is_rebooted=is_rebooted)

    def cut(self, sealed: Sealed) -> None:
        """Cut it to where the record says that the block ends; nothing comes behind that.

        Raises InputError if it is shorter, or was cut elsewhere: then it is no copy of this block.
        """
        ends = replace(sealed, keep=())
        with self._lock:
            if self._state.sealed is not None:
                if self._state.sealed != ends:
                    raise InputError(f"{said(self.name)} ends elsewhere: {self._state.sealed}")
                return
            log = self._usable_log()
            found = log.extent_at(sealed.length)
            if found != (sealed.length, sealed.last_seq, sealed.start, sealed.end):
                raise InputError(f"{said(self.name)} is another one up to there: {found}")
            self._put(self._state._replace(sealed=ends))
            log.cut(sealed.length, sealed.last_seq)
            self.readers.wake()

    def finish(self) -> Finished:
        """Make the segment; gives the one that is there. The log stays until ``settle``."""
        with self._finishing:
            with self._lock:
                state = self._state
                if state.finished is not None:
                    return state.finished
                if state.sealed is None:
                    raise InputError(f"{said(self.name)} is not cut yet")
            finished = make_segment(self._disk, state, self._rules.entry_bytes_max)
            with self._lock:
                self._put(self._state._replace(finished=finished))
            return finished

    def settle(self, finished: Finished) -> None:
        """Let go of the log; raises InputError unless this is the segment that is here."""
        with self._finishing, self._lock:
            if self._state.finished != finished:
                raise InputError(
                    f"{said(self.name)} has another segment here, or none: "
                    f"{self._state.finished!r:.200}",
                    hint="fetch the finished one first",
                )
            if self._state.is_settled:
                return
            self._put(self._state._replace(is_settled=True))
            self._drop_log()

    def _drop_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        remove(self._disk, file_of(self.name, LOG))
        self.readers.wake()

    def fetched(self, finished: Finished, put_file: Callable[[], None]) -> bool:
        """Take over a segment that was copied here, in the place of what was made here.

        ``put_file`` gives it its name. False, and nothing is done: this copy was dropped meanwhile.
        """
        with self._finishing, self._lock:
            if self._is_dropped:
                return False
            put_file()
            self._condemned = 0
            settled = self._log is None or self._state.sealed is None
            self._put(self._state._replace(finished=finished, is_settled=settled))
            if settled:  # What was not cut may be other entries than those of the segment.
                self._drop_log()
            return True

    # to read -----------------------------------------------------------------------------------

    def read(self, offset: int, *, live: bool, wait_seconds: float) -> Iterator[memoryview]:
        """Read what is visible from an offset on, as ``Peer.read`` says."""
        while True:
            seen, is_cut = self.visible(offset, wait_seconds=wait_seconds if live else 0.0)
            log = self._usable_log()
            if seen.length < offset and is_cut:
                raise InputError(f"{said(self.name)} ends at {seen.length:,}, before {offset:,}")
            if offset < seen.length:
                for piece in log.read(offset, seen.length):
                    offset += len(piece)
                    yield piece
            elif live and not is_cut:
                yield memoryview(b"")
            if is_cut or not live:
                return

    def visible(
        self, beyond: int, *, wait_seconds: float = 0.0, listens: bool = False
    ) -> tuple[Extent, bool]:
        """Say how far readers may read, and whether it ends there; waits for more than that."""
        return self.readers.wait(self._visible, beyond, seconds=wait_seconds, listens=listens)

    def _visible(self) -> tuple[Extent, bool]:
        state = self._state
        if (end := state.sealed) is not None:
            return Extent(end.length, end.last_seq, end.start, end.end), True
        if self._log is None:
            raise without_log(self.name, self._rules.node)
        tail = state.chain[-1] if state.chain else ""
        if tail != self._rules.node:
            hint = f"its tail is {tail or 'nobody'}"
            raise InputError(f"{said(self.name)} is open, and not read here", hint=hint)
        return self.readers.shown, False

    def found_unsure(self) -> Extent | None:
        """Give all that was found at a start, if no stream came since that shows its last entry."""
        found = self._log.synced if self._log is not None else Extent()
        is_over = self._stream or self.is_cut or found.length <= self.readers.shown.length
        return None if is_over else found

    def segment(self) -> Iterator[bytes]:
        """Read the segment, a piece at a time; MissingError if there is none."""
        if (finished := self.holding.finished) is None:
            raise MissingError(f"{said(self.name)} is not finished here", path=self._rules.node)
        return read_file(self._disk, file_of(self.name, SEGMENT), finished.size)

    # its files ---------------------------------------------------------------------------------

    def condemn(self) -> int:
        """Give what it can be dropped with as long as nobody wants it again."""
        with self._lock:
            self._condemned = secrets.randbits(62) + 1
            return self._condemned

    def is_wanted(self, finished: Finished) -> bool:
        """Whether this is its segment; if so, who condemned it before drops it no more."""
        with self._lock:
            if self._is_dropped or self._state.finished != finished:
                return False
            self._condemned = 0
            return True

    def drop(self, condemned: int = 0) -> None:
        """Delete its files, the one without which the others mean nothing first."""
        with self._finishing, self._lock:
            self._give_up(condemned)
            remove(self._disk, file_of(self.name, STATE))
            self._disk.sync_dir(self.name.partition)
            self._remove_data()

    def shed(self, condemned: int = 0) -> None:
        """Delete all but its state, which is damaged then and lets nothing in: the disk is full."""
        with self._finishing, self._lock:
            self._give_up(condemned)
            self._remove_data()

    def lose_segment(self, finished: Finished) -> bool:
        """Do without a segment that is rotten; False: there was no log to make it of again.

        Then the copy is set aside, durably. Nothing is done if it has another segment by now.
        """
        with self._finishing, self._lock:
            if self._is_dropped or self._state.finished != finished:
                return True
            if self._log is None:
                self._set_aside(SEGMENT)
                return False
            self._put(self._state._replace(finished=None))
            remove(self._disk, file_of(self.name, SEGMENT))
            return True

    def set_log_aside(self) -> None:
        """Let nothing in and nobody read; the log stays under another name, durably."""
        with self._finishing, self._lock:
            self._set_aside(LOG)

    def _set_aside(self, kind: str) -> None:
        self._give_up(0)
        self._disk.rename(file_of(self.name, kind), file_of(self.name, ASIDE))
        self._disk.sync_dir(self.name.partition)

    def _give_up(self, condemned: int) -> None:
        if condemned and condemned != self._condemned:
            raise FencedError(
                f"{said(self.name)} is wanted again: it is not dropped",
                hint="read the partition's record again",
            )
        self._is_dropped = True
        self._stream += 1
        if self._log is not None:
            self._log.close()
            self._log = None
        self._state = self._state._replace(chain=(), sealed=None, finished=None)
        self.readers.wake()

    def _remove_data(self) -> None:
        for kind in (LOG, SEGMENT, ASIDE):
            remove(self._disk, file_of(self.name, kind))

    def close(self) -> None:
        """Note how far it is synced, and let go of the file."""
        with self._lock:
            self._is_closed = True
            if self._log is not None:
                self._log.end()
                self._log = None

    def put_state(self) -> None:
        """Write its state for the first time, once its log has a durable name."""
        with self._lock:
            self._disk.sync_dir(self.name.partition)
            self._put(self._state)

    def cut_again(self) -> None:
        """Do what a crash may have kept ``cut`` from; raises InputError if it cannot be."""
        with self._lock:
            if (sealed := self._state.sealed) is not None and self._log is not None:
                self._log.cut(sealed.length, sealed.last_seq)

    def _put(self, state: CopyState) -> None:
        if self._is_dropped or self._is_closed:  # Whoever had it in hand would bring it back.
            raise not_here(self.name, self._rules.node, is_closed=self._is_closed)
        put(self._disk, file_of(self.name, STATE), encode_state(state))
        self._state = state

    def _promised(self, epoch: int) -> int:
        length = self._log.extent.length if self._log else 0
        return promise(Copy(self._state.epoch, length), epoch).epoch

    def _check_open(self, epoch: int) -> None:
        if self._state.sealed is not None:
            now, hint = self._state.epoch, "read the partition's record again"
            raise FencedError(f"{said(self.name)} was cut", epoch=epoch, current=now, hint=hint)
        if epoch < self._state.epoch:
            self._promised(epoch)

    def _usable_log(self) -> BlockLog:
        if (log := self._log) is None:
            raise without_log(self.name, self._rules.node)
        log.check_usable()
        return log
