"""The desk of a receiver: it works on requests, whatever protocol they came by.

A request is read into batches and handed to the intake in a thread, with others if they are small
(``joining``); its sender gets an answer when that has returned. What is in work, and in memory, is
bounded by a ``Room``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from quiver.catalogue_otel import RECEIVER_CATALOGUE
from quiver.clock import Clock
from quiver.errors import CapacityError
from quiver.events import Events
from quiver.metrics import Metrics
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Intake, SwiftIntake
from quiver.otel.receivers.answering import Answer, Answers, Work
from quiver.otel.receivers.joining import JOINED_MAX, Joining, is_framed
from quiver.otel.receivers.refusal import Reason, Refusal, refusal_of
from quiver.otel.receivers.renewing import Watch
from quiver.otel.receivers.room import Budget, Room, Ticket
from quiver.otel.receivers.settings import Limits
from quiver.otel.signals import Signal

__all__ = ["Answer", "Desk", "Door", "Reading"]

_HERE_BYTES_MAX: Final = 512 << 10
"""A request of more is worked on by a thread: others are answered meanwhile."""
_ADMITTED_BYTES: Final = 4 << 20
_ROOM_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the bytes of requests become batches; both raise InputError for what is malformed."""

    decode: Callable[[Signal, bytes], Sequence[Batch]]
    from_json: Callable[[Signal, bytes], bytes]
    is_light: bool = False
    """Whether decoding is so quick that handing it to a thread takes as long."""
    joins: bool = False
    """Whether small requests that come together may become one batch."""


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
        self.watch = Watch(clock, self.events)
        self._connections = 0
        self._intake, self._reading, self._clock = intake, reading, clock
        self._room = Room(limits.requests, limits.memory_bytes, budget)
        self._threads = ThreadPoolExecutor(limits.requests, thread_name_prefix=f"quiver-{node}")
        self._is_closing = False
        self._swift = intake if isinstance(intake, SwiftIntake) else None
        self._joining: Joining | None = None
        if self._swift is not None and reading.joins:
            self._joining = Joining(
                self._swift, reading.decode, threads=self._threads, apart=self._work, end=self._end
            )
        self._is_hastened = False
        self._admitted_bytes = 0
        self._gate = asyncio.Lock()
        self._answers = Answers()
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

    async def work(
        self,
        signal: Signal,
        ticket: Ticket,
        unpacked: Callable[[], bytes],
        *,
        plain_bytes: int | None = None,
    ) -> Answer:
        """Have a request that came whole worked on; the ticket is left when that is over.

        ``unpacked`` gives its bytes as protobuf, in the thread that works on it; of so many
        ``plain_bytes`` if there is nothing to unpack.
        """

        def read() -> tuple[int, Sequence[Batch]]:
            request = unpacked()
            return len(request), self._reading.decode(signal, request)

        is_small = plain_bytes is not None and plain_bytes <= _HERE_BYTES_MAX
        plain = b""
        if self._joining is not None and plain_bytes is not None and plain_bytes <= JOINED_MAX:
            plain = unpacked()
        return await self.hand_over(
            signal, ticket, read, here=is_small and self._reading.is_light, plain=plain
        )

    async def hand_over(
        self,
        signal: Signal,
        ticket: Ticket,
        read: Callable[[], tuple[int, Sequence[Batch]]],
        *,
        here: bool = False,
        plain: bytes = b"",
    ) -> Answer:
        """Have batches taken; the ticket is left when that is over.

        ``read`` gives how many bytes they came in, and the batches, in the thread that works. That
        may be this one, ``here``, if nothing is waited for; a ``plain`` request may be read with
        others.
        """
        if self._is_closing or not ticket.begin():
            ticket.leave()
            return self.refuse(self.turned_away() or self.busy())

        began_ns = self._clock.monotonic_ns()
        work = Work(signal=signal, read=read, ticket=ticket, began_ns=began_ns, plain=plain)
        if self._swift is not None:
            await self._await_room(self._swift, ticket)
            if self.closing.is_set():  # Its threads may have ended meanwhile.
                ticket.leave()
                return self.refuse(self.turned_away() or self.busy())
        self._answers.expect()
        held = ticket.held
        self._admitted_bytes += held
        try:
            swift, joining = self._swift, self._joining
            if joining is not None and plain and is_framed(plain):
                joining.add(work)
            elif not (here and swift is not None and swift.is_ready and self._begin(work)):
                self._threads.submit(self._work, work)
            return await work.answer
        finally:
            self._admitted_bytes -= held

    async def _await_room(self, swift: SwiftIntake, ticket: Ticket) -> None:
        """Let those who take in be no faster than those who give away, as long as that helps."""
        if self._may_come(swift):
            return
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROOM_SECONDS), self._gate:
                    while not (self._may_come(swift) or self._is_closing):  # noqa: ASYNC110 Threads say.
                        await asyncio.sleep(_LOOK_SECONDS)
        except BaseException:
            ticket.leave()
            raise

    def _may_come(self, swift: SwiftIntake) -> bool:
        """Whether one more may be worked on; of large ones a few at a time, where time is short."""
        is_little = self._admitted_bytes < _ADMITTED_BYTES or not swift.gather_seconds
        return is_little and swift.has_room

    def _begin(self, work: Work) -> bool:
        """Read a request and have it taken on the event loop; False if there is no room for it."""
        try:
            work.size, work.batches = work.read()
            if len(work.batches) != 1 or self._swift is None:
                return False  # Half of it could be taken.
            self._swift.begin(work.batches, lambda error: self._end(work, error), wait=False)
            self._hasten(self._swift)
        except CapacityError as error:
            if work.turns:
                return False
            self._end(work, error)
        except Exception as error:  # noqa: BLE001 - whoever sent it is told of any
            self._end(work, error)
        return True

    def _hasten(self, swift: SwiftIntake) -> None:
        """Have what was begun made safe, once for all that comes within a moment."""
        if not self._is_hastened:
            self._is_hastened = True
            loop = asyncio.get_running_loop()
            loop.call_later(swift.gather_seconds, self._hasten_now, swift)

    def _hasten_now(self, swift: SwiftIntake) -> None:
        self._is_hastened = False
        swift.hasten()

    def _work(self, work: Work) -> None:
        """Read a request and have it taken, in a thread; who takes it may tell later."""
        try:
            if not work.batches:
                work.size, work.batches = work.read()
            if not work.batches:
                self._end(work, None)
            elif self._swift is not None:
                self._swift.begin(work.batches, lambda error: self._end(work, error))
                self._swift.hasten()
            else:
                work.done = self._intake.take(work.signal, work.batches) or work.done
                self._end(work, None)
        except Exception as error:  # noqa: BLE001 - whoever sent it is told of any
            self._end(work, error)

    def _end(self, work: Work, error: Exception | None) -> None:
        """Answer a request, from any thread; an error behind its answer is told, and no answer."""
        if not work.end():
            if error is not None:
                self.events.begin("receiver.failed", error=error)
                self.events.tell()
            return
        spent_ns = self._clock.monotonic_ns() - work.began_ns
        self.metrics.observe("quiver.receiver.request", spent_ns)
        if error is None:
            self._count(work.signal, work.size, work.batches, done=work.done)
        answer = work.done if error is None else self._failed(error)
        work.ticket.leave()  # Here, for the request may have been given up.
        self._answers.give(work.answer, answer)

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
        await self._answers.all_given()
