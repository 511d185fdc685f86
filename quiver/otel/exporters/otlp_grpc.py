"""OTLP over gRPC: each batch is one Export call of raw bytes, several under way at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from quiver.extras import needed
from quiver.otel.batch import Batch
from quiver.otel.exporters.answers import accepted, of_grpc
from quiver.otel.exporters.endpoint import OtlpOptions
from quiver.otel.exporters.requests import request_of
from quiver.otel.nodes import Accepted, Delivered, Gather, Outcome, Refused, Retry
from quiver.otel.signals import Signal
from quiver.units import SECOND

if TYPE_CHECKING:
    import grpc

__all__ = ["METHODS", "OtlpGrpcExporter", "connect"]

METHODS: Final = {
    signal: f"/opentelemetry.proto.collector.{signal}.v1.{name}Service/Export"
    for signal, name in (
        (Signal.LOGS, "Logs"),
        (Signal.TRACES, "Trace"),
        (Signal.METRICS, "Metrics"),
    )
}
METHODS[Signal.TRACES] = METHODS[Signal.TRACES].replace(".traces.", ".trace.")
"""The path of each service; that of traces is called ``trace``."""

_STATUS: Final = "grpc-status-details-bin"
_DETAILS_MAX: Final = 64 << 10
_TOO_LONG: Final = "CLIENT: Received message larger than max"
"""How the library says that there was an answer of OK, and that it did not take it."""
_RECONNECT_MS: Final = (1_000, 5_000)
"""The library waits so long between two connections; by itself it would wait two minutes."""


class OtlpGrpcExporter:
    """Sends to one endpoint; for one thread."""

    def __init__(self, options: OtlpOptions, encode: Callable[[Batch], bytes]) -> None:
        """Connect when there is something to send; ``encode`` makes an export request."""
        with needed("grpc", extra="otlp"):
            import grpc
        self._options = options
        self._encode = encode
        self._headers = options.all_headers
        self._compression = (
            grpc.Compression.Gzip
            if options.compression == "gzip"
            else grpc.Compression.NoCompression
        )
        self._channel = connect(options)
        self._calls = {
            signal: self._channel.unary_unary(method, _same, _same)
            for signal, method in METHODS.items()
        }

    @property
    def gather(self) -> Gather:
        """As much as may be under way at once, without waiting for it."""
        return Gather(batches=self._options.in_flight)

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        """Send all, so many at once as the options say, and wait for each answer."""
        outcomes: list[Outcome] = []
        self._headers = self._options.all_headers
        width = self._options.in_flight
        for first in range(0, len(delivered), width):
            calls = [self._send(each.batch) for each in delivered[first : first + width]]
            outcomes += [self._outcome(call) for call in calls]
        return outcomes

    def _send(self, batch: Batch) -> Any:  # noqa: ANN401 A call, and a future of its answer.
        request = request_of(self._encode, batch)
        if isinstance(request, Refused):
            return request
        return self._calls[batch.signal].future(
            request,
            timeout=self._options.timeout / SECOND,
            metadata=tuple(self._headers.items()),
            compression=self._compression,
        )

    def _outcome(self, call: Any) -> Outcome:  # noqa: ANN401
        import grpc

        if isinstance(call, Refused):
            return call
        try:
            return accepted(call.result(), self._clean)
        except grpc.FutureCancelledError:
            return Retry("CANCELLED")
        except grpc.RpcError:
            status = None
            for key, value in call.trailing_metadata() or ():
                if key == _STATUS and isinstance(value, bytes) and len(value) <= _DETAILS_MAX:
                    status = value
            details = call.details() or ""
            if _TOO_LONG in details:
                return Accepted(reason="the answer was too long to be read")
            return of_grpc(call.code().name, self._clean(details), status)

    def _clean(self, text: str) -> str:
        return self._options.clean(text, self._headers)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def __repr__(self) -> str:
        """Say where it sends to."""
        return f"<OTLP over gRPC to {self._options.endpoint.shown}>"


def _same(data: bytes) -> bytes:
    return data


def connect(options: OtlpOptions) -> grpc.Channel:
    """Make a channel; it connects when there is something to send."""
    import grpc

    settings: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", options.answer_bytes),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS[0]),
        ("grpc.min_reconnect_backoff_ms", _RECONNECT_MS[0]),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS[1]),
    ]
    where, tls = options.endpoint, options.tls
    if not where.is_secure:
        return grpc.insecure_channel(where.authority, settings)
    if tls.server_name:
        settings.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(
        tls.read("ca_file"), tls.read("key_file"), tls.read("cert_file")
    )
    return grpc.secure_channel(where.authority, credentials, settings)
