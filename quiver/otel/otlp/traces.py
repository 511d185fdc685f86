"""Spans, their events and links: tables of OTAP as data."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from quiver.otel.otlp.forms import TIME, Duration, Id, Number, Text, Wire
from quiver.otel.otlp.limits import ITEM_VALUE_DEPTH
from quiver.otel.otlp.nested import Attributes, Below, Part, Table

__all__ = ["SPANS"]

_U16, _U32, _I32 = pa.uint16(), pa.uint32(), pa.int32()
_NESTED_DEPTH: Final = ITEM_VALUE_DEPTH + 1
_DROPPED: Final = "dropped_attributes_count"

_EVENTS: Final = Table(
    "span_events",
    _U32,
    (
        Number(1, "time_unix_nano", Wire.FIXED64, TIME),
        Text(2, "name", needed=True),
        Attributes(3, "span_event_attrs", _U32, _NESTED_DEPTH),
        Number(4, _DROPPED, Wire.VARINT, _U32),
    ),
)

_LINKS: Final = Table(
    "span_links",
    _U32,
    (
        Id(1, "trace_id", 16),
        Id(2, "span_id", 8),
        Text(3, "trace_state"),
        Attributes(4, "span_link_attrs", _U32, _NESTED_DEPTH),
        Number(5, _DROPPED, Wire.VARINT, _U32),
        Number(6, "flags", Wire.FIXED32, _U32),
    ),
)

_STATUS: Final = (
    Text(2, "status_message"),
    Number(3, "code", Wire.VARINT, _I32, needed=True),
)

SPANS: Final = Table(
    "spans",
    _U16,
    (
        Id(1, "trace_id", 16, needed=True),
        Id(2, "span_id", 8, needed=True),
        Text(3, "trace_state"),
        Id(4, "parent_span_id", 8),
        Text(5, "name", needed=True),
        Number(6, "kind", Wire.VARINT, _I32),
        Duration(7, 8, "start_time_unix_nano", "duration_time_unix_nano"),
        Attributes(9, "span_attrs", _U16, ITEM_VALUE_DEPTH),
        Number(10, _DROPPED, Wire.VARINT, _U32),
        Below(11, _EVENTS, _U16),
        Number(12, "dropped_events_count", Wire.VARINT, _U32),
        Below(13, _LINKS, _U16),
        Number(14, "dropped_links_count", Wire.VARINT, _U32),
        Part(15, "status", _STATUS),
        Number(16, "flags", Wire.FIXED32, _U32),
    ),
)
