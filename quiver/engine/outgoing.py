"""Entries that wait for the write: an append that is not waited for leaves its own here.

::

    append(wait=False) --> [ entry | entry | entry ] --> one write for many --> one sync for more
       core's lock              numbered, joined            the log's turn        commit

So encoding goes on while the disk works. Who writes takes the oldest first, and no lock but the
turn; who has to know that all is in the log, as whoever seals does, holds the core's lock and
settles. An entry that the disk refuses takes those behind it along: they leave the open segment
again, their receipts say so, and their numbers are free. Of whom nobody asked for the receipt the
next flush tells, or whatever else would say that all is there.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quiver.errors import CapacityError, PoisonedError, QuiverError
from quiver.payload import EncodedBundle, Octets
from quiver.timeline import TimesMark
from quiver.wal import Log, Place, entry_parts

if TYPE_CHECKING:
    from quiver.engine.core import Core
    from quiver.engine.worker import Worker

__all__ = ["Entry", "Outgoing", "Ticket", "have_written", "settle", "write_waiting"]

_HASTE_BYTES: Final = 4 << 20
"""So much is worth a write of its own: to wake who writes costs as much as an append does."""
_WAITING_BYTES: Final = 8 << 20
"""With more than that, whoever appends writes as well: the disk is slower than who encodes."""
_BATCH_BYTES: Final = 1 << 20
_PARTS_MAX: Final = 1000
_SMALL_BYTES: Final = 8 << 10
"""An entry of less is written faster in one piece."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One bundle that was taken: its number, and what is known of its entry in the log."""

    wal_seq: int
    place: Place | None = None
    """A place behind its entry, or behind one that was written with it; None if it is not there."""
    refusal: QuiverError | None = None
    """Why the disk did not take it; nothing of it is in the store then."""


class Entry:
    """One bundle on its way into the log."""

    __slots__ = ("_parts", "bundle", "byte_count", "ticket", "times")

    def __init__(self, bundle: EncodedBundle, byte_count: int, times: TimesMark) -> None:
        """Know what it will be; ``parts`` makes it. ``times`` were those before it."""
        self.bundle = bundle
        self.byte_count = byte_count
        self.ticket = Ticket(bundle.wal_seq)
        self.times = times
        self._parts: Sequence[Octets] | None = None

    def parts(self) -> Sequence[Octets]:
        """Give what is written; made once, by who took it, or else by who writes it."""
        parts = self._parts
        if parts is None:
            parts = entry_parts(self.bundle)
            if self.byte_count < _SMALL_BYTES:
                parts = [b"".join(parts)]
            self._parts = parts
        return parts


