"""Batches of the signals whose tables are data: from requests, and to messages again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.otlp.containers_out import grouped, write_request
from quiver.otel.otlp.entries import Request
from quiver.otel.otlp.limits import Limits
from quiver.otel.otlp.metrics import METRICS
from quiver.otel.otlp.nested import Table
from quiver.otel.otlp.rows import Rows
from quiver.otel.otlp.senders import read_request
from quiver.otel.otlp.traces import SPANS
from quiver.otel.signals import Signal
from quiver.otel.wire import Source

__all__ = ["read_items", "write_items"]

_ROOTS: Final[Mapping[Signal, Table]] = {Signal.TRACES: SPANS, Signal.METRICS: METRICS}


def read_items(signal: Signal, source: Source, limits: Limits) -> Iterator[Batch]:
    """Give the batches of a request of spans or of metrics."""
    table = _ROOTS[signal]
    for part in read_request(source, limits):
        request = Request(source, limits, part.payloads)
        columns = table.read(request, part.items, part.around)
        for name, column in part.ours:
            columns.add(name, column)
        request.payloads[table.slot] = columns.batch()
        yield Batch(signal, RecordBundle(request.payloads))


def write_items(signal: Signal, bundle: RecordBundle) -> bytes:
    """Give the request that these payloads of spans or of metrics are."""
    table = _ROOTS[signal]
    groups = grouped(Rows.of(bundle[table.slot], table.slot))
    return write_request(groups, bundle, table.write(groups.rows, bundle))
