"""One row for each log record, span or point of a bundle, with what hangs from it in it.

Joins are by bundle: ids mean nothing outside of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from quiver.otel.batch import Batch
from quiver.otel.joined import values as v
from quiver.otel.joined.points import POINTS, point_rows
from quiver.otel.joined.shared import SHARED, Table, schema, shared_columns, struct
from quiver.otel.otlp import decode
from quiver.otel.signals import OTLP_SLOTS, Signal

__all__ = ["SCHEMAS", "SIGNALS", "joined_rows"]

_LINK: Final = struct(
    {"trace_id": pa.utf8(), "span_id": pa.utf8(), "trace_state": pa.utf8(), "attributes": v.MAP}
)
_EVENT: Final = struct(
    {"time": v.TIME, "time_unix_nano": pa.int64(), "name": pa.utf8(), "attributes": v.MAP}
)

SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "logs": schema(
        {
            "time": v.TIME,
            "time_unix_nano": pa.int64(),
            "observed_time": v.TIME,
            "trace_id": pa.utf8(),
            "span_id": pa.utf8(),
            "severity_number": pa.int32(),
            "severity_text": pa.utf8(),
            "event_name": pa.utf8(),
            "body": pa.utf8(),
            "attributes": v.MAP,
            "flags": pa.int64(),
            **SHARED,
        }
    ),
    "spans": schema(
        {
            "trace_id": pa.utf8(),
            "span_id": pa.utf8(),
            "parent_span_id": pa.utf8(),
            "name": pa.utf8(),
            "kind": pa.utf8(),
            "start_time": v.TIME,
            "end_time": v.TIME,
            "start_time_unix_nano": pa.int64(),
            "duration_nano": pa.int64(),
            "status": pa.utf8(),
            "status_message": pa.utf8(),
            "trace_state": pa.utf8(),
            "attributes": v.MAP,
            "events": pa.list_(_EVENT),
            "links": pa.list_(_LINK),
            **SHARED,
        }
    ),
    "points": POINTS,
}
SIGNALS: Final = {"logs": Signal.LOGS, "spans": Signal.TRACES, "points": Signal.METRICS}

_KINDS: Final = pa.array(["unspecified", "internal", "server", "client", "producer", "consumer"])
_STATUS: Final = pa.array(["unset", "ok", "error"])


def joined_rows(kind: str, batch: Batch) -> Iterator[pa.RecordBatch]:
    """Give the rows of one bundle, of the schema of their kind; requests of OTLP are decoded."""
    if batch.is_otlp:
        for request in batch.bundle[OTLP_SLOTS[batch.signal]].column("request"):
            for decoded in decode(batch.signal, request.as_buffer()):
                yield from joined_rows(kind, decoded)
        return
    table: Table = batch.bundle
    for columns in _ROWS[kind](table):
        made = [columns[name] for name in SCHEMAS[kind].names]
        yield pa.RecordBatch.from_arrays(made, schema=SCHEMAS[kind])


def _log_rows(table: Table) -> Iterator[dict[str, Any]]:
    root = table.get("logs")
    if root is None or not root.num_rows:
        return
    rows = root.num_rows
    time, nano = v.times(root, "time_unix_nano", rows)
    yield {
        "time": time,
        "time_unix_nano": nano,
        "observed_time": v.times(root, "observed_time_unix_nano", rows)[0],
        "trace_id": v.hexadecimal(root, "trace_id", rows),
        "span_id": v.hexadecimal(root, "span_id", rows),
        "severity_number": v.field(root, "severity_number", pa.int32(), rows=rows),
        "severity_text": v.texts(root, "severity_text", rows),
        "event_name": v.texts(root, "event_name", rows),
        "body": _body(root),
        "attributes": v.maps(v.ids(root), table.get("log_attrs")),
        "flags": v.numbers(root, "flags", rows),
        **shared_columns(table, root),
    }


def _body(root: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array of any type
    if "body" not in root.schema.names:
        return pa.nulls(root.num_rows, pa.utf8())
    body: Any = root.column("body")

    def column(name: str) -> Any:  # noqa: ANN401
        index = body.type.get_field_index(name)
        return None if index < 0 else body.field(index)

    said = v.values_as_texts(column("type"), column)
    return (
        pc.if_else(body.is_valid(), said, pa.scalar(None, pa.utf8())) if body.null_count else said
    )


def _span_rows(table: Table) -> Iterator[dict[str, Any]]:
    root = table.get("spans")
    if root is None or not root.num_rows:
        return
    rows, ids = root.num_rows, v.ids(root)
    time, nano = v.times(root, "start_time_unix_nano", rows)
    lasted = v.numbers(root, "duration_time_unix_nano", rows)
    yield {
        "trace_id": v.hexadecimal(root, "trace_id", rows),
        "span_id": v.hexadecimal(root, "span_id", rows),
        "parent_span_id": v.hexadecimal(root, "parent_span_id", rows),
        "name": v.texts(root, "name", rows),
        "kind": v.named(v.field(root, "kind", pa.int32(), rows=rows), _KINDS),
        "start_time": time,
        "end_time": v.micros(pc.add(nano, lasted)),
        "start_time_unix_nano": nano,
        "duration_nano": lasted,
        "status": v.named(v.child(root, ("status", "code"), pa.int32()), _STATUS),
        "status_message": v.child(root, ("status", "status_message"), pa.utf8()),
        "trace_state": v.texts(root, "trace_state", rows),
        "attributes": v.maps(ids, table.get("span_attrs")),
        "events": _events(ids, table),
        "links": _links(ids, table),
        **shared_columns(table, root),
    }


def _events(ids: Any, table: Table) -> Any:  # noqa: ANN401
    events = table.get("span_events")
    if events is None:
        return v.no_lists(len(ids), _EVENT)
    rows = events.num_rows
    time, nano = v.times(events, "time_unix_nano", rows)
    name = v.texts(events, "name", rows)
    attributes = v.maps(v.ids(events), table.get("span_event_attrs"))
    items = pa.StructArray.from_arrays([time, nano, name, attributes], fields=list(_EVENT))
    return v.lists(ids, events.column("parent_id"), items)


def _links(ids: Any, table: Table) -> Any:  # noqa: ANN401
    links = table.get("span_links")
    if links is None:
        return v.no_lists(len(ids), _LINK)
    rows = links.num_rows
    found = [v.hexadecimal(links, name, rows) for name in ("trace_id", "span_id")]
    found += [v.texts(links, "trace_state", rows)]
    found += [v.maps(v.ids(links), table.get("span_link_attrs"))]
    items = pa.StructArray.from_arrays(found, fields=list(_LINK))
    return v.lists(ids, links.column("parent_id"), items)


_ROWS: Final[Mapping[str, Callable[[Table], Iterator[dict[str, Any]]]]] = {
    "logs": _log_rows,
    "spans": _span_rows,
    "points": point_rows,
}
