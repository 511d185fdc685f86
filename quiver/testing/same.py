"""Whether two batches are the same, bit by bit: NaN, zeros, nulls, types and metadata.

How values are laid out does not count: which dictionary they are in, how long runs are, what
stands under a null. All else does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

__all__ = ["difference", "plain"]

Array = Any


def difference(one: pa.RecordBatch, other: pa.RecordBatch) -> str | None:
    """Say how two batches differ; None if they do not."""
    if not one.schema.serialize().equals(other.schema.serialize()):
        return f"schema {one.schema.to_string()} is not {other.schema.to_string()}"
    if one.num_rows != other.num_rows:
        return f"{one.num_rows} rows are not {other.num_rows}"
    for index, field in enumerate(one.schema):
        ours, theirs = plain(one.column(index)), plain(other.column(index))
        if ours != theirs:
            return f"column {index}, {field}: {ours} is not {theirs}"
    return None


def plain(array: Array) -> list[Any]:
    """Give values that Python compares exactly: bytes of what has a fixed width, None for null.

    A null in a dictionary is not the same as a null index. Slow: for a few rows.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if kinds.is_null(kind):
        return [None] * len(array)
    if kinds.is_union(kind):
        return _members(array)
    if isinstance(kind, pa.RunEndEncodedType):
        rows = np.arange(array.offset, array.offset + len(array))
        values = plain(array.values)
        return [values[run] for run in np.searchsorted(array.run_ends, rows, side="right")]
    if isinstance(kind, pa.DictionaryType):
        # Arrow's ``is_valid`` ends the process if the values are of the null type.
        values = plain(array.dictionary)
        return [None if i is None else (values[i],) for i in array.indices.to_pylist()]
    valid = array.is_valid().to_pylist()
    if kinds.is_struct(kind):
        children = [plain(array.field(index)) for index in range(kind.num_fields)]
        rows_of = zip(*children, strict=True) if children else [()] * len(array)
        return [row if ok else None for ok, row in zip(valid, rows_of, strict=True)]
    if kind.num_fields:
        return [plain(array[row].values) if ok else None for row, ok in enumerate(valid)]
    return _leaves(array, valid)


def _members(array: Array) -> list[Any]:
    """Give each value of a union with the code of its type, from its buffers.

    pyarrow's own ``type_codes`` and ``offsets`` pass over where a slice begins, and end the process
    on an array without rows.
    """
    if not len(array):
        return []
    kind = array.type
    places = {code: index for index, code in enumerate(kind.type_codes)}
    children = [plain(array.field(index)) for index in range(kind.num_fields)]
    rows = slice(array.offset, array.offset + len(array))
    codes = np.frombuffer(array.buffers()[1], np.int8)[rows].tolist()
    if kind.mode == "sparse":
        return [(code, children[places[code]][row]) for row, code in enumerate(codes)]
    offsets = np.frombuffer(array.buffers()[2], np.int32)[rows].tolist()
    return [(code, children[places[code]][at]) for code, at in zip(codes, offsets, strict=True)]


def _leaves(array: Array, valid: list[bool]) -> list[Any]:
    kind = array.type
    if kinds.is_boolean(kind) or not _has_width(kind):
        return list(array.to_pylist())
    width = kind.bit_width // 8
    data = array.buffers()[1]
    bits = data.to_pybytes() if data is not None else b""
    starts = range(array.offset * width, (array.offset + len(array)) * width, width or 1)
    if not width:
        return [b"" if ok else None for ok in valid]
    return [bits[at : at + width] if ok else None for at, ok in zip(starts, valid, strict=True)]


def _has_width(kind: Any) -> bool:  # noqa: ANN401
    return kinds.is_primitive(kind) or kinds.is_fixed_size_binary(kind) or kinds.is_decimal(kind)
