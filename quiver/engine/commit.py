"""Group commit: how far the log is durable, who syncs it, and who is told.

::

    append ---.                                    .--> thread that waits        (follows)
    append ---+--> one leader: one fdatasync ------+--> wait(timeout)            (is told)
    append ---'    for all written by then         '--> await, on any event loop (is told)

Any thread that can wait as long as the disk takes leads: it syncs, unless somebody does already, in
which case it follows and looks again. Those who cannot (a timeout, an event loop) leave a waiter
here and let the store's worker lead.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from quiver.engine import nested
from quiver.engine.outgoing import Ticket
from quiver.errors import ClosedError, QuiverError, WaitTimeoutError
from quiver.units import SECOND

if TYPE_CHECKING:
    from quiver.engine.core import Core

__all__ = ["GroupCommit", "Ticket", "Waiter", "settling"]

_NO_SEGMENT = 1 << 64
"""More than any wal_seq: no segment ever holds it."""


class Waiter(Protocol):
    """One who is told, from any thread, and must return at once; a second time changes nothing."""

    @property
    def calls_others(self) -> bool:
        """Whether it runs what is not ours: no lock may be held then."""
        ...

    @property
    def ticket(self) -> Ticket:
        """The bundle that it is about."""
        ...

    def tell(self, error: Exception | None) -> None:
        """Say that the bundle is durable, or why nobody can say so."""
        ...


class GroupCommit:
    """The durable part of what was appended. Safe to use from all threads.

    Its lock is a last one: nothing is waited for and no other lock is taken while it is held. Only
    a leader waits for the disk, without it.
    """

    def __init__(self, core: Core) -> None:
        """Take over a core whose log is durable up to its end, as recovery leaves it."""
        self._core = core
        self._lock = threading.RLock()
        self._turn = threading.Condition(self._lock)
        self._followers = 0
        self._synced = core.log.end
        core.durable_seq = core.log.last_seq
        self._leading = False
        self._phase: Literal["open", "closing", "ended"] = "open"
        self._waiters: dict[Waiter, None] = {}
        self.later: Callable[[], None] = lambda: None
        """Has somebody settle who holds no lock; called with the core's."""

    def covers(self, ticket: Ticket) -> bool:
        """Whether a bundle survives a power cut: its entry is synced, or a segment holds it.

        Takes no lock. What it said once stays so, also after a failed sync and after the end.
        """
        if ticket.wal_seq <= self._core.covered_wal_seq:
            return ticket.refusal is None  # Another bundle may have got the number.
        place = ticket.place
        # A log file is synced before it is rotated away.
        return place is not None and (
            place <= self._synced or place.generation < self._core.log.end.generation
        )

    def sync(self, ticket: Ticket, *, limit_ns: int | None = None, as_closer: bool = False) -> None:
        """Return once the log is durable up to a ticket's place.

        ``limit_ns``, on the monotonic clock, bounds the waiting for others and no sync of our own;
        WaitTimeoutError says that it passed. Raises PoisonedError after a failed sync, whoever
        did it. While the store closes, only who closes it syncs, and the others wait for the end.
        """
        leading = False
        try:
            with self._lock:
                while not self.covers(ticket):
                    self.check(ticket)
                    if not self._leading and (as_closer or self._phase == "open"):
                        self._core.leading.add(threading.get_ident())
                        self._leading = leading = True
                        break
                    self._follow(limit_ns)
            if leading:
                self._lead()
                if not self.covers(ticket):  # The disk refused it while somebody else synced.
                    self.check(ticket)
        finally:
            # Also after an interrupt: the others must not wait for a leader that is gone.
            if leading:
                self._leading = False
                self._core.leading.discard(threading.get_ident())
                self.settle()

    def sync_all(self, *, as_closer: bool = False) -> None:
        """Return once everything appended so far is durable in the log."""
        self.sync(Ticket(_NO_SEGMENT, self._core.log.end), as_closer=as_closer)

    def _lead(self) -> None:
        core = self._core
        written = core.log.last_seq  # Before the end: what comes in between is not synced.
        end = core.log.end
        began_ns = core.clock.monotonic_ns()
        core.log.sync(end)
        self._synced = end
        core.durable_seq = max(core.durable_seq, written)
        core.metrics.observe("quiver.wal.sync", core.clock.monotonic_ns() - began_ns)

    def _follow(self, limit_ns: int | None) -> None:
        rest_ns = None
        if limit_ns is not None:
            rest_ns = limit_ns - self._core.clock.monotonic_ns()
            if rest_ns <= 0:
                raise WaitTimeoutError(
                    "the bundle is not durable yet", hint="it is taken: wait again"
                )
        self._followers += 1
        try:
            self._turn.wait(None if rest_ns is None else rest_ns / SECOND)
        finally:
            self._followers -= 1

    def add(self, waiter: Waiter) -> None:
        """Tell a waiter when its bundle is durable; at once, if that is known or hopeless."""
        with self._turn:
            error = self._refusal(waiter.ticket)
            if error is None and not self.covers(waiter.ticket):
                self._waiters[waiter] = None
                return
        waiter.tell(None if self.covers(waiter.ticket) else error)

    def discard(self, waiter: Waiter) -> None:
        """Tell this one nothing more; the sync that it waited for is not called off."""
        with self._turn:
            self._waiters.pop(waiter, None)

    def settle(self, error: Exception | None = None) -> None:
        """Tell everybody whose bundle is durable by now; with an error, the rest as well.

        Who has the core's lock tells those alone who return at once, and leaves others to whoever
        settles next, which ``later`` sees to.
        """
        with self._lock:
            if self._followers:  # To tell nobody takes longer than to look.
                self._turn.notify_all()
            if not self._waiters:
                return
            waiters = tuple(self._waiters)
        if nested.is_mine(self._core.lock):
            left = [waiter for waiter in waiters if waiter.calls_others]
            waiters = tuple(waiter for waiter in waiters if not waiter.calls_others)
            if left:
                self.later()
        for waiter in waiters:
            refusal = None
            if not self.covers(waiter.ticket):  # Most are, and to ask why not takes longer.
                refusal = error or self._refusal(waiter.ticket)
                if refusal is None:
                    continue
                if self.covers(waiter.ticket):  # It became so before there was a refusal.
                    refusal = None
            waiter.tell(refusal)
            # Not before: an interrupt here leaves the rest to the next one who settles.
            self.discard(waiter)

    @property
    def closing(self) -> bool:
        """Whether the store is being closed or was: then ``sync`` ends with what came of it."""
        return self._phase != "open"

    def close(self) -> None:
        """Let nobody lead from now on but the closer."""
        with self._turn:
            self._phase = "closing"

    def end(self) -> None:
        """Nothing becomes durable any more: tell all who still wait."""
        with self._turn:
            self._phase = "ended"
        self.settle()

    def check(self, ticket: Ticket) -> None:
        """Raise why this bundle will not be durable, if that is known."""
        self._core.outgoing.tell(ticket)
        self._core.check()
        if self._phase == "ended":
            raise ClosedError(
                "the store was closed before the bundle was known to be durable",
                hint="quiver.open(path) opens it again and brings back what the log has",
            )

    def _refusal(self, ticket: Ticket) -> QuiverError | None:
        try:
            self.check(ticket)
        except QuiverError as error:
            return error
        return None


def settling(commit: GroupCommit) -> Callable[[], None]:
    """Give what settles a commit and does not keep it: a dead store is to go at once."""
    settle = weakref.WeakMethod(commit.settle)

    def listener() -> None:
        if (act := settle()) is not None:
            act()

    return listener
