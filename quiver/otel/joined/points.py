"""Metrics as one row for each point, of whatever kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.otel.joined import values as v
from quiver.otel.joined.shared import SHARED, Table, schema, shared_columns, struct

__all__ = ["POINTS", "point_rows"]

_COUNTS: Final = pa.list_(pa.int64())
_QUANTILES: Final = pa.list_(struct({"quantile": pa.float64(), "value": pa.float64()}))
_EXEMPLAR: Final = struct(
    {
        "time": v.TIME,
        "value": pa.float64(),
        "trace_id": pa.utf8(),
        "span_id": pa.utf8(),
        "attributes": v.MAP,
    }
)
_OWN: Final[dict[str, Any]] = {
    "flags": pa.int64(),
    "count": pa.int64(),
    "sum": pa.float64(),
    "min": pa.float64(),
    "max": pa.float64(),
    "bucket_counts": _COUNTS,
    "explicit_bounds": pa.list_(pa.float64()),
    "scale": pa.int32(),
    "zero_count": pa.int64(),
    "positive_offset": pa.int32(),
    "positive_bucket_counts": _COUNTS,
    "negative_offset": pa.int32(),
    "negative_bucket_counts": _COUNTS,
}
"""Columns that are as the payload has them, in the types of SQL."""

POINTS: Final = schema(
    {
        "name": pa.utf8(),
        "kind": pa.utf8(),
        "unit": pa.utf8(),
        "description": pa.utf8(),
        "temporality": pa.utf8(),
        "is_monotonic": pa.bool_(),
        "time": v.TIME,
        "time_unix_nano": pa.int64(),
        "start_time": v.TIME,
        "value": pa.float64(),
        "int_value": pa.int64(),
        "attributes": v.MAP,
        **_OWN,
        "quantiles": _QUANTILES,
        "exemplars": pa.list_(_EXEMPLAR),
        **SHARED,
    }
)

_TYPES: Final = pa.array(["empty", "gauge", "sum", "histogram", "exponential_histogram", "summary"])
_TEMPORALITY: Final = pa.array(["unspecified", "delta", "cumulative"])
_TABLES: Final = ("number", "summary", "histogram", "exp_histogram")


def point_rows(table: Table) -> Iterator[dict[str, Any]]:
    """Give the points of a bundle, those of one kind of payload behind those of another."""
    root = table.get("univariate_metrics")
    if root is None or not root.num_rows:
        return
    metric = _metric(root) | shared_columns(table, root)
    ids = v.ids(root).cast(pa.int64()).fill_null(-1).to_numpy()
    order = np.argsort(ids, kind="stable")
    for name in _TABLES:
        points = table.get(f"{name}_data_points")
        if points is None or not points.num_rows:
            continue
        parents = points.column("parent_id").cast(pa.int64()).to_numpy()
        place = np.minimum(np.searchsorted(ids[order], parents), len(ids) - 1)
        found = order[place]
        points = points.filter(pa.array(ids[found] == parents))
        above = pa.array(found[ids[found] == parents])
        around = {column: array.take(above) for column, array in metric.items()}
        yield around | _points(table, name, points)


def _metric(root: pa.RecordBatch) -> dict[str, Any]:
    rows = root.num_rows
    return {
        "name": v.texts(root, "name", rows),
        "kind": v.named(v.field(root, "metric_type", pa.int32(), rows=rows), _TYPES),
        "unit": v.texts(root, "unit", rows),
        "description": v.texts(root, "description", rows),
        "temporality": v.named(
            v.field(root, "aggregation_temporality", pa.int32(), rows=rows), _TEMPORALITY
        ),
        "is_monotonic": v.field(root, "is_monotonic", pa.bool_(), rows=rows),
    }


def _points(table: Table, name: str, points: pa.RecordBatch) -> dict[str, Any]:
    rows, ids = points.num_rows, v.ids(points)
    time, nano = v.times(points, "time_unix_nano", rows)
    whole = v.numbers(points, "int_value", rows)
    value = v.field(points, "double_value", pa.float64(), rows=rows)
    return {
        "time": time,
        "time_unix_nano": nano,
        "start_time": v.times(points, "start_time_unix_nano", rows)[0],
        "value": pc.coalesce(value, whole.cast(pa.float64(), safe=False)),
        "int_value": whole,
        "attributes": v.maps(ids, table.get(f"{name}_dp_attrs")),
        **{column: v.field(points, column, kind, rows=rows) for column, kind in _OWN.items()},
        "quantiles": v.field(points, "quantile", _QUANTILES, rows=rows),
        "exemplars": _exemplars(ids, table, f"{name}_dp_exemplar"),
    }


def _exemplars(ids: Any, table: Table, name: str) -> Any:  # noqa: ANN401 - arrays of any type
    found = table.get(f"{name}s")
    if found is None:
        return v.no_lists(len(ids), _EXEMPLAR)
    rows = found.num_rows
    whole = v.field(found, "int_value", pa.int64(), rows=rows).cast(pa.float64(), safe=False)
    columns = [
        v.times(found, "time_unix_nano", rows)[0],
        pc.coalesce(v.field(found, "double_value", pa.float64(), rows=rows), whole),
        v.hexadecimal(found, "trace_id", rows),
        v.hexadecimal(found, "span_id", rows),
        v.maps(v.ids(found), table.get(f"{name}_attrs")),
    ]
    items = pa.StructArray.from_arrays(columns, fields=list(_EXEMPLAR))
    return v.lists(ids, found.column("parent_id"), items)
