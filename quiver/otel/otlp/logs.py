"""Log records: one payload for them, one for their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.otlp.attributes import read_attributes
from quiver.otel.otlp.columns import Columns, fixed_ids, text_column, times, words
from quiver.otel.otlp.containers import Part
from quiver.otel.otlp.limits import ITEM_VALUE_DEPTH, Limits
from quiver.otel.otlp.senders import read_request
from quiver.otel.otlp.values import read_values
from quiver.otel.signals import Signal
from quiver.otel.wire import Level, Source, fixed32, fixed64, last_texts, read, span, varint

__all__ = ["read_logs"]

_TAGS = (
    fixed64(1),
    varint(2),
    span(3),
    span(5),
    span(6),
    varint(7),
    fixed32(8),
    span(9),
    span(10),
    fixed64(11),
    span(12),
)
_SEVERITY_MAX = 24
"""So far OpenTelemetry numbers them."""
_BODY_DEPTH = ITEM_VALUE_DEPTH - 1


def read_logs(source: Source, limits: Limits) -> Iterator[Batch]:
    """Give the batches of a request of log records."""
    for part in read_request(source, limits):
        level = read(source, part.items, _TAGS, count=part.items.size)
        payloads = {"logs": _root(source, part, level, limits=limits)}
        attributes = read_attributes(
            source, level.ranges(6), ids=pa.uint16(), limits=limits, depth=ITEM_VALUE_DEPTH
        )
        if attributes is not None:
            payloads["log_attrs"] = attributes
        yield Batch(Signal.LOGS, RecordBundle(part.payloads | payloads))


def _root(source: Source, part: Part, level: Level, *, limits: Limits) -> pa.RecordBatch:
    columns = Columns()
    columns.add("id", pa.array(np.arange(level.count, dtype=np.uint16)))
    for name, column in part.around:
        columns.add(name, column)
    columns.add("time_unix_nano", times(level.last(fixed64(1))), nullable=False)
    columns.add("observed_time_unix_nano", times(level.last(fixed64(11))), nullable=False)
    trace_id, odd_trace_id = fixed_ids(source, level.last_range(9), 16)
    span_id, odd_span_id = fixed_ids(source, level.last_range(10), 8)
    columns.add("trace_id", trace_id)
    columns.add("span_id", span_id)
    columns.add("severity_number", _severity(level))
    columns.add("severity_text", _text(source, level, 3))
    columns.add("body", _body(source, level, limits))
    columns.count("dropped_attributes_count", level.last(varint(7)))
    columns.count("flags", level.last(fixed32(8)))
    columns.add("event_name", _text(source, level, 12))
    for name, column in part.ours:
        columns.add(name, column)
    columns.add("quiver_trace_id", odd_trace_id)
    columns.add("quiver_span_id", odd_span_id)
    return columns.batch()


def _text(source: Source, level: Level, number: int) -> pa.Array[Any] | None:
    if span(number) not in level:
        return None
    return text_column(source, last_texts(source, level, number))


def _severity(level: Level) -> pa.Array[Any] | None:
    """Give the severities as a dictionary; one that is 0 was not told."""
    if varint(2) not in level:
        return None
    numbers = level.last(varint(2)).astype(np.uint32).view(np.int32)
    absent = numbers == 0
    if absent.all():
        return None
    if np.count_nonzero(numbers.view(np.uint32) > _SEVERITY_MAX):
        return words(pa.array(numbers, mask=absent), numbers.astype(np.int64), least=8, text=False)
    known = np.flatnonzero(np.bincount(numbers)[1:]) + 1
    keys = np.zeros(_SEVERITY_MAX + 1, np.uint8)
    keys[known] = np.arange(known.size)
    mask = absent if np.count_nonzero(absent) else None
    return pa.DictionaryArray.from_arrays(
        pa.array(keys[numbers], pa.uint8(), mask=mask), pa.array(known.astype(np.int32)), safe=False
    )


def _body(source: Source, level: Level, limits: Limits) -> pa.Array[Any] | None:
    if span(5) not in level:
        return None
    columns = Columns()
    room = limits.depth - _BODY_DEPTH
    values = read_values(source, level.ranges(5), count=level.count, room=room)
    values.add_to(columns)
    return columns.struct(~values.there)
