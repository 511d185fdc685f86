"""The tables of a bundle of telemetry: which hangs from which, and rows taken out of all of them.

Rows are tied by ids: ``id`` of a row is ``parent_id`` of those that belong to it. Attributes of
resources and scopes hang from ``resource.id`` and ``scope.id`` of the root, which rows share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = [
    "CHILDREN",
    "ITEM_ATTRS",
    "POINTS",
    "Mask",
    "Tables",
    "column_of",
    "flat",
    "ids_of",
    "parents_of",
    "pruned",
    "without_orphans",
]

Tables: TypeAlias = dict[str, pa.RecordBatch]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ids: TypeAlias = npt.NDArray[np.int64]

POINTS: Final = {
    "number_data_points": ("number_dp_attrs", "number_dp_exemplars"),
    "summary_data_points": ("summary_dp_attrs",),
    "histogram_data_points": ("histogram_dp_attrs", "histogram_dp_exemplars"),
    "exp_histogram_data_points": ("exp_histogram_dp_attrs", "exp_histogram_dp_exemplars"),
}
"""The points of metrics, and what hangs from each; their attributes come first."""

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "logs": ("log_attrs",),
    "spans": ("span_attrs", "span_events", "span_links"),
    "span_events": ("span_event_attrs",),
    "span_links": ("span_link_attrs",),
    "univariate_metrics": ("metric_attrs", *POINTS),
    **POINTS,
    "number_dp_exemplars": ("number_dp_exemplar_attrs",),
    "histogram_dp_exemplars": ("histogram_dp_exemplar_attrs",),
    "exp_histogram_dp_exemplars": ("exp_histogram_dp_exemplar_attrs",),
}
"""What hangs from the ids of each table."""

ITEM_ATTRS: Final[Mapping[Signal, Mapping[str, str]]] = {
    Signal.LOGS: {"logs": "log_attrs"},
    Signal.TRACES: {"spans": "span_attrs"},
    Signal.METRICS: {points: hanging[0] for points, hanging in POINTS.items()},
}
"""Where the attributes of items are; those of metrics are those of their points."""

_NONE: Final = -1
"""No id: the row has nothing that hangs from it."""


def column_of(table: pa.RecordBatch, *path: str) -> pa.Array[Any] | None:
    """Give a column, or a part of a struct; None if it is not there."""
    if path[0] not in table.schema.names:
        return None
    column: Any = table.column(path[0])
    for name in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        index = column.type.get_field_index(name)
        column = column.flatten()[index]
    return column


def flat(column: Any) -> Any:  # noqa: ANN401
    """Give a column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def ids_of(table: pa.RecordBatch, *path: str) -> Ids:
    """Give a column of ids; -1 where there is none."""
    column = column_of(table, *path)
    if column is None:
        return np.full(table.num_rows, _NONE, np.int64)
    values = flat(column).cast(pa.int64()).fill_null(_NONE)
    found: Ids = values.to_numpy(zero_copy_only=False)
    return found


def parents_of(table: pa.RecordBatch) -> Ids:
    """Give the parents of rows."""
    return ids_of(table, "parent_id")


def pruned(tables: Tables, signal: Signal, keep: Mask) -> Tables:
    """Give the rows of the root that are to be kept, and all that hangs from them; may be none."""
    if keep.all():
        return tables
    if not keep.any():
        return {}
    left, root = dict(tables), ROOT_SLOTS[signal]
    left[root] = left[root].filter(pa.array(keep))
    without_orphans(left, root)
    for place in ("resource", "scope"):
        slot = f"{place}_attrs"
        if slot in left:
            _keep_children(left, slot, ids_of(left[root], place, "id"))
    return left


def without_orphans(tables: Tables, slot: str) -> None:
    """Take out what hangs from rows of a table that are gone, and what hangs from that."""
    ids = ids_of(tables[slot], "id") if slot in tables else np.empty(0, np.int64)
    for child in CHILDREN.get(slot, ()):
        if child in tables:
            _keep_children(tables, child, ids)


def _keep_children(tables: Tables, slot: str, ids: Ids) -> None:
    keep = np.isin(parents_of(tables[slot]), ids[ids != _NONE])
    if keep.all():
        return
    if keep.any():
        tables[slot] = tables[slot].filter(pa.array(keep))
    else:
        del tables[slot]
    without_orphans(tables, slot)
