"""Ids as they travel, out of ids as they are: what ``plain`` undoes.

Some receivers decode the ids of every batch, whatever its metadata says, so they always are
encoded. For that, rows are put in an order in which ids only grow: records by resource and scope,
children by what their payload type goes by, then by parent. Ids are counted anew in that order,
from 0. Rows that hang from nothing are left out: no receiver would see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.otap.columns import ENCODING, IDS, TIME, IdColumn
from quiver.otel.otap.plain import (
    VALUE_COLUMNS,
    find_column,
    groups_begin,
    plain_batch,
    put_back,
    timely,
)
from quiver.otel.signals import ROOT_SLOTS

__all__ = ["encode_ids"]

_Numbers = npt.NDArray[Any]

_CHILDREN: Final = {
    "logs": ("log_attrs",),
    "spans": ("span_attrs", "span_events", "span_links"),
    "span_events": ("span_event_attrs",),
    "span_links": ("span_link_attrs",),
    "univariate_metrics": (
        "metric_attrs",
        "number_data_points",
        "summary_data_points",
        "histogram_data_points",
        "exp_histogram_data_points",
    ),
    "number_data_points": ("number_dp_attrs", "number_dp_exemplars"),
    "summary_data_points": ("summary_dp_attrs",),
    "histogram_data_points": ("histogram_dp_attrs", "histogram_dp_exemplars"),
    "exp_histogram_data_points": ("exp_histogram_dp_attrs", "exp_histogram_dp_exemplars"),
    "number_dp_exemplars": ("number_dp_exemplar_attrs",),
    "histogram_dp_exemplars": ("histogram_dp_exemplar_attrs",),
    "exp_histogram_dp_exemplars": ("exp_histogram_dp_exemplar_attrs",),
}
"""The slots that hang from the ids of a slot."""

_ID: Final = ("id",)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """What ids are called now: the old ones in ascending order, some several times, and the new."""

    old: _Numbers
    new: _Numbers


def encode_ids(batch: Batch) -> Batch:
    """Give a batch of Arrow payloads as it travels; it has as many records as before."""
    plain = {
        slot: plain_batch(slot, each, unsaid_is_plain=True) for slot, each in batch.bundle.items()
    }
    slot = ROOT_SLOTS[batch.signal]
    done: dict[str, pa.RecordBatch] = {}
    root = _sorted_root(plain[slot])
    for name in ("resource", "scope"):
        root, renamed = _count_shared(root, name)
        attributes = plain.get(f"{name}_attrs")
        if attributes is not None and renamed is not None:
            done[f"{name}_attrs"] = _child(f"{name}_attrs", attributes, renamed)[0]
    done[slot], below = _count(root)
    _descend(slot, below, plain=plain, done=done)
    kept = {
        name: timely(each, TIME) for name, each in done.items() if each.num_rows or name == slot
    }
    return replace(batch, bundle=RecordBundle(kept))


def _descend(
    slot: str,
    renamed: _Renamed,
    *,
    plain: dict[str, pa.RecordBatch],
    done: dict[str, pa.RecordBatch],
) -> None:
    for name in _CHILDREN.get(slot, ()):
        if name in plain:
            done[name], below = _child(name, plain[name], renamed)
            _descend(name, below, plain=plain, done=done)


def _sorted_root(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put records in an order in which those of one resource, and scope, are side by side."""
    keys = [_sort_key(batch, ("scope", "id")), _sort_key(batch, ("resource", "id"))]
    return _in_order(batch, np.lexsort(keys))


def _sort_key(batch: pa.RecordBatch, path: Sequence[str]) -> _Numbers:
    found = find_column(batch, path)
    if found is None:
        return np.zeros(batch.num_rows, np.int64)
    key: _Numbers = found[1].cast(pa.int64()).fill_null(1 << 32).to_numpy()
    return key


def _in_order(batch: pa.RecordBatch, order: _Numbers) -> pa.RecordBatch:
    if bool((order[1:] > order[:-1]).all()):
        return batch
    return batch.take(order)


