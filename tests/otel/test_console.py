"""Telemetry for people: a line for each item, in which nothing steers a terminal."""

from __future__ import annotations

import json

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from quiver.otel.batch import Batch, of_request
from quiver.otel.exporters import ConsoleExporter, joined
from quiver.otel.exporters.console import Style
from quiver.otel.nodes import Accepted, Delivered, Refused
from quiver.otel.signals import Signal

KINDS = {
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}


def to_json(signal: Signal, request: bytes) -> str:
    return MessageToJson(KINDS[signal].FromString(request), use_integers_for_enums=True)


def shown(*batches: Batch, style: Style = "line") -> tuple[str, list[object]]:
    lines: list[str] = []
    exporter = ConsoleExporter(lines.append, encode=joined, to_json=to_json, style=style)
    found = list(exporter.export([Delivered(batch, None) for batch in batches]))
    exporter.close()
    return "".join(lines), found


def logs() -> Batch:
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    records = resource.scope_logs.add().log_records
    first = records.add(time_unix_nano=1_700_000_000_000_000_001, severity_number=17)
    first.body.string_value = "two\nlines \x1b[2J\x9b"
    first.attributes.add(key="k").value.array_value.values.add().int_value = 7
    records.add(severity_text="odd")
    return of_request(Signal.LOGS, request.SerializeToString(), 2)


def test_logs_spans_and_metrics_become_lines() -> None:
    spans = ExportTraceServiceRequest()
    span = spans.resource_spans.add().scope_spans.add().spans.add(name="GET /")
    span.start_time_unix_nano, span.end_time_unix_nano = 10**18, 10**18 + 1_500_000
    span.status.code = 2
    metrics = ExportMetricsServiceRequest()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m", unit="By")
    metric.sum.data_points.add(as_int=5, time_unix_nano=10**18)
    text, found = shown(
        logs(),
        of_request(Signal.TRACES, spans.SerializeToString(), 1),
        of_request(Signal.METRICS, metrics.SerializeToString(), 1),
    )
    assert found == [Accepted()] * 3
    assert text.split("\n") == [
        '2023-11-14T22:13:20.000000001Z ERROR shop two\\nlines \\u001b[2J\\u009b {"k":["7"]}',
        "1970-01-01T00:00:00.000000000Z odd   shop null",
        "2001-09-09T01:46:40.000000000Z ERROR - GET / 0.001500s trace=",
        "2001-09-09T01:46:40.000000000Z sum - m 5 By (1 points)",
        "",
    ]


def test_json_is_one_object_of_otlp_for_each_batch() -> None:
    text, _ = shown(logs(), logs(), style="json")
    first, second, end = text.split("\n")
    assert first == second
    assert end == ""
    assert json.loads(first) == json.loads(to_json(Signal.LOGS, joined(logs())))


def test_what_cannot_be_shown_is_refused_alone() -> None:
    def fails(signal: Signal, request: bytes) -> str:
        if signal is Signal.LOGS:
            raise ValueError(request)
        return to_json(signal, request)

    lines: list[str] = []
    exporter = ConsoleExporter(lines.append, encode=joined, to_json=fails)
    other = of_request(Signal.TRACES, b"", 0)
    found = exporter.export([Delivered(logs(), None), Delivered(other, None)])
    assert found == [Refused("it cannot be shown: ValueError"), Accepted()]


@pytest.mark.parametrize("signal", list(Signal))
def test_a_batch_of_nothing_is_no_line(signal: Signal) -> None:
    assert shown(of_request(signal, b"", 0)) == ("", [Accepted()])
