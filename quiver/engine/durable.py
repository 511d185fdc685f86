"""The side of a store that sees to durability: who waits for it, who syncs, who writes before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any

from quiver.engine.commit import GroupCommit, Ticket
from quiver.engine.core import Core
from quiver.engine.outgoing import write_waiting
from quiver.engine.waiters import CallWaiter, LoopWaiter, ThreadWaiter
from quiver.engine.worker import Worker
from quiver.errors import ClosedError, QuiverError
from quiver.segment import SegmentInfo
from quiver.units import parse_duration

__all__ = ["DurableDesk"]


class DurableDesk(ABC):
    """What receipts and the worker ask of a store."""

    _core: Core
    _commit: GroupCommit
    _worker: Worker | None

    @property
    @abstractmethod
    def inherited(self) -> bool:
        """Whether this is the copy of a store that a forked child has."""

    @abstractmethod
    def check_usable(self) -> None:
        """Raise unless the store is open, in this process, and knows the state of its disk."""

    @abstractmethod
    def finalize(self) -> SegmentInfo | None:
        """Turn the open segment into a durable file."""

    def is_durable(self, ticket: Ticket) -> bool:
        """Whether a bundle survives a power cut; never blocks."""
        return self._commit.covers(ticket)

    def wait_durable(self, ticket: Ticket, timeout: float | str | None) -> None:
        """Return once a bundle survives a power cut; ``Receipt.wait`` says the rest."""
        clock, worker = self._core.clock, self._worker
        limit_ns = None
        if timeout is not None:
            limit_ns = clock.monotonic_ns() + parse_duration(timeout, key="timeout")
        # In its own thread the worker would be waited for by itself.
        if limit_ns is None or worker is None or worker.ended or worker.is_current:
            self._make_durable(ticket, limit_ns)
        elif not self._is_settled(ticket):
            waiter = ThreadWaiter(ticket)
            self._commit.add(waiter)
            worker.hasten()
            try:
                waiter.wait(clock, limit_ns)
            finally:
                self._commit.discard(waiter)

    def call_durable(self, ticket: Ticket, act: Callable[[Exception | None], object]) -> None:
        """Have a function called once a bundle is durable; ``Receipt.call`` says the rest."""
        worker, waiter = self._worker, CallWaiter(ticket, act, self._core.events)
        if worker is None or worker.ended or self._commit.covers(ticket):
            try:
                self._make_durable(ticket)
            except QuiverError as error:
                waiter.tell(error)
            else:
                waiter.tell(None)
            return
        self._commit.add(waiter)

    def hasten(self) -> None:
        """Have what was appended made durable now, by the store's worker; waits for nothing."""
        if self._worker is not None:
            self._worker.hasten()

    def await_durable(self, ticket: Ticket) -> Generator[Any, None, None]:
        """Do the same for a task on an event loop; ``Receipt.__await__`` says the rest."""
        import asyncio  # Whoever gets here has it already.

        if self._is_settled(ticket):
            return
        waiter = LoopWaiter(ticket, asyncio.get_running_loop())
        self._commit.add(waiter)
        if self._worker is not None:
            self._worker.hasten()
        try:
            yield from waiter.future
        finally:
            self._commit.discard(waiter)

    def _is_settled(self, ticket: Ticket) -> bool:
        """Whether there is nothing to wait for; raises if there is no use in waiting."""
        if self._commit.covers(ticket):
            return True
        if ticket.refusal is not None:
            self._commit.check(ticket)
        # A close that has begun may still make the bundle durable: its end is waited for.
        if self.inherited or not self._commit.closing:
            self.check_usable()
        return False

    def _make_durable(self, ticket: Ticket, limit_ns: int | None = None) -> None:
        if self._is_settled(ticket):
            return
        if not self._commit.closing:
            try:
                if self._core.config.wal.durability == "segment":
                    self.finalize()
                    return
                write_waiting(self._core)
            except ClosedError:
                if not self._commit.closing:
                    raise
        self._commit.sync(ticket, limit_ns=limit_ns)  # Whoever closes it tells what came of it.

    def write_for_waiters(self) -> None:
        """Write what waits, and tell everybody whom that fails; the worker calls it."""
        try:
            write_waiting(self._core)
        except Exception as error:  # noqa: BLE001 It goes to those who wait for this.
            self.abandon_waiters(error)

    def flush_for_waiters(self) -> None:
        """Flush, and tell everybody who waits what came of it; the worker calls it."""
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001 It goes to those who wait for this.
            self.abandon_waiters(error)

    def abandon_waiters(self, error: Exception) -> None:
        """Tell all whose bundles are not durable why; they may ask again."""
        self._commit.settle(error)

    def flush(self) -> None:
        """Return once every bundle appended so far survives a power cut.

        With ``wal.durability`` ``segment`` there is no log, so this finalizes. Raises, once, what
        the disk said if it had no room for a bundle whose receipt nobody asked.
        """
        self._flush()
        self._core.outgoing.tell_rest()

    def _flush(self) -> None:
        self.check_usable()
        if self._core.config.wal.durability == "segment":
            self.finalize()
        else:
            write_waiting(self._core)
            self._commit.sync_all()
