"""Columns of nulls, of any type: what a batch lacks and its slot's representative schema has.

pyarrow's own ``nulls`` makes arrays that break Arrow's rules where there are run-end encoded ones
inside of others, and ends the process for a union without children.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from quiver.schemas import child_fields

__all__ = ["nulls"]

_OFFSET_BYTES: Final = 8
"""Of the widest kind; buffers may be longer than need be."""


def nulls(count: int, kind: Any) -> Any:  # noqa: ANN401
    """Give so many nulls of a type; raises ArrowInvalid if the type has no value for that."""
    if not _is_special(kind):
        return pa.nulls(count, kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, nulls(count, kind.storage_type))
    if isinstance(kind, pa.DictionaryType):
        values = nulls(0, kind.value_type)
        indices: Any = pa.nulls(count, kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)
    if isinstance(kind, pa.RunEndEncodedType):
        return _run(count, kind)
    if kinds.is_union(kind):
        return _members(count, kind)
    below = count * kind.list_size if kinds.is_fixed_size_list(kind) else 0
    below = count if kinds.is_struct(kind) else below
    children = [nulls(below, field.type) for field in child_fields(kind)]
    if kinds.is_map(kind):
        children = [pa.StructArray.from_arrays(children, fields=child_fields(kind))]
    zeros = pa.py_buffer(bytes((count + 1) * _OFFSET_BYTES))
    own: list[pa.Buffer | None] = [zeros] * kind.num_buffers
    return pa.Array.from_buffers(kind, count, own, null_count=count, children=children)


def _is_special(kind: Any) -> bool:  # noqa: ANN401
    if kinds.is_union(kind) or isinstance(kind, pa.RunEndEncodedType):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _is_special(kind.storage_type)
    return any(_is_special(field.type) for field in child_fields(kind))


def _run(count: int, kind: Any) -> Any:  # noqa: ANN401
    if count > np.iinfo(kind.run_end_type.to_pandas_dtype()).max:
        raise pa.ArrowInvalid(f"{kind} has no room for {count:,} rows")
    ends = pa.array([count] if count else [], kind.run_end_type)
    children = [ends, nulls(len(ends), kind.value_type)]
    return pa.Array.from_buffers(kind, count, [None], null_count=0, children=children)


def _members(count: int, kind: Any) -> Any:  # noqa: ANN401
    fields = child_fields(kind)
    if count and not fields:
        raise pa.ArrowInvalid(f"{kind} has no values, not even null")
    codes = np.full(count, kind.type_codes[0] if fields else 0, np.int8)
    buffers: list[pa.Buffer | None] = [None, pa.py_buffer(codes.tobytes())]
    if kind.mode == "dense":
        buffers.append(pa.py_buffer(np.arange(count, dtype=np.int32).tobytes()))
    children = [nulls(count, field.type) for field in fields]
    return pa.Array.from_buffers(kind, count, buffers, children=children)
