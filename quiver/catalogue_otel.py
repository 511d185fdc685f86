"""The catalogue of telemetry: each metric of the nodes of a pipeline.

Each has the label ``node``, the name of its node in the pipeline.
"""

from __future__ import annotations

from typing import Final

from quiver.catalogue import Metric
from quiver.catalogue_exporters import EXPORTER_CATALOGUE

__all__ = ["PROCESSOR_CATALOGUE", "RECEIVER_CATALOGUE", "TELEMETRY_CATALOGUE"]

_SIGNALS: Final = ("logs", "traces", "metrics")
_REFUSED: Final = (
    *("busy", "closing", "failed", "full", "malformed", "not_found", "slow", "too_large"),
    *("unauthorized", "unavailable", "unsupported"),
)
_EXCHANGE: Final = (
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


def _of_signal(name: str, unit: str, text: str) -> Metric:
    return Metric(name, "counter", unit, text, "signal", _SIGNALS)


_RECEIVER: Final = (
    _of_signal("quiver.receiver.requests", "{request}", "Requests that were taken and are safe."),
    _of_signal("quiver.receiver.items", "{item}", "Log records, spans and metrics in them."),
    _of_signal("quiver.receiver.bytes", "By", "Bytes of them, after decompression."),
    _of_signal(
        "quiver.receiver.rejected_items",
        "{item}",
        "Items that were rejected for ever, of requests that were taken; their senders were told.",
    ),
    Metric(
        "quiver.receiver.refused_requests",
        "counter",
        "{request}",
        "Requests that were refused; nothing of them was stored.",
        "reason",
        _REFUSED,
    ),
    Metric(
        "quiver.receiver.refused_connections",
        "counter",
        "{connection}",
        "Connections closed at once: too many, or no TLS as it must be.",
    ),
    Metric("quiver.receiver.connections", "gauge", "{connection}", "Connections of HTTP."),
    Metric("quiver.receiver.waiting_requests", "gauge", "{request}", "Requests in work."),
    Metric("quiver.receiver.waiting_bytes", "gauge", "By", "Memory held for requests."),
    Metric(
        "quiver.receiver.request",
        "histogram",
        "s",
        "How long it took from a whole request to its answer.",
        bounds=_EXCHANGE,
    ),
)

RECEIVER_CATALOGUE: Final[tuple[Metric, ...]] = _RECEIVER
"""Every metric of a receiver."""

_PROCESSOR: Final = (
    Metric("quiver.processor.items", "counter", "{item}", "Items that came to a processor."),
    Metric("quiver.processor.dropped_items", "counter", "{item}", "Of them, those it took out."),
)

PROCESSOR_CATALOGUE: Final[tuple[Metric, ...]] = _PROCESSOR
"""Every metric of a processor."""

TELEMETRY_CATALOGUE: Final[tuple[Metric, ...]] = (
    *_RECEIVER,
    *_PROCESSOR,
    *EXPORTER_CATALOGUE,
)
"""Every metric of a pipeline of telemetry."""
