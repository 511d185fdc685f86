"""OTAP over gRPC: one stream for each signal, opened when there is something to send.

A stream that ends, or on which an answer does not come in time, is opened anew; what was not
answered on it is sent again. What comes on a stream depends on what came before, so a refusal may
be about that: a batch is refused for ever only if it was the first on its stream. Any that is sent
again has a stream of its own, and only then the end of a stream says something of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from quiver.errors import InputError
from quiver.extras import needed
from quiver.otel.batch import Batch
from quiver.otel.exporters.answers import plain
from quiver.otel.exporters.endpoint import OtlpOptions
from quiver.otel.exporters.otap_stream import Ended, OtapStream
from quiver.otel.exporters.otlp_grpc import connect
from quiver.otel.nodes import Accepted, Delivered, Gather, Outcome, Refused, Retry
from quiver.otel.otap import PayloadCompression, StreamWriter
from quiver.otel.otap.format import BatchStatus, StatusCode
from quiver.otel.signals import Signal
from quiver.units import SECOND

__all__ = ["OtapGrpcExporter"]

_PREFIX: Final = "/opentelemetry.proto.experimental.arrow.v1"
_METHODS: Final = {
    Signal.LOGS: f"{_PREFIX}.ArrowLogsService/ArrowLogs",
    Signal.TRACES: f"{_PREFIX}.ArrowTracesService/ArrowTraces",
    Signal.METRICS: f"{_PREFIX}.ArrowMetricsService/ArrowMetrics",
}
_REFUSING: Final = frozenset((StatusCode.INVALID_ARGUMENT, StatusCode.INTERNAL))
"""Of all codes these are about the batch; others are about time, room, us or an address."""
_TOO_LONG: Final = "essage larger than max"
"""How the library says that it took no message of that size."""


class OtapGrpcExporter:
    """Sends to one endpoint; for one thread."""

    def __init__(
        self,
        options: OtlpOptions,
        decoded: Callable[[Batch], Sequence[Batch]],
        *,
        compression: PayloadCompression = "none",
    ) -> None:
        """Connect when there is something to send; ``decoded`` makes Arrow of any batch."""
        with needed("grpc", extra="otlp"):
            import grpc
        self._options, self._decoded, self._compression = options, decoded, compression
        self._channel = connect(options)
        gzip, none = grpc.Compression.Gzip, grpc.Compression.NoCompression
        self._call: dict[str, Any] = {
            "metadata": tuple(options.all_headers.items()),
            "compression": gzip if options.compression == "gzip" else none,
        }
        self._streams: dict[Signal, OtapStream] = {}

    @property
    def gather(self) -> Gather:
        """As much as may be under way at once, without waiting for it."""
        return Gather(batches=self._options.in_flight)

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        """Send all, so many at once as the options say, and wait for each answer."""
        outcomes: list[Outcome] = []
        for part in self._parts(delivered):
            waits = [self._send(each) for each in part]
            outcomes += [wait() for wait in waits]
        return outcomes

    def _parts(self, delivered: Sequence[Delivered]) -> Iterator[Sequence[Delivered]]:
        """Take so many as may be under way at once; what is sent again is alone."""
        part: list[Delivered] = []
        for each in delivered:
            if part and (_is_again(each) or len(part) == self._options.in_flight):
                yield part
                part = []
            part.append(each)
            if _is_again(each):
                yield part
                part = []
        if part:
            yield part

    def _send(self, each: Delivered) -> Callable[[], Outcome]:
        """Send a batch, and give what waits for its outcome."""
        try:
            arrow = self._decoded(each.batch)
        except InputError as error:
            refused = Refused(f"it cannot be made Arrow: {error}")
            return lambda: refused
        if _is_again(each):
            found = [(batch, self._send_one(batch, is_alone=True)()) for batch in arrow]
            return lambda: _together(found)
        waits = [(batch, self._send_one(batch, is_alone=False)) for batch in arrow]
        return lambda: _together([(batch, wait()) for batch, wait in waits])

    def _send_one(self, batch: Batch, *, is_alone: bool) -> Callable[[], Outcome]:
        stream = self._stream(batch.signal, is_alone=is_alone)
        try:
            number = stream.send(batch)
        except InputError as error:
            refused = Refused(f"it cannot be sent as OTAP: {error}")
            return lambda: refused
        return partial(self._outcome, stream, number, is_first=stream.sent == 1, is_alone=is_alone)

    def _stream(self, signal: Signal, *, is_alone: bool) -> OtapStream:
        stream = self._streams.get(signal)
        if stream is not None and (is_alone or stream.is_spent):
            self._streams.pop(signal).end()
            stream = None
        if stream is None:
            call = self._channel.stream_stream(_METHODS[signal], _same, _same)
            writer = StreamWriter(signal, self._compression)
            stream = self._streams[signal] = OtapStream(writer, partial(call, **self._call))
        return stream

    def _outcome(
        self, stream: OtapStream, number: int, *, is_first: bool, is_alone: bool
    ) -> Outcome:
        answer = stream.answer(number, self._options.timeout / SECOND)
        if answer is None:
            stream.end()
            return Retry("no answer in time")
        clean = partial(self._options.clean, headers=dict(self._call["metadata"]))
        if isinstance(answer, Ended):
            return _of_end(answer, plain(clean(answer.details)), is_alone=is_alone)
        outcome = _of_status(answer, plain(clean(answer.message)))
        if isinstance(outcome, Refused) and not is_first:
            stream.end()
            return Retry(outcome.reason)
        return outcome

    def close(self) -> None:
        """Let go of the streams and the connection."""
        while self._streams:
            self._streams.popitem()[1].end()
        self._channel.close()

    def __repr__(self) -> str:
        """Say where it sends to."""
        return f"<OTAP over gRPC to {self._options.endpoint.shown}>"


def _same(data: bytes) -> bytes:
    return data


def _is_again(each: Delivered) -> bool:
    return each.attempt > 1


def _of_end(end: Ended, said: str, *, is_alone: bool) -> Outcome:
    reason = f"{end.code}: {said}" if said else end.code
    is_about_it = end.code == "INVALID_ARGUMENT" or _TOO_LONG in end.details
    return Refused(reason) if is_alone and is_about_it else Retry(reason)


def _of_status(status: BatchStatus, said: str) -> Outcome:
    if status.code == StatusCode.OK:
        return Accepted(reason=said)
    known = status.code in {int(each) for each in StatusCode}
    name = StatusCode(status.code).name if known else f"status {status.code}"
    reason = f"{name}: {said}" if said else name
    return Refused(reason) if status.code in _REFUSING else Retry(reason)


def _together(found: Sequence[tuple[Batch, Outcome]]) -> Outcome:
    """Say what became of a batch that was sent in parts."""
    for _, outcome in found:
        if isinstance(outcome, Retry):
            return outcome
    refused = [(batch, outcome) for batch, outcome in found if isinstance(outcome, Refused)]
    if not refused:
        return next((outcome for _, outcome in found if outcome.reason), Accepted())
    if len(refused) == len(found):
        return refused[0][1]
    return Accepted(sum(batch.items for batch, _ in refused), refused[0][1].reason)
