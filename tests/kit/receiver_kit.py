"""Receivers of telemetry on loopback, in front of an intake that a test looks into."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from quiver.clock import SystemClock
from quiver.errors import InputError
from quiver.otel.batch import Batch, of_request
from quiver.otel.nodes import Accepted
from quiver.otel.receivers import (
    Desk,
    Door,
    Limits,
    Reading,
    Servers,
    Settings,
    otlp_over_grpc,
    otlp_over_http,
)
from quiver.otel.signals import OTLP_SLOTS, Signal

__all__ = [
    "PATIENCE",
    "REQUESTS",
    "TOKEN",
    "Notebook",
    "Served",
    "empty_item",
    "items_of",
    "logs_request",
    "plain_reading",
    "request_of",
    "served",
]

PATIENCE: Final = 60.0
TOKEN: Final = "a-token-of-the-tests-alone"
REQUESTS: Final = {
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
_OUTER: Final = {
    Signal.LOGS: ("resource_logs", "scope_logs", "log_records"),
    Signal.TRACES: ("resource_spans", "scope_spans", "spans"),
    Signal.METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}


def items_of(signal: Signal, request: Message) -> list[Any]:
    """Give all records, spans or metrics of a request, in order."""
    resources, scopes, items = _OUTER[signal]
    return [
        item
        for resource in getattr(request, resources)
        for scope in getattr(resource, scopes)
        for item in getattr(scope, items)
    ]


def logs_request(*texts: str) -> bytes:
    """Write a request with one log record for each text."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for text in texts:
        scope.log_records.add().body.string_value = text
    return request.SerializeToString()


def empty_item(signal: Signal) -> bytes:
    """Write a request with one record, span or metric that says nothing."""
    request = REQUESTS[signal]()
    found: Any = request
    for name in _OUTER[signal]:
        found = getattr(found, name).add()
    return request.SerializeToString()


def request_of(batch: Batch) -> bytes:
    """Give the bytes of a batch that holds one request as it came."""
    (request,) = batch.bundle[OTLP_SLOTS[batch.signal]].column("request").to_pylist()
    return request


def _parsed(signal: Signal, request: bytes) -> Message:
    try:
        return REQUESTS[signal].FromString(request)
    except DecodeError as error:
        raise InputError("it is no protobuf of OTLP") from error


def _decode(signal: Signal, request: bytes) -> list[Batch]:
    count = len(items_of(signal, _parsed(signal, request)))
    return [of_request(signal, request, count)] if count else []


def _from_json(signal: Signal, text: bytes) -> bytes:
    try:
        parsed = json_format.Parse(text, REQUESTS[signal]())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("it is no JSON of OTLP") from error
    return parsed.SerializeToString()


plain_reading: Final = Reading(decode=_decode, from_json=_from_json)
"""Reads by the classes that protobuf makes, and keeps requests as they came."""


class Notebook:
    """An intake that notes what it is given; it may fail, and may be held up."""

    def __init__(self) -> None:
        self.taken: list[tuple[Signal, bytes]] = []
        self.error: Exception | None = None
        self.done: Accepted | None = None
        self.may_go = threading.Event()
        self.may_go.set()
        self.waiting = self.refusals = 0
        self.changed = threading.Condition()

    def take(self, signal: Signal, batches: Sequence[Batch]) -> Accepted | None:
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
        assert self.may_go.wait(PATIENCE)
        with self.changed:
            self.waiting -= 1
            if self.error is not None:
                self.refusals += 1
                self.changed.notify_all()
                raise self.error
        self.keep(batches)
        with self.changed:
            self.taken += [(signal, request_of(batch)) for batch in batches]
            self.changed.notify_all()
        return self.done

    def keep(self, batches: Sequence[Batch]) -> None:
        """Make them safe, before they are noted; called by several threads."""

    def await_waiting(self, count: int) -> None:
        """Wait until so many calls are inside."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.waiting >= count, PATIENCE)

    def await_refused(self, count: int) -> None:
        """Wait until so many calls have failed."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.refusals >= count, PATIENCE)

    def await_taken(self, count: int) -> None:
        """Wait until so many batches were taken."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, PATIENCE)

    def await_items(self, count: int) -> None:
        """Wait until batches of so many items were taken."""

        def taken() -> int:
            return sum(len(items_of(s, REQUESTS[s].FromString(each))) for s, each in self.taken)

        with self.changed:
            assert self.changed.wait_for(lambda: taken() >= count, PATIENCE)

    def texts(self) -> list[str]:
        """Give the bodies of all log records."""
        requests = (ExportLogsServiceRequest.FromString(each) for _, each in self.taken)
        return [item.body.string_value for each in requests for item in items_of(Signal.LOGS, each)]


class Served:
    """A receiver that listens."""

    def __init__(self, desk: Desk, door: Door, servers: Servers) -> None:
        self.desk, self.door, self.servers = desk, door, servers

    @property
    def address(self) -> str:
        return self.door.address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def refused(self) -> dict[str, int]:
        """How often requests were refused, by reason."""
        name = "quiver.receiver.refused_requests"
        counted = self.desk.metrics.read()
        return {str(label): n for (metric, label), n in counted.items() if metric == name}


@contextmanager
def served(
    protocol: str, intake: Any, *, reading: Reading = plain_reading, **options: Any
) -> Iterator[Served]:
    """Have a receiver of ``grpc`` or ``http``; options: limits, settings, ``budget``, ``clock``."""
    limits = Limits(**{k: options.pop(k) for k in Limits.__slots__ if k in options})
    options.setdefault("address", "127.0.0.1:0")
    budget, clock = options.pop("budget", None), options.pop("clock", None) or SystemClock()
    settings = Settings(limits=limits, **options)
    desk = Desk(intake, reading, limits=limits, clock=clock, budget=budget)
    door = (otlp_over_grpc if protocol == "grpc" else otlp_over_http)(desk, settings)
    with Servers() as servers:
        servers.open(door)
        yield Served(desk, door, servers)
