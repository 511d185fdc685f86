"""Which day each row of a batch belongs to: that of its item, so that the tables of a day join.

A log record has the day of its time, or of when it was observed, or else of its ingestion; a span
that of its start; a point of a metric that of its time. What hangs from a row goes with it. What
several days have in common, a metric, a resource or a scope, is in each of them.

A batch of more than ``DAYS_MAX`` days stands whole on that of its ingestion: times are the sender's
to choose, and one request could ask for a hundred thousand folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.otel.batch import Batch
from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = ["DAY", "DAYS_MAX", "by_day", "day_name", "day_of"]

_TIME: Final = pa.timestamp("ns", "UTC")
DAY: Final = 86_400 * 1_000_000_000
DAYS_MAX: Final = 32
"""Days that one batch is split into: more than a month of a sender that was cut off."""

Days: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Tables: TypeAlias = Mapping[str, pa.RecordBatch]

_TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "logs": ("time_unix_nano", "observed_time_unix_nano"),
    "spans": ("start_time_unix_nano",),
    "number_data_points": ("time_unix_nano",),
    "summary_data_points": ("time_unix_nano",),
    "histogram_data_points": ("time_unix_nano",),
    "exp_histogram_data_points": ("time_unix_nano",),
}
_BELOW: Final[Mapping[str, str]] = {
    "log_attrs": "logs",
    "span_attrs": "spans",
    "span_events": "spans",
    "span_links": "spans",
    "span_event_attrs": "span_events",
    "span_link_attrs": "span_links",
    "number_dp_attrs": "number_data_points",
    "summary_dp_attrs": "summary_data_points",
    "histogram_dp_attrs": "histogram_data_points",
    "exp_histogram_dp_attrs": "exp_histogram_data_points",
    "number_dp_exemplars": "number_data_points",
    "histogram_dp_exemplars": "histogram_data_points",
    "exp_histogram_dp_exemplars": "exp_histogram_data_points",
    "number_dp_exemplar_attrs": "number_dp_exemplars",
    "histogram_dp_exemplar_attrs": "histogram_dp_exemplars",
    "exp_histogram_dp_exemplar_attrs": "exp_histogram_dp_exemplars",
    "metric_attrs": "univariate_metrics",
}
"""By its slot, the slot whose ``id`` is the ``parent_id`` of a row; above comes before below."""
_AROUND: Final = {"resource_attrs": "resource", "scope_attrs": "scope"}


def day_of(moment_ns: int) -> int:
    """Count days from 1970."""
    return moment_ns // DAY


def day_name(day: int) -> str:
    """Name a day: ``2026-11-23``."""
    return str(np.datetime64(day, "D"))


def by_day(batch: Batch, home: int) -> Iterator[tuple[int, dict[str, pa.RecordBatch]]]:
    """Split a batch by days; ``home`` is that of its ingestion. Every row comes, on some day."""
    tables = dict(batch.bundle)
    known = {
        name: _days(tables[name], times, home) for name, times in _TIMES.items() if name in tables
    }
    found = np.unique(np.concatenate(list(known.values()))) if known else np.empty(0, np.int64)
    if found.size == 1:
        yield int(found[0]), tables
        return
    if not 0 < found.size <= DAYS_MAX:
        yield home, tables
        return
    shared = _Shared(batch.signal, tables, known, home=home)
    for day in sorted({int(day) for day in found} | shared.more_days):
        yield day, shared.of(day)


def _days(table: pa.RecordBatch, times: tuple[str, ...], home: int) -> Days:
    moments = np.zeros(table.num_rows, np.uint64)
    for name in times:
        if name in table.schema.names and table.schema.field(name).type == _TIME:
            column: Any = table.column(name).view(pa.int64()).fill_null(0)
            told = column.to_numpy(zero_copy_only=False).view(np.uint64)
            moments = np.where(moments == 0, told, moments)
    days = (moments // np.uint64(DAY)).astype(np.int64)
    return np.where(moments == 0, home, days)


class _Shared:
    """A batch of several days."""

    def __init__(
        self, signal: Signal, tables: Tables, known: Mapping[str, Days], *, home: int
    ) -> None:
        self._root = ROOT_SLOTS[signal]
        self._tables = tables
        self._known = known
        self._home = home
        self._left = {name: np.ones(table.num_rows, np.bool_) for name, table in tables.items()}
        days = {int(day) for each in known.values() for day in np.unique(each)}
        for day in sorted(days):
            for name, mask in self._masks(day).items():
                self._left[name] &= ~mask
        self.more_days = {home} if any(left.any() for left in self._left.values()) else set()

    def of(self, day: int) -> dict[str, pa.RecordBatch]:
        """Give the rows of one day; those that belong nowhere stand at home."""
        masks = self._masks(day)
        if day == self._home:
            masks = {name: mask | self._left[name] for name, mask in masks.items()}
        return {
            name: self._tables[name].filter(pa.array(mask))
            for name, mask in masks.items()
            if mask.any()
        }

    def _masks(self, day: int) -> dict[str, Mask]:
        masks = {name: days == day for name, days in self._known.items()}
        if self._root in self._tables and self._root not in masks:
            masks[self._root] = self._with_points(masks)
        for name, above in _BELOW.items():
            if name in self._tables:
                masks[name] = self._below(name, above, masks)
        for name, column in _AROUND.items():
            if name in self._tables:
                ids = self._around(column, masks)
                masks[name] = _is_in(_ids(self._tables[name], "parent_id"), ids)
        none = {
            n: np.zeros(t.num_rows, np.bool_) for n, t in self._tables.items() if n not in masks
        }
        return masks | none

    def _with_points(self, masks: Mapping[str, Mask]) -> Mask:
        """Find the metrics that have a point among these."""
        points = [
            _ids(self._tables[name], "parent_id").filter(pa.array(mask))
            for name, mask in masks.items()
        ]
        parents: Any = pa.concat_arrays(points) if points else pa.array([], pa.int64())
        return _is_in(_ids(self._tables[self._root], "id"), parents)

    def _below(self, name: str, above: str, masks: Mapping[str, Mask]) -> Mask:
        if above not in masks:
            return np.zeros(self._tables[name].num_rows, np.bool_)
        ids = _ids(self._tables[above], "id").filter(pa.array(masks[above]))
        return _is_in(_ids(self._tables[name], "parent_id"), ids)

    def _around(self, column: str, masks: Mapping[str, Mask]) -> Any:  # noqa: ANN401
        root = self._tables.get(self._root)
        if root is None or column not in root.schema.names:
            return pa.array([], pa.int64())
        ids: Any = pc.struct_field(root.column(column), "id")
        return _whole(ids).filter(pa.array(masks[self._root]))


def _ids(table: pa.RecordBatch, name: str) -> Any:  # noqa: ANN401
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, pa.int64())
    return _whole(table.column(name))


def _whole(ids: Any) -> Any:  # noqa: ANN401
    return ids.cast(pa.int64())


def _is_in(ids: Any, wanted: Any) -> Mask:  # noqa: ANN401
    found: Any = pc.is_in(ids, value_set=wanted.drop_null())
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
