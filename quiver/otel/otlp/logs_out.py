"""Log records, back from their payloads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel.otlp.attributes_out import write_attributes
from quiver.otel.otlp.containers_out import grouped, write_request
from quiver.otel.otlp.limits import DEFAULT_LIMITS, ITEM_VALUE_DEPTH
from quiver.otel.otlp.rows import Rows
from quiver.otel.otlp.values_out import write_values
from quiver.otel.wire import Messages

__all__ = ["write_logs"]


def write_logs(bundle: RecordBundle) -> bytes:
    """Give the request that these payloads are."""
    groups = grouped(Rows.of(bundle["logs"], "logs"))
    rows = groups.rows
    out = Messages(rows.count)
    room = DEFAULT_LIMITS.depth - ITEM_VALUE_DEPTH
    time, observed = rows.times("time_unix_nano"), rows.times("observed_time_unix_nano")
    out.fixed64(1, time, time > 0)
    # Protobuf has a negative number of 32 bits as one of 64.
    severity = rows.numbers("severity_number", pa.int32()).astype(np.int64).view(np.uint64)
    out.varint(2, severity, severity > 0)
    if (text := rows.texts("severity_text")) is not None:
        out.text(3, text)
    there = rows.there("body")
    body = rows.inside("body").take(np.flatnonzero(there))
    out.children(5, write_values(body, room=room + 1), there.astype(np.int64))
    table = bundle.get("log_attrs"), "log_attrs"
    write_attributes(out, 6, table, of=rows.ids("id"), room=room)
    dropped, flags = rows.counts("dropped_attributes_count"), rows.counts("flags")
    out.varint(7, dropped, dropped > 0)
    out.fixed32(8, flags, flags > 0)
    for number, names in (
        (9, ("trace_id", "quiver_trace_id")),
        (10, ("span_id", "quiver_span_id")),
    ):
        for name in names:  # No row has a value in both.
            if (ids := rows.octets(name)) is not None:
                out.text(number, ids)
    out.fixed64(11, observed, observed > 0)
    if (text := rows.texts("event_name")) is not None:
        out.text(12, text)
    return write_request(groups, bundle, out)
