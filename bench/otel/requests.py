"""Export requests as the SDK of OpenTelemetry encodes them, each with a number of its own."""

from __future__ import annotations

import functools
import random
import string
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

__all__ = ["BODY_BYTES", "Template", "log_request", "metric_request", "number_in", "span_request"]

BODY_BYTES: Final = 100
_MARK: Final = b"bench-"
_DIGITS: Final = 16
_NO_NUMBER: Final = _MARK + b"x" * _DIGITS
_BEGUN_NS: Final = 1_763_900_000_000_000_000
_WORDS: Final = ("took", "order", "from", "cart", "sent", "to", "store", "found", "none", "again")
_METHODS: Final = ("GET", "GET", "GET", "POST", "PUT", "DELETE")
_STATUSES: Final = (200, 200, 200, 200, 201, 204, 301, 404, 500, 503)


class Template:
    """One request, of which copies are made that differ in a number."""

    def __init__(self, request: bytes, items: int) -> None:
        self.items = items
        self.request = request
        head, mark, tail = request.partition(_NO_NUMBER)
        assert mark, "the SDK did not write the attribute with the number"
        self._head, self._tail = head + _MARK, tail

    def numbered(self, number: int) -> bytes:
        """Make a copy."""
        return b"".join((self._head, b"%016x" % number, self._tail))


def number_in(request: bytes) -> int:
    """Find the number of a copy, however it was encoded since."""
    at = request.index(_MARK) + len(_MARK)
    return int(request[at : at + _DIGITS], 16)


def _resource() -> Resource:
    return Resource.create(
        {
            "service.name": "shop",
            "service.instance.id": "shop-7f9c",
            "host.name": "node-12",
        }
    )


def _attributes(chance: random.Random, *, is_first: bool) -> dict[str, Any]:
    """Five, as a server of HTTP has them: some of few values, some of many.

    The first item of a request has its number: what is around the items is the same in each.
    """
    user = f"{chance.getrandbits(64):016x}"
    return {
        "http.request.method": chance.choice(_METHODS),
        "http.response.status_code": chance.choice(_STATUSES),
        "url.path": f"/orders/{chance.randrange(5000)}",
        "duration_ms": round(chance.expovariate(0.1), 3),
        "user.id": _NO_NUMBER.decode() if is_first else user,
    }


def _body(chance: random.Random) -> str:
    text = " ".join(chance.choices(_WORDS, k=14))
    tail = "".join(chance.choices(string.ascii_lowercase, k=BODY_BYTES))
    return f"{text} {tail}"[:BODY_BYTES]


@functools.cache
def log_request(records: int) -> Template:
    """Log records with five attributes, a body of 100 bytes, and the ids of a span."""
    chance = random.Random(records)
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=_resource())
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("shop.orders", "1.0")
    for number in range(records):
        logger.emit(
            LogRecord(
                timestamp=_BEGUN_NS + number * 1_000_003,
                observed_timestamp=_BEGUN_NS + number * 1_000_003 + 250_000,
                severity_number=SeverityNumber.INFO if number % 10 else SeverityNumber.ERROR,
                severity_text="INFO" if number % 10 else "ERROR",
                body=_body(chance),
                attributes=_attributes(chance, is_first=number == 0),
                trace_id=chance.getrandbits(128) or 1,
                span_id=chance.getrandbits(64) or 1,
            )
        )
    return Template(encode_logs(exporter.get_finished_logs()).SerializeToString(), records)


@functools.cache
def span_request(spans: int) -> Template:
    """Spans with five attributes and an event each."""
    chance = random.Random(spans)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=_resource())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop.orders", "1.0")
    for number in range(spans):
        with tracer.start_as_current_span("order", kind=SpanKind.SERVER) as span:
            span.set_attributes(_attributes(chance, is_first=number == 0))
            span.add_event("taken", {"from": "cart"})
    return Template(encode_spans(exporter.get_finished_spans()).SerializeToString(), spans)


@functools.cache
def metric_request(points: int) -> Template:
    """Points of a counter and a gauge, one for each set of five attributes; items are points."""
    chance = random.Random(points)
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], _resource(), shutdown_on_exit=False).get_meter("shop", "1.0")
    counter, gauge = meter.create_counter("orders", "1"), meter.create_gauge("load", "1")
    for number in range(points // 2):
        attributes = _attributes(chance, is_first=number == 0)
        counter.add(1, attributes)
        gauge.set(chance.random(), attributes if number else _attributes(chance, is_first=False))
    found = encode_metrics(reader.get_metrics_data())
    reader.shutdown()
    return Template(found.SerializeToString(), points)
