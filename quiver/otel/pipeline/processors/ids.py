"""Ids for rows that have none, so that attributes can hang from them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.containers import ABSENT, NO_RESOURCE, NO_SCOPE
from quiver.otel.pipeline.processors.tables import (
    CHILDREN,
    Ids,
    Tables,
    column_of,
    flat,
    ids_of,
    parents_of,
)

__all__ = ["IDS_16", "with_ids"]

IDS_16: Final = 1 << 16
"""So many ids there are of 16 bits, which those of the root, of resources and of scopes have."""
_IDS_32: Final = 1 << 32


def with_ids(tables: Tables, parent: tuple[str, ...]) -> None:
    """Give an id to each row that has none, for all are about to have attributes.

    ``parent`` is the table and the path of its ids.
    Rows of one resource or scope share one: those without an id that are alike in all else. Where
    there is no number left, all get new ones from 0 on, and what hangs from them follows.
    """
    slot, *path = parent
    if len(path) > 1:
        tables[slot] = _present(tables[slot], path[0])
    table = tables[slot]
    ids = ids_of(table, *path)
    lacking = ids < 0
    if not lacking.any():
        return
    groups = np.arange(int(lacking.sum())) if len(path) == 1 else _groups(table, path[0], lacking)
    first = int(ids.max(initial=-1)) + 1
    is_root = not slot.endswith("_data_points")
    limit = IDS_16 if is_root else _IDS_32
    ids = ids.copy()
    ids[lacking] = groups + first
    if int(ids.max()) >= limit:
        ids = _renumbered(tables, slot, ids, path=path)
    kind = pa.uint16() if is_root else pa.uint32()
    tables[slot] = _with_column(table, path, pa.array(ids, kind))


def _present(table: pa.RecordBatch, place: str) -> pa.RecordBatch:
    """Say of every row that there is a resource, or a scope: one with attributes cannot lack."""
    if ABSENT not in table.schema.names:
        return table
    bit = NO_RESOURCE if place == "resource" else NO_SCOPE
    bits = flat(table.column(ABSENT)).fill_null(0).to_numpy(zero_copy_only=False)
    return _set(table, ABSENT, pa.array(bits & ~np.uint8(bit), pa.uint8()))


def _groups(table: pa.RecordBatch, place: str, lacking: Any) -> Ids:  # noqa: ANN401
    """Give rows the same number whose resource or scope is the same beside its id."""
    rows = table.filter(pa.array(lacking))
    struct: Any = column_of(rows, place)
    columns = [] if struct is None else struct.flatten()
    texts = [column.cast(pa.utf8()).fill_null("\0") for column in columns]
    if place == "scope":  # A scope is of one resource.
        texts.append(pa.array(ids_of(rows, "resource", "id")).cast(pa.utf8()))
    if "schema_url" in rows.schema.names and place == "scope":
        texts.append(rows.column("schema_url").cast(pa.utf8()).fill_null("\0"))
    numbers = np.zeros(rows.num_rows, np.int64)
    for text in texts:
        codes = text.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, numbers = np.unique(
            numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True
        )
    return numbers


def _renumbered(tables: Tables, slot: str, ids: Ids, *, path: list[str]) -> Ids:
    old, new = np.unique(ids, return_inverse=True)
    hanging = CHILDREN[slot] if len(path) == 1 else (f"{path[0]}_attrs",)
    for child in hanging:
        if child in tables:
            table = tables[child]
            index = table.schema.get_field_index("parent_id")
            kind = pa.uint32() if slot.endswith("_data_points") else pa.uint16()
            moved = pa.array(np.searchsorted(old, parents_of(table)), kind)
            tables[child] = table.set_column(
                index, table.schema.field(index).with_type(kind), moved
            )
    return np.asarray(new, np.int64)


def _with_column(table: pa.RecordBatch, path: list[str], ids: Any) -> pa.RecordBatch:  # noqa: ANN401
    if len(path) == 1:
        return _set(table, path[0], ids)
    place, name = path
    struct: Any = column_of(table, place)
    if struct is None or not pa.types.is_struct(struct.type):
        return _set(table, place, pa.StructArray.from_arrays([ids], [name]))
    names = [field.name for field in struct.type]
    parts = dict(zip(names, struct.flatten(), strict=True))
    ordered = [name, *(each for each in names if each != name)]
    parts[name] = ids
    made = pa.StructArray.from_arrays([parts[each] for each in ordered], ordered)
    return _set(table, place, made)


def _set(table: pa.RecordBatch, name: str, column: Any) -> pa.RecordBatch:  # noqa: ANN401
    index = table.schema.get_field_index(name)
    if index < 0:
        return table.add_column(0, pa.field(name, column.type), column)
    return table.set_column(index, table.schema.field(index).with_type(column.type), column)
