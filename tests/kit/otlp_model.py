"""What OTLP can carry: requests of any shape, and what "the same telemetry" means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from quiver.otel.signals import Signal

Request: TypeAlias = (
    logs_service_pb2.ExportLogsServiceRequest
    | trace_service_pb2.ExportTraceServiceRequest
    | metrics_service_pb2.ExportMetricsServiceRequest
)

ORDERED: Final = frozenset(
    {
        "opentelemetry.proto.common.v1.ArrayValue.values",
        "opentelemetry.proto.common.v1.KeyValueList.values",
        "opentelemetry.proto.metrics.v1.SummaryDataPoint.quantile_values",
    }
)
"""Lists of messages that say something by their order: a canonical form leaves them alone."""

OUTSIDE: Final = frozenset(
    {
        "opentelemetry.proto.common.v1.KeyValue.key_strindex",
        "opentelemetry.proto.common.v1.AnyValue.string_value_strindex",
    }
)
"""Fields of profiles, whose string table the requests of other signals do not have."""


@dataclass(frozen=True)
class Shape:
    """The names of one signal in OTLP, from the request down to its items."""

    request: type[Any]
    resources: str
    scopes: str
    items: str


SHAPES: Final[Mapping[Signal, Shape]] = {
    Signal.LOGS: Shape(
        logs_service_pb2.ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"
    ),
    Signal.TRACES: Shape(
        trace_service_pb2.ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"
    ),
    Signal.METRICS: Shape(
        metrics_service_pb2.ExportMetricsServiceRequest,
        "resource_metrics",
        "scope_metrics",
        "metrics",
    ),
}


def signal_of(request: Message) -> Signal:
    return next(signal for signal, each in SHAPES.items() if isinstance(request, each.request))


def parse(signal: Signal, data: bytes | memoryview) -> Any:
    """Read a request by the library of protobuf."""
    request = SHAPES[signal].request()
    request.ParseFromString(bytes(data))
    return request


def items(request: Message) -> Iterator[tuple[Message, Message, Message]]:
    """Give each item with the containers of its scope and of its resource, in order."""
    shape = SHAPES[signal_of(request)]
    for resource in getattr(request, shape.resources):
        for scope in getattr(resource, shape.scopes):
            for item in getattr(scope, shape.items):
                yield item, scope, resource


def count(request: Message) -> int:
    return sum(1 for _ in items(request))


def trimmed(request: Request) -> Any:
    """Give the request without what holds no item: all else, and all order, is kept.

    A Resource without a log record, span or metric below it, and a scope without one, say
    nothing: OTAP has no row for them. A metric without points is an item, and stays.
    """
    shape = SHAPES[signal_of(request)]
    kept = shape.request()
    for resource in getattr(request, shape.resources):
        full = [scope for scope in getattr(resource, shape.scopes) if getattr(scope, shape.items)]
        if full:
            copy = getattr(kept, shape.resources).add()
            copy.CopyFrom(resource)
            copy.ClearField(shape.scopes)
            getattr(copy, shape.scopes).extend(full)
    return kept


def canonical(*requests: Request) -> Any:
    """Give the one form of all requests that say the same, of one signal.

    Equal resources (with equal schema_url) are one, and so are equal scopes below it; what holds
    no item is gone; items, attributes, events, links, data points and exemplars stand in the
    order of their bytes. Nothing is dropped or merged that is an item or inside one, and what
    proto3 can tell apart (no body and an empty body, no value and an empty value) stays apart.
    """
    shape = SHAPES[signal_of(requests[0])]
    groups: dict[bytes, tuple[Message, dict[bytes, tuple[Message, list[Message]]]]] = {}
    for item, scope, resource in (each for request in requests for each in items(request)):
        top = _without(resource, shape.scopes)
        middle = _without(scope, shape.items)
        _, scopes = groups.setdefault(bytes_of(top), (top, {}))
        _, found = scopes.setdefault(bytes_of(middle), (middle, []))
        found.append(ordered(item))
    whole = shape.request()
    for _, (top, scopes) in sorted(groups.items()):
        container = getattr(whole, shape.resources).add()
        container.CopyFrom(top)
        for _, (middle, found) in sorted(scopes.items()):
            below = getattr(container, shape.scopes).add()
            below.CopyFrom(middle)
            getattr(below, shape.items).extend(sorted(found, key=bytes_of))
    return whole


def ordered(message: Any) -> Any:
    """Copy a message with each list whose order says nothing in the order of its bytes."""
    copy = type(message)()
    copy.CopyFrom(message)
    _put_in_order(copy)
    return copy


def bytes_of(message: Message) -> bytes:
    """Serialize: equal bytes are equal messages, NaN and -0.0 told apart to the bit."""
    return message.SerializeToString(deterministic=True)


def same(left: Message, right: Message) -> bool:
    """Whether two messages are equal to the bit; == of messages says that NaN is not NaN."""
    return bytes_of(left) == bytes_of(right)


def assert_same(found: Message, wanted: Message) -> None:
    """Compare to the bit, and show both as text if they differ."""
    assert type(found) is type(wanted)
    if not same(found, wanted):
        assert str(found) == str(wanted)
        assert bytes_of(found) == bytes_of(wanted), "they differ where text shows nothing"


def fields_set(message: Message) -> Iterator[str]:
    """Give the full name of each field that is set, here and below; may repeat."""
    for field, value in message.ListFields():
        yield field.full_name
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                yield from fields_set(each)


def all_fields(kind: Descriptor) -> frozenset[str]:
    """Give the full name of each field that a message may have, here and below."""
    found: set[str] = set()
    _gather(kind, found)
    return frozenset(found)


def map_messages(message: Message, change: Callable[[Message], None]) -> None:
    """Call with each message below, innermost first, then with the message itself."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            below: Iterable[Message] = value if field.is_repeated else [value]
            for each in below:
                map_messages(each, change)
    change(message)


def _gather(kind: Descriptor, found: set[str]) -> None:
    for field in kind.fields:
        if field.full_name not in found:
            found.add(field.full_name)
            if field.message_type is not None:
                _gather(field.message_type, found)


def _without(container: Any, below: str) -> Any:
    copy = type(container)()
    copy.CopyFrom(container)
    copy.ClearField(below)
    return ordered(copy)


def _put_in_order(message: Message) -> None:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        below = list(value) if field.is_repeated else [value]
        for each in below:
            _put_in_order(each)
        if field.is_repeated and field.full_name not in ORDERED:
            value.sort(key=bytes_of)
