"""What the SDK of OpenTelemetry makes of a program's telemetry goes there and back."""

from __future__ import annotations

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from otlp_model import assert_same, count, parse, signal_of

from quiver.otel.otlp import decode, encode, from_json, to_json
from quiver.otel.signals import Signal

RESOURCE = Resource.create({"service.name": "shop", "replicas": 3, "zones": ["a", "b"]})


def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop.orders", "1.2", schema_url="https://example.org/s")
    with tracer.start_as_current_span("order", kind=SpanKind.SERVER) as order:
        order.set_attributes({"id": 7, "total": 9.5, "paid": True, "items": ["pen", "ink"]})
        links = [Link(order.get_span_context(), {"why": "retry"})]
        with tracer.start_as_current_span("store", links=links) as store:
            store.add_event("locked", {"seconds": 0.25})
            store.record_exception(ValueError("full"))
            store.set_status(Status(StatusCode.ERROR, "full"))
    provider.get_tracer("other").start_span("alone").end()
    return encode_spans(exporter.get_finished_spans())


def logs():
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("shop.log", "1.0")
    bodies = ["text", 5, 2.5, True, b"\x00\xff", ["a", 1, None], {"a": {"b": [1.5]}}, None]
    for number, body in enumerate(bodies, start=1):
        logger.emit(
            LogRecord(
                timestamp=1763900000000000000 + number,
                observed_timestamp=1763900000000000001 + number,
                severity_number=SeverityNumber(number),
                severity_text="INFO",
                body=body,
                attributes={"n": number, "deep": {"list": [number, "x"]}},
                event_name="made" if number % 2 else None,
            )
        )
    return encode_logs(exporter.get_finished_logs())


def metrics():
    reader = InMemoryMetricReader()
    view = View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider([reader], RESOURCE, views=[view])
    meter = provider.get_meter("shop.meter", "2", attributes={"scope": "yes"})
    meter.create_counter("orders", "1", "made").add(3, {"kind": "pen"})
    meter.create_up_down_counter("open").add(-2)
    meter.create_gauge("heat", "Cel").set(20.5, {"room": 1})
    for value in (0.0, 0.5, 3.0, 400.0):
        meter.create_histogram("time", "s").record(value, {"route": "/"})
        meter.create_histogram("size", "By").record(value)
    found = encode_metrics(reader.get_metrics_data())
    reader.shutdown()
    return found


@pytest.mark.parametrize("made, items", [(spans, 3), (logs, 8), (metrics, 5)])
def test_it_goes_there_and_back(made, items):
    request = made()
    assert count(request) == items
    signal, data = signal_of(request), request.SerializeToString()
    (batch,) = decode(signal, data)
    assert batch.items == items
    assert_same(parse(signal, encode(batch)), request)
    assert_same(parse(signal, from_json(signal, to_json(signal, data))), request)


def test_spans_have_what_the_program_said():
    (batch,) = decode(Signal.TRACES, spans().SerializeToString())
    rows = batch.bundle["spans"].to_pylist()
    store, order, alone = rows
    assert [row["name"] for row in rows] == ["store", "order", "alone"]
    assert store["parent_span_id"] == order["span_id"]
    assert store["status"] == {"code": 2, "status_message": "full"}
    assert store["scope"]["name"] == "shop.orders"
    assert alone["scope"]["name"] == "other"
    events = batch.bundle["span_events"].to_pylist()
    assert [(e["name"], e["parent_id"]) for e in events] == [("locked", 0), ("exception", 0)]
    (link,) = batch.bundle["span_links"].to_pylist()
    assert (link["trace_id"], link["parent_id"]) == (order["trace_id"], store["id"])
    of_order = {
        row["key"]: row for row in batch.bundle["span_attrs"].to_pylist() if row["parent_id"] == 1
    }
    assert of_order["id"]["int"] == 7
    assert of_order["total"]["double"] == 9.5
    assert of_order["paid"]["bool"] is True
    assert of_order["items"]["type"] == 6


def test_metrics_have_what_the_program_said():
    (batch,) = decode(Signal.METRICS, metrics().SerializeToString())
    rows = {row["name"]: row for row in batch.bundle["univariate_metrics"].to_pylist()}
    assert {name: row["metric_type"] for name, row in rows.items()} == {
        "orders": 2,
        "open": 2,
        "heat": 1,
        "time": 3,
        "size": 4,
    }
    assert (rows["orders"]["is_monotonic"], rows["open"]["is_monotonic"]) == (True, False)
    assert rows["heat"]["is_monotonic"] is None
    points = batch.bundle["number_data_points"].to_pylist()
    told = {row["parent_id"]: row["int_value"] or row["double_value"] for row in points}
    assert told == {rows["orders"]["id"]: 3, rows["open"]["id"]: -2, rows["heat"]["id"]: 20.5}
    (time,) = batch.bundle["histogram_data_points"].to_pylist()
    assert (time["count"], time["sum"], time["min"], time["max"]) == (4, 403.5, 0.0, 400.0)
    assert sum(time["bucket_counts"]) == 4
    (size,) = batch.bundle["exp_histogram_data_points"].to_pylist()
    assert size["zero_count"] == 1
    assert sum(size["positive"]["bucket_counts"]) == 3
