"""The classes that the library of OTLP has for requests; imported when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quiver.errors import ConfigError
from quiver.otel.signals import Signal

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["request_class"]


def request_class(signal: Signal) -> type[Message]:
    """Give the class of export requests; raises ConfigError if the extra is not installed."""
    try:
        if signal is Signal.LOGS:
            from opentelemetry.proto.collector.logs.v1 import logs_service_pb2

            return logs_service_pb2.ExportLogsServiceRequest
        if signal is Signal.TRACES:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

            return trace_service_pb2.ExportTraceServiceRequest
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

        return metrics_service_pb2.ExportMetricsServiceRequest
    except ImportError as error:
        raise ConfigError(
            "OTLP as JSON needs the package opentelemetry-proto",
            hint="pip install 'quiver-store[otlp]'",
        ) from error
