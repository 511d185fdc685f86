"""The desk of a receiver: it works on requests, whatever protocol they came by.

A request is read into batches and handed to the intake in a thread of its own; its sender gets an
answer when that has returned. What is in work, and in memory, is bounded by a ``Room``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quiver.catalogue_otel import RECEIVER_CATALOGUE
from quiver.clock import Clock
from quiver.events import Events
from quiver.metrics import Metrics
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Intake
from quiver.otel.receivers.refusal import Reason, Refusal, refusal_of
from quiver.otel.receivers.room import Budget, Room, Ticket
from quiver.otel.receivers.settings import Limits
from quiver.otel.signals import Signal

__all__ = ["Answer", "Desk", "Door", "Reading"]

Answer: TypeAlias = Accepted | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the bytes of requests become batches; both raise InputError for what is malformed."""

    decode: Callable[[Signal, bytes], Sequence[Batch]]
    from_json: Callable[[Signal, bytes], bytes]


class Door(Protocol):
    """A server in front of a desk, of whatever protocol."""

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system picked."""

    async def open(self) -> None:
        """Listen; raises InputError if that is not possible there."""

    def begin_closing(self) -> None:
        """Refuse what comes from now on."""

    async def close(self, grace_seconds: float) -> None:
        """Listen no longer, answer what is in work, for at most so long, then close the desk."""


class Desk:
    """Works on the requests of one receiver. For one event loop, and the threads that it starts."""

    def __init__(
        self,
        intake: Intake,
        reading: Reading,
        *,
        limits: Limits,
        clock: Clock,
        node: str = "receiver",
        budget: Budget | None = None,
    ) -> None:
        limits.check()
        self.limits = limits
        self.metrics = Metrics(RECEIVER_CATALOGUE)
        self.events = Events(node=node)
        self._connections = 0
        self._intake, self._reading, self._clock = intake, reading, clock
        self._room = Room(limits.requests, limits.memory_bytes, budget)
        self._threads = ThreadPoolExecutor(limits.requests, thread_name_prefix=f"quiver-{node}")
        self._is_closing = False
        self.closing = asyncio.Event()

    def gauges(self) -> dict[str, float]:
        """Give what there is now, by name of the metric."""
        return {
            "quiver.receiver.connections": self._connections,
            "quiver.receiver.waiting_requests": self._room.working,
            "quiver.receiver.waiting_bytes": self._room.held_bytes,
        }

    def turned_away(self) -> Refusal | None:
        """Say why a request is refused that has not been read yet; None if it may come."""
        if self._is_closing:
            return Refusal(Reason.CLOSING, "the receiver is about to end")
        return self.busy() if self._room.is_full else None

    def busy(self) -> Refusal:
        """Say that too much is in work."""
        return Refusal(Reason.BUSY, "too many requests are in work")

    def ticket(self) -> Ticket:
        """Open a ticket for a request that is about to be read; it has to be left in the end."""
        return Ticket(self._room)

    def refuse(self, refusal: Refusal) -> Refusal:
        """Count a refusal."""
        self.metrics.add("quiver.receiver.refused_requests", label=refusal.reason)
        return refusal

    def connected(self, count: int) -> None:
        """Hear how many connections there are now."""
        self._connections = count

    def turned_off(self) -> None:
        """Count a connection that was closed at once."""
        self.metrics.add("quiver.receiver.refused_connections")

    def malformed(self) -> None:
        """Count what came on a connection and was no request at all."""
        self.refuse(Refusal(Reason.MALFORMED, "no HTTP"))

    async def work(self, signal: Signal, ticket: Ticket, unpacked: Callable[[], bytes]) -> Answer:
        """Have a request that came whole worked on; the ticket is left when that is over.

        ``unpacked`` gives its bytes as protobuf, in the thread that works on it.
        """

        def read() -> tuple[int, Sequence[Batch]]:
            request = unpacked()
            return len(request), self._reading.decode(signal, request)

        return await self.hand_over(signal, ticket, read)

    async def hand_over(
        self, signal: Signal, ticket: Ticket, read: Callable[[], tuple[int, Sequence[Batch]]]
    ) -> Answer:
        """Have batches taken; the ticket is left when that is over.

        ``read`` gives how many bytes they came in, and the batches, in the thread that works.
        """
        if self._is_closing or not ticket.begin():
            ticket.leave()
            return self.refuse(self.turned_away() or self.busy())

        def work() -> Answer:
            try:
                return self._work(signal, read)
            finally:
                ticket.leave()  # Here, for the request may be given up while its thread goes on.

        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._threads, work))

    def _work(self, signal: Signal, read: Callable[[], tuple[int, Sequence[Batch]]]) -> Answer:
        began_ns = self._clock.monotonic_ns()
        try:
            size, batches = read()
            done = self._intake.take(signal, batches) if batches else None
        except Exception as error:  # noqa: BLE001 - whoever sent it is told of any
            return self._failed(error)
        finally:
            spent_ns = self._clock.monotonic_ns() - began_ns
            self.metrics.observe("quiver.receiver.request", spent_ns)
        self._count(signal, size, batches, done=done or Accepted())
        return done or Accepted()

    def _count(
        self, signal: Signal, size: int, batches: Sequence[Batch], *, done: Accepted
    ) -> None:
        self.metrics.add("quiver.receiver.requests", label=signal)
        self.metrics.add("quiver.receiver.bytes", size, label=signal)
        items = sum(batch.items for batch in batches)
        self.metrics.add("quiver.receiver.items", items - done.rejected, label=signal)
        if done.rejected:
            self.metrics.add("quiver.receiver.rejected_items", done.rejected, label=signal)
        self.events.end("receiver.failed")
        self.events.end("receiver.unavailable")

    def _failed(self, error: Exception) -> Refusal:
        refusal = refusal_of(error)
        if refusal.reason is Reason.FAILED:
            self.events.begin("receiver.failed", error=error)
        elif refusal.reason is Reason.UNAVAILABLE:
            self.events.begin("receiver.unavailable", error=error)
        self.events.tell()
        return self.refuse(refusal)

    def from_json(self, signal: Signal, text: bytes) -> bytes:
        """Make protobuf of a request in JSON; raises InputError."""
        return self._reading.from_json(signal, text)

    def begin_closing(self) -> None:
        """Refuse what comes from now on; what is in work goes on."""
        self._is_closing = True
        self.closing.set()

    async def close(self) -> None:
        """Wait until nothing is in work any more: then nobody calls the intake."""
        self.begin_closing()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._threads.shutdown)
