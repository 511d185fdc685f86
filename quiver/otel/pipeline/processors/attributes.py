"""``attributes``: puts attributes in, changes them, renames them and takes them out.

==========  =====================================================================================
``insert``  where there is none of that key
``update``  where there is one
``upsert``  everywhere
``delete``  where there is one
``rename``  where there is one; one that has the new key already gives way
==========  =====================================================================================

Rows that have no attributes have no id to hang them from; they get one when one is put in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.pipeline.processors.ids import IDS_16, with_ids
from quiver.otel.pipeline.processors.matching import equal_to, kind_of
from quiver.otel.pipeline.processors.tables import (
    ITEM_ATTRS,
    POINTS,
    Ids,
    Mask,
    Tables,
    column_of,
    flat,
    ids_of,
    parents_of,
    pruned,
)
from quiver.otel.pipeline.rules import Action
from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = ["Attributes"]

_DICTIONARY_MAX = 1 << 16
_SMALL_DICTIONARY_MAX = 1 << 8
_WORD: Final[pa.DataType] = pa.dictionary(pa.uint8(), pa.utf8())


class Attributes:
    """Gives a batch with other attributes; it is to be Arrow."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = tuple(actions)

    def __call__(self, batch: Batch) -> list[Batch]:
        """Do all actions in turn; a batch of too many rows to have an id each comes in parts."""
        signal = batch.signal
        actions = [action for action in self._actions if signal in action.signals]
        if not actions:
            return [batch]
        made = []
        for tables in _parts(dict(batch.bundle), signal, actions):
            for action in actions:
                _act(tables, signal, action)
            made.append(Batch(signal, RecordBundle(tables)))
        return made


def _parts(tables: Tables, signal: Signal, actions: Sequence[Action]) -> list[Tables]:
    rows = tables[ROOT_SLOTS[signal]].num_rows
    puts_in = any(action.action in ("insert", "upsert") for action in actions)
    if rows <= IDS_16 or not puts_in:
        return [tables]
    places = np.arange(rows)
    firsts = range(0, rows, IDS_16)
    return [pruned(tables, signal, places // IDS_16 == first // IDS_16) for first in firsts]


def _act(tables: Tables, signal: Signal, action: Action) -> None:
    root = ROOT_SLOTS[signal]
    for place in action.places:
        if place == "item":
            for slot, attrs in ITEM_ATTRS[signal].items():
                if slot in tables:
                    _change(tables, (slot, "id"), attrs, action=action)
        else:
            _change(tables, (root, place, "id"), f"{place}_attrs", action=action)


def _change(tables: Tables, parent: tuple[str, ...], slot: str, *, action: Action) -> None:
    """Do one action to one table of attributes; ``parent`` is the table and the path of its ids."""
    puts_in = action.action in ("insert", "upsert")
    if slot not in tables and not puts_in:
        return
    if puts_in:
        with_ids(tables, parent)
    table = tables.get(slot)
    ids = np.unique(ids_of(tables[parent[0]], *parent[1:]))
    ids = ids[ids >= 0]
    having = np.zeros(0 if table is None else table.num_rows, np.bool_)
    if table is not None:
        having = _rows_of(table, action.key)
    if action.action == "rename":
        if table is not None and having.any():
            tables[slot] = _renamed(table, having, action)
        return
    there = np.empty(0, np.int64) if table is None else np.unique(parents_of(table)[having])
    if action.action == "insert":
        left, new = table, np.setdiff1d(ids, there)
    else:
        left = table if table is None or not having.any() else table.filter(pa.array(~having))
        new = {"delete": ids[:0], "update": there, "upsert": ids}[action.action]
    if len(new):
        left = _joined(left, _made(new, action, wide=parent[0] in POINTS))
    if left is None or not left.num_rows:
        tables.pop(slot, None)
    else:
        tables[slot] = left


def _rows_of(table: pa.RecordBatch, key: str) -> Mask:
    column: Any = column_of(table, "key")
    if pa.types.is_dictionary(column.type):
        found = equal_to(key)(column.dictionary).take(column.indices)
    else:
        found = equal_to(key)(column)
    mask: Mask = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _renamed(table: pa.RecordBatch, having: Mask, action: Action) -> pa.RecordBatch:
    taken = _rows_of(table, action.new_key) if action.new_key != action.key else ~having & having
    gone = taken & np.isin(parents_of(table), parents_of(table)[having])
    keys: Any = flat(column_of(table, "key"))
    keys = pc.if_else(pa.array(having), pa.scalar(action.new_key, keys.type), keys)
    index = table.schema.get_field_index("key")
    field = table.schema.field(index)
    encoded = _encoded(keys, field.type)
    renamed = table.set_column(index, field.with_type(encoded.type), encoded)
    return renamed.filter(pa.array(~gone)) if gone.any() else renamed


def _made(parents: Ids, action: Action, *, wide: bool) -> pa.RecordBatch:
    number, name, _, kind = kind_of(action.value)
    count = len(parents)
    return pa.record_batch(
        {
            "parent_id": pa.array(parents, pa.uint32() if wide else pa.uint16()),
            "key": pa.array([action.key] * count, pa.utf8()),
            "type": pa.array([number] * count, pa.uint8()),
            name: pa.array([action.value] * count, kind),
        }
    )


def _joined(old: pa.RecordBatch | None, new: pa.RecordBatch) -> pa.RecordBatch:
    """Put attributes behind others, and all in the order of their parents."""
    if old is None:
        return _typed(new, {"key": _WORD, "str": _WORD})
    names = [*old.schema.names, *(n for n in new.schema.names if n not in old.schema.names)]
    columns: dict[str, Any] = {}
    for name in names:
        one, two = column_of(old, name), column_of(new, name)
        kind = flat(one).type if one is not None else two.type  # type: ignore[union-attr]
        parts = [
            pa.nulls(part.num_rows, kind) if column is None else flat(column).cast(kind)
            for part, column in ((old, one), (new, two))
        ]
        columns[name] = pa.concat_arrays(parts)
    order: Any = np.argsort(columns["parent_id"].to_numpy(zero_copy_only=False), kind="stable")
    wanted = {name: old.schema.field(name).type for name in old.schema.names}
    wanted.setdefault("str", _WORD)
    made = pa.record_batch(columns).take(order)
    return _typed(made, wanted, old.schema)


def _typed(
    table: pa.RecordBatch, wanted: dict[str, pa.DataType], like: pa.Schema | None = None
) -> pa.RecordBatch:
    """Give columns the types that they are to have, or wider ones; fields stay as they were."""
    arrays, fields = [], []
    for name in table.schema.names:
        array = _encoded(table.column(name), wanted.get(name, table.column(name).type))
        has_field = like is not None and name in like.names
        field = like.field(name) if has_field and like is not None else pa.field(name, array.type)
        arrays.append(array)
        fields.append(field.with_type(array.type))
    metadata: Any = None if like is None else like.metadata
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


def _encoded(column: Any, wanted: pa.DataType) -> Any:  # noqa: ANN401
    """Make a dictionary of a plain column if it is to be one, as small as it may be from there."""
    if not pa.types.is_dictionary(wanted):
        return column
    encoded = column.dictionary_encode()
    if encoded.type.index_type == wanted.index_type:
        return encoded
    size = len(encoded.dictionary)
    if size > _DICTIONARY_MAX:
        return column
    is_small = wanted.index_type == pa.uint8() and size <= _SMALL_DICTIONARY_MAX
    index = pa.uint8() if is_small else pa.uint16()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(index), encoded.dictionary)
