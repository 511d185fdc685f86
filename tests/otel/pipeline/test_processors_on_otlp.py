"""Processors on what the adapter makes of real requests: changed, encoded, and read by others."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from quiver.otel.otlp import decode, encode
from quiver.otel.pipeline.processors import Attributes, Filter
from quiver.otel.pipeline.rules import Action, Condition, Rule
from quiver.otel.signals import Signal


def pairs(attributes) -> dict:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def put(attributes, **values) -> None:
    for key, value in values.items():
        kind = {str: "string_value", int: "int_value", bool: "bool_value"}[type(value)]
        setattr(attributes.add(key=key).value, kind, value)


EVERYWHERE = Attributes(
    [
        Action("upsert", "env", "prod", places=("resource", "scope", "item")),
        Action("rename", "old", new_key="new"),
        Action("delete", "gone"),
        Action("insert", "n", 5),
    ]
)


def test_logs() -> None:
    request = ExportLogsServiceRequest()
    for number in range(3):
        resource = request.resource_logs.add()
        if number:
            put(resource.resource.attributes, host=f"h{number}")
        records = resource.scope_logs.add().log_records
        for severity in (5, 13):
            record = records.add(severity_number=severity, time_unix_nano=1)
            record.body.string_value = f"{number} {severity}"
            if severity == 13:
                put(record.attributes, old="o", gone=True, n=number)
    (batch,) = decode(Signal.LOGS, request.SerializeToString())
    rule = Rule((Signal.LOGS,), severity_below=9)
    (left,) = [made for each in Filter([rule], keep=False)(batch) for made in EVERYWHERE(each)]
    found = ExportLogsServiceRequest.FromString(encode(left))
    seen = [
        (
            record.body.string_value,
            pairs(record.attributes),
            pairs(resource.resource.attributes),
            pairs(scope.scope.attributes),
        )
        for resource in found.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]
    assert seen == [
        (
            f"{number} 13",
            {"new": "o", "n": number, "env": "prod"},
            {"env": "prod"} | ({"host": f"h{number}"} if number else {}),
            {"env": "prod"},
        )
        for number in range(3)
    ]


def test_traces() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for name in ("keep", "drop"):
        span = spans.add(name=name, trace_id=b"t" * 16, span_id=b"s" * 8)
        event = span.events.add(name=f"event of {name}")
        put(event.attributes, of=name)
        put(span.links.add(trace_id=b"l" * 16).attributes, of=name)
    (batch,) = decode(Signal.TRACES, request.SerializeToString())
    (left,) = Filter([Rule(name="^drop$", is_name_pattern=True)], keep=False)(batch)
    (left,) = EVERYWHERE(left)
    found = ExportTraceServiceRequest.FromString(encode(left))
    (span,) = found.resource_spans[0].scope_spans[0].spans
    assert span.name == "keep"
    assert pairs(span.attributes) == {"env": "prod", "n": 5}
    assert [(each.name, pairs(each.attributes)) for each in span.events] == [
        ("event of keep", {"of": "keep"})
    ]
    assert [pairs(each.attributes) for each in span.links] == [{"of": "keep"}]


def test_metrics() -> None:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for name in ("cpu", "mem"):
        points = metrics.add(name=name).gauge.data_points
        for host in "ab":
            put(points.add(as_int=ord(host)).attributes, host=host)
    histogram = metrics.add(name="took").histogram.data_points.add(count=3)
    exemplar = histogram.exemplars.add(as_int=1)
    put(exemplar.filtered_attributes, of="took")
    (batch,) = decode(Signal.METRICS, request.SerializeToString())
    rule = Rule(conditions=(Condition("item", "host", "a"),))
    (left,) = [made for each in Filter([rule], keep=False)(batch) for made in EVERYWHERE(each)]
    found = ExportMetricsServiceRequest.FromString(encode(left))
    seen = found.resource_metrics[0].scope_metrics[0].metrics
    assert [each.name for each in seen] == ["cpu", "mem", "took"]
    for each in seen[:2]:
        (point,) = each.gauge.data_points
        assert (point.as_int, pairs(point.attributes)) == (
            ord("b"),
            {"host": "b", "env": "prod", "n": 5},
        )
    (point,) = seen[2].histogram.data_points
    assert pairs(point.attributes) == {"env": "prod", "n": 5}
    assert pairs(point.exemplars[0].filtered_attributes) == {"of": "took"}
