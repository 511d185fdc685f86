"""Some rows of many, of any type, each with its own values.

Arrow's ``take`` and ``filter`` (26.0.1) give values of other rows where fixed-size lists stand in
fixed-size lists and an array does not begin where its memory does. All others are left to them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from quiver.ipc import child_types

__all__ = ["has_stacked_lists", "levelled", "rows_at", "rows_where"]

Rows: TypeAlias = Any
"""An array, plain or in chunks, a batch or a table; what is given back is the same."""
_KINDS_MAX: Final = 1024


def rows_at(rows: Rows, places: Any) -> Rows:  # noqa: ANN401
    """Give the rows at these places, in that order; null for null. May raise what Arrow raises."""
    indices = places if isinstance(places, pa.Array) else pa.array(places, pa.int64())
    return levelled(rows).take(indices)


def rows_where(rows: Rows, mask: Any) -> Rows:  # noqa: ANN401
    """Give the rows for which ``mask`` is true, an array of Arrow or of numpy."""
    wanted = mask if isinstance(mask, pa.Array | pa.ChunkedArray) else pa.array(mask)
    return levelled(rows).filter(wanted)


def levelled(rows: Rows) -> Rows:
    """Give the same rows so that Arrow picks the right ones; copies of what it would mistake."""
    if isinstance(rows, pa.RecordBatch | pa.Table):
        if not has_stacked_lists(rows.schema):
            return rows
        columns = [levelled(column) for column in rows.columns]
        return type(rows).from_arrays(columns, schema=rows.schema)
    if not _is_stacked(rows.type):
        return rows
    if isinstance(rows, pa.ChunkedArray):
        return pa.chunked_array([levelled(chunk) for chunk in rows.chunks], rows.type)
    if isinstance(rows, pa.DictionaryArray):
        return rows.from_arrays(rows.indices, levelled(rows.dictionary), ordered=rows.type.ordered)
    return pa.concat_arrays([rows.slice(0, 0), rows])  # One alone would not be copied.


def has_stacked_lists(schema: pa.Schema) -> bool:
    """Whether Arrow's own selection of rows cannot be relied on for a schema."""
    return any(map(_is_stacked, schema.types))


@lru_cache(_KINDS_MAX)
def _is_stacked(kind: Any) -> bool:  # noqa: ANN401
    inner = child_types(kind)
    if kinds.is_fixed_size_list(kind) and any(map(_is_fixed_list, inner)):
        return True
    return any(map(_is_stacked, inner))


def _is_fixed_list(kind: Any) -> bool:  # noqa: ANN401
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kinds.is_fixed_size_list(kind)