def _count_shared(root: pa.RecordBatch, name: str) -> tuple[pa.RecordBatch, _Renamed | None]:
    """Count the ids of resources or scopes anew, one for each run of rows that have the same.

    A scope that several resources share becomes several: its id could only grow otherwise.
    """
    found = find_column(root, (name, "id"))
    if found is None:
        return root, None
    ids, present = _known(found[1])
    above = _sort_key(root, ("resource", "id"))[present]
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = (ids[1:] != ids[:-1]) | (above[1:] != above[:-1])
    starts = np.flatnonzero(begins)
    order = np.argsort(ids[starts], kind="stable")
    begins[:1] = False
    encoded = _spread(found[1], begins, present)
    root = put_back(root, (name, "id"), encoded, metadata={ENCODING: b"delta"})
    return root, _Renamed(ids[starts][order], order)


def _count(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, _Renamed]:
    """Count the ids of rows anew, in the order in which they stand."""
    found = find_column(batch, _ID)
    if found is None:
        return batch, _Renamed(np.empty(0, np.int64), np.empty(0, np.int64))
    ids, present = _known(found[1])
    deltas = np.ones(len(ids), np.uint32)
    deltas[:1] = 0
    encoded = _spread(found[1], deltas, present)
    order = np.argsort(ids, kind="stable")
    named = put_back(batch, _ID, encoded, metadata={ENCODING: b"delta"})
    return named, _Renamed(ids[order], order)


def _child(slot: str, batch: pa.RecordBatch, above: _Renamed) -> tuple[pa.RecordBatch, _Renamed]:
    """Hang rows from the new ids, sort them, encode what they hang from, count their own ids."""
    column = IDS[slot][-1]
    found = find_column(batch, column.path)
    old, _ = _known(found[1] if found else pa.array([], pa.uint32()))
    first = np.searchsorted(above.old, old, "left")
    counts = np.searchsorted(above.old, old, "right") - first
    rows = np.repeat(np.arange(len(old)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    parents = above.new[np.repeat(first, counts) + within]
    if len(rows) != len(old) or bool((counts != 1).any()):
        batch = batch.take(rows)
    order = np.lexsort([parents, *reversed(_group_keys(batch, column))])
    batch, parents = _in_order(batch, order), parents[order]
    batch = _encode_parents(batch, column, parents)
    return _count(batch)


def _encode_parents(batch: pa.RecordBatch, column: IdColumn, parents: _Numbers) -> pa.RecordBatch:
    kind = pa.uint16() if column.bits == 16 else pa.uint32()  # noqa: PLR2004 - there are two widths
    encoded = np.diff(parents, prepend=0)
    if column.groups:
        encoded = np.where(groups_begin(batch, column), parents, encoded)
    how = b"quasidelta" if column.groups else b"delta"
    array = pa.array(encoded.astype(kind.to_pandas_dtype()), kind)
    return put_back(batch, column.path, array, metadata={ENCODING: how})


def _group_keys(batch: pa.RecordBatch, column: IdColumn) -> list[_Numbers]:
    """Give numbers that are the same in two rows where what the payload type goes by is."""
    groups = column.groups or ()
    if "value" not in groups:
        return [_codes(batch.column(name)) for name in groups if name in batch.schema.names]
    kinds = _codes(batch.column("type"))
    types = np.asarray(batch.column("type").cast(pa.uint8()).to_numpy(zero_copy_only=False))
    values = np.zeros(batch.num_rows, np.int64)
    for kind, name in VALUE_COLUMNS.items():
        if name in batch.schema.names and bool((types == kind).any()):
            values = np.where(types == kind, _codes(batch.column(name)), values)
    return [kinds, _codes(batch.column("key")), values]


def _codes(array: pa.Array[Any]) -> _Numbers:
    """Give each value of a column a number; -1 where there is none."""
    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode()
        indices: Any = array.indices
    else:
        # A word may be in a dictionary twice.
        words = array.dictionary.dictionary_encode().indices
        indices = words.take(array.indices)
    codes: _Numbers = indices.cast(pa.int64()).fill_null(-1).to_numpy()
    return codes


def _known(array: pa.Array[Any]) -> tuple[_Numbers, _Numbers]:
    """Give the ids that are there, and the rows that have one."""
    ids: _Numbers = array.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    if not array.null_count:
        return ids, np.arange(len(array))
    return ids, np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))


def _spread(like: pa.Array[Any], values: _Numbers, present: _Numbers) -> pa.Array[Any]:
    """Make a column of values in the rows that have one, of the type of ``like``."""
    dtype = like.type.to_pandas_dtype()
    if not like.null_count:
        return pa.array(values.astype(dtype), like.type)
    spread = np.zeros(len(like), dtype)
    spread[present] = values
    return pa.array(spread, like.type, mask=like.is_null().to_numpy(zero_copy_only=False))