class Outgoing:
    """What waits, oldest first. Added to with the core's lock, taken away with the log's turn."""

    def __init__(self) -> None:
        """Take nothing before it is ``enabled``: somebody must be there who writes."""
        self.enabled = False
        self.has_refused = False
        """Whether the disk refused something, and nothing was written since."""
        self.failure: QuiverError | None = None
        self.end: Place | None = None
        """Behind what was written last, until the core knows."""
        self._entries: deque[Entry] = deque()
        self.added_bytes = self.gone_bytes = 0
        """Of all entries that ever came, and of those that wait no more."""
        self._telling = threading.Lock()
        self._untold: set[Ticket] = set()
        """Of what was refused, that of which nobody was told."""

    def __len__(self) -> int:
        """How many wait; what is being written does."""
        return len(self._entries)

    @property
    def byte_count(self) -> int:
        """Bytes of their entries: a little more than wait, while somebody writes."""
        return self.added_bytes - self.gone_bytes

    def takes(self, log: Log, byte_count: int) -> bool:
        """Whether one more may wait: it must have room, for whoever appends has to hear of that."""
        is_open = self.enabled and not self.has_refused
        return is_open and log.has_room(self.byte_count + byte_count)

    def add(self, entry: Entry) -> None:
        """Let one more wait."""
        self.added_bytes += entry.byte_count
        self._entries.append(entry)

    def write_some(self, core: Core, *, count_max: int = _PARTS_MAX) -> bool:
        """Write some of the oldest with one write; False if the disk refused, and nothing changed.

        Raises PoisonedError if nothing can be written any more.
        """
        log = core.log
        self.refuse_writer(log)
        core.check()
        with log.turn:
            batch = self._oldest(count_max)
            if not batch:
                return True
            with core.whole():
                try:
                    place = log.append_all(batch)
                except PoisonedError:
                    raise
                except QuiverError as error:
                    self.failure = copy.copy(error)
                    return False
                self.end = place
                self._let_go(len(batch), place)
        core.metrics.add("quiver.wal.appended_bytes", sum(size for _, size, _ in batch))
        return True

    def _oldest(self, count_max: int) -> list[tuple[int, int, Sequence[Octets]]]:
        entries = self._entries
        batch: list[tuple[int, int, Sequence[Octets]]] = []
        byte_count = part_count = 0
        for place in range(min(len(entries), count_max)):
            entry = entries[place]  # Others append meanwhile: to go through it would fail.
            parts = entry.parts()
            byte_count += entry.byte_count
            part_count += len(parts)
            if batch and (byte_count > _BATCH_BYTES or part_count > _PARTS_MAX):
                break
            batch.append((entry.bundle.wal_seq, entry.byte_count, parts))
        return batch

    def _let_go(self, count: int, place: Place | None) -> None:
        for _ in range(count):
            entry = self._entries.popleft()
            entry.ticket.place = place
            # Last: whoever counts on these bytes looks at the ticket next, without a lock.
            self.gone_bytes += entry.byte_count

    def refuse_writer(self, log: Log) -> None:
        """Raise CapacityError in a thread that is writing further up, before a signal came."""
        if is_writer(log):
            raise CapacityError(
                "this thread is in the middle of writing to the log",
                hint="this call comes out of that, as a signal handler's does: repeat it later",
            )

    @property
    def times(self) -> TimesMark:
        """How the times were before all that waits."""
        return self._entries[0].times

    def refuse(self) -> list[Ticket]:
        """Let all that wait go, with both locks held, and say whose they were."""
        self.has_refused = True
        tickets = [entry.ticket for entry in self._entries]
        for ticket in tickets:
            ticket.refusal = self.failure
        with self._telling:
            self._untold.update(tickets)
        # Last: from here on who waits for them takes them for written unless they say otherwise.
        self._let_go(len(tickets), None)
        return tickets

    def tell(self, ticket: Ticket) -> None:
        """Raise why this bundle was refused, if it was."""
        if ticket.refusal is not None:
            with self._telling:
                self._untold.discard(ticket)
            raise copy.copy(ticket.refusal) from ticket.refusal

    def tell_rest(self) -> None:
        """Raise why some were refused, if nobody was told so of one of them, and not again."""
        with self._telling:
            has_untold = bool(self._untold)
            self._untold.clear()
        if has_untold and self.failure is not None:
            raise copy.copy(self.failure) from self.failure

    def close(self, log: Log) -> None:
        """Take and write nothing more."""
        with log.turn:
            self.enabled = False
            self._let_go(len(self._entries), None)


def is_writer(log: Log) -> bool:
    """Whether this thread is writing what waits, further up."""
    return bool(log.turn._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001


def have_written(core: Core, worker: Worker) -> None:
    """Leave to the worker what waits, as long as it keeps pace with who appends, the caller."""
    waiting_bytes = core.outgoing.byte_count
    if waiting_bytes > _WAITING_BYTES or worker.ended:
        if not is_writer(core.log):
            write_waiting(core, left_bytes=0 if worker.ended else _WAITING_BYTES)
    elif waiting_bytes >= _HASTE_BYTES:
        worker.write_soon()


def write_waiting(core: Core, *, left_bytes: int = 0) -> None:
    """Write what waits by now, all or until so much is left; from any thread.

    What comes meanwhile is left to the next time: who ran after it would write a few entries at a
    time, and take the interpreter from whoever appends for each. What the disk refuses is told by
    receipts, and by ``tell_rest``. Raises PoisonedError.
    """
    outgoing = core.outgoing
    wanted = outgoing.added_bytes - left_bytes
    while outgoing.gone_bytes < wanted:
        if not outgoing.write_some(core):
            with core.events.telling(), core.lock:
                settle(core)
            return


def settle(core: Core) -> None:
    """See to it that all that was taken is in the log, or not in the store; with the lock held."""
    outgoing = core.outgoing
    if outgoing:
        while outgoing and outgoing.write_some(core):
            pass
        if outgoing and isinstance(outgoing.failure, CapacityError):
            core.log.drop_spares()  # What the disk gets back may be enough.
        while outgoing and outgoing.write_some(core, count_max=1):
            pass
        with core.log.turn, core.whole():
            if outgoing:  # Somebody may have written it, if the disk has room again.
                _refuse(core)
    if outgoing.end is not None:
        core.open_end, outgoing.end = outgoing.end, None


def _refuse(core: Core) -> None:
    """Take back what waits, as if it had never been taken; who appended hears it by the receipt.

    It is in the open segment, and last there: nothing is sealed before it is in the log.
    """
    outgoing = core.outgoing
    error = outgoing.failure
    core.times.back_to(outgoing.times)
    refused = outgoing.refuse()
    core.open_segment.take_back(len(refused))
    core.ahead = None
    core.next_wal_seq = refused[0].wal_seq
    core.early.take_back(core.next_wal_seq)
    core.had_no_room |= isinstance(error, CapacityError)
    core.metrics.add("quiver.wal.refused_bundles", len(refused))
    core.events.warning("wal.refused", bundle_count=len(refused), error=error)
    core.announce()
