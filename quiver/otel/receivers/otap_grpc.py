"""OTAP over gRPC: streams of Arrow batches, each of which is answered when it is safe.

The batches of a stream are decoded one behind the other, for each goes on where the last one ended,
also if it is refused for want of room. Then several may be in work, and are answered in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from quiver.errors import CapacityError, InputError
from quiver.extras import needed
from quiver.otel.batch import Batch
from quiver.otel.otap import BrokenStreamError, StreamLimits, StreamReader
from quiver.otel.otap.format import BatchStatus, StatusCode, decode_records, encode_status
from quiver.otel.receivers.desk import Desk
from quiver.otel.receivers.grpc_door import refuse
from quiver.otel.receivers.refusal import Reason, Refusal, refusal_of
from quiver.otel.receivers.room import Ticket
from quiver.otel.signals import Signal

with needed("grpc", extra="otlp"):
    import grpc

__all__ = ["OTAP_METHODS", "OtapService"]

_PREFIX: Final = "/opentelemetry.proto.experimental.arrow.v1"
OTAP_METHODS: Final = {
    Signal.LOGS: f"{_PREFIX}.ArrowLogsService/ArrowLogs",
    Signal.TRACES: f"{_PREFIX}.ArrowTracesService/ArrowTraces",
    Signal.METRICS: f"{_PREFIX}.ArrowMetricsService/ArrowMetrics",
}
_SIGNALS: Final = {method: signal for signal, method in OTAP_METHODS.items()}

_Work: TypeAlias = Callable[[], tuple[int, Sequence[Batch]]]


class OtapService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Takes streams of all three signals to a desk.

    ``in_work`` bounds the batches of one stream whose answer has not gone out yet; while there are
    so many, no more of it is read. ``streams`` bounds how many are open at once.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        in_work: int = 256,
        streams: int = 32,
        limits: StreamLimits | None = None,
    ) -> None:
        size = 4 * desk.limits.message_size
        self._desk, self._streams = desk, streams
        self._in_work = min(in_work, desk.limits.requests)
        self._limits = limits or StreamLimits(decoded_bytes=size, dictionary_bytes=size)
        self._open = 0

    def service(self, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Give the handler of a call, or None if it is not one of the three."""
        signal = _SIGNALS.get(handler_call_details.method)
        if signal is None:
            return None
        return grpc.stream_stream_rpc_method_handler(partial(self._serve, signal))

    async def _serve(
        self,
        signal: Signal,
        requests: AsyncIterator[bytes],
        context: Any,  # noqa: ANN401
    ) -> AsyncIterator[bytes]:
        refusal = self._desk.turned_away()
        if refusal is None and self._open >= self._streams:
            refusal = Refusal(Reason.BUSY, "too many streams are open")
        if refusal is not None:
            await refuse(context, self._desk.refuse(refusal), self._desk)
        stream = _Stream(self._desk, signal, self._limits, room=self._in_work)
        self._open += 1
        reading = asyncio.create_task(stream.read(requests))
        try:
            while (answer := await stream.answers.get()) is not None:
                yield answer
                stream.room.release()
            await reading
            if stream.refusal is not None:
                await refuse(context, stream.refusal, self._desk)
        finally:
            reading.cancel()
            stream.forget()
            self._open -= 1


class _Stream:
    """One stream: what of it is decoded, what is in work, and the answers that go out."""

    def __init__(self, desk: Desk, signal: Signal, limits: StreamLimits, *, room: int) -> None:
        self.answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.room = asyncio.Semaphore(room)
        self._desk, self._signal = desk, signal
        self._reader = StreamReader(signal, limits)
        self.refusal: Refusal | None = None
        self._is_broken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept, self._kept_bytes = desk.ticket(), 0

    async def read(self, requests: AsyncIterator[bytes]) -> None:
        """Work on batches until the sender, or we, end the stream, and all are answered."""
        incoming, closing = aiter(requests), asyncio.create_task(self._desk.closing.wait())
        try:
            while not self._is_broken and self.refusal is None:
                await self.room.acquire()
                coming = asyncio.ensure_future(anext(incoming, None))
                await asyncio.wait({coming, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    break
                request = coming.result()
                if request is None:
                    break
                await self._work_on(request)
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            closing.cancel()
            self.answers.put_nowait(None)

    async def _work_on(self, request: bytes) -> None:
        """Decode a batch, and begin to have it taken; its ticket is left however this ends."""
        ticket = self._desk.ticket()
        is_handed_over = False
        try:
            has_room = ticket.claim(len(request))
            batch_id, batch = await asyncio.to_thread(self._decoded, request)
            size = 0 if isinstance(batch, Exception) else _size(batch)
            if not self._keep():
                self._is_broken = True
                batch = CapacityError("there is no room for what the stream has to keep")
            elif not has_room or not ticket.claim(size):
                batch = CapacityError("too many batches are in work")
            task = asyncio.create_task(self._have_taken(batch_id, ticket, _given(request, batch)))
            is_handed_over = True
        except InputError as error:
            # It has no number that could be answered.
            self.refusal = self._desk.refuse(refusal_of(error))
            return
        finally:
            if not is_handed_over:
                ticket.leave()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _keep(self) -> bool:
        """Claim room for the dictionaries that the next batch may go on with."""
        more = self._reader.kept_bytes - self._kept_bytes
        if more > 0 and not self._kept.claim(more):
            return False
        if more < 0:
            self._kept.give_back(-more)
        self._kept_bytes += more
        return True

    def forget(self) -> None:
        """Give back the room of what is kept, at the end."""
        self._kept.leave()

    def _decoded(self, request: bytes) -> tuple[int, Batch | Exception]:
        """Decode a batch, or give the error; runs in a thread, one for this stream at a time."""
        records = decode_records(request)
        try:
            return records.batch_id, self._reader.read(records)
        except BrokenStreamError as error:
            self._is_broken = True
            return records.batch_id, error
        except InputError as error:
            return records.batch_id, error
        except Exception as error:  # noqa: BLE001 - whoever sent it is told of any
            self._is_broken = True
            return records.batch_id, error

    async def _have_taken(self, batch_id: int, ticket: Ticket, work: _Work) -> None:
        answer = await self._desk.hand_over(self._signal, ticket, work)
        if isinstance(answer, Refusal):
            status = BatchStatus(batch_id, answer.code, answer.message)
        else:
            status = BatchStatus(batch_id, StatusCode.OK, answer.reason)
        self.answers.put_nowait(encode_status(status))


def _size(batch: Batch) -> int:
    return sum(int(each.nbytes) for each in batch.bundle.values())


def _given(request: bytes, batch: Batch | Exception) -> _Work:
    """Give what was decoded to whoever asks; or raise why it was not."""

    def work() -> tuple[int, Sequence[Batch]]:
        if isinstance(batch, Exception):
            raise batch
        return len(request), [batch]

    return work
