"""What is done with Arrow columns here, each in one piece, and what they are as numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts.nested import decode
from quiver.casts.nulls import nulls
from quiver.casts.picking import rows_at
from quiver.errors import InputError

__all__ = [
    "Array",
    "Mask",
    "Places",
    "children",
    "concat",
    "is_true",
    "numbers",
    "taken",
    "valid",
    "whole",
]

Array: TypeAlias = Any
"""Arrow's own; its stubs know only generics of the values inside."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]
"""Numbers of rows."""


def whole(table: pa.Table | pa.RecordBatch, name: str) -> Array:
    """Give a column of a table as one array."""
    column: Any = table.column(name)
    if not isinstance(column, pa.ChunkedArray):
        return column
    if not column.num_chunks:
        return nulls(0, column.type)
    coded = isinstance(column.type, pa.DictionaryType | pa.RunEndEncodedType)
    return concat([decode(chunk) for chunk in column.chunks] if coded else column.chunks)


def concat(arrays: Sequence[Array]) -> Array:
    """Put arrays of one type one behind the other."""
    arrays = [array for array in arrays if len(array)] or arrays[:1]
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(list(arrays))
    except pa.ArrowInvalid as error:
        raise _too_long(sum(map(len, arrays)), error) from error


def taken(array: Array, places: Places) -> Array:
    """Give some rows of an array."""
    if kinds.is_string(array.type) and len(array) and array.null_count == len(array):
        return nulls(len(places), array.type)  # Errors, mostly: there are none.
    try:
        return rows_at(array, places)
    except pa.ArrowInvalid as error:
        raise _too_long(len(places), error) from error


def _too_long(rows: int, error: pa.ArrowInvalid) -> InputError:
    return InputError(
        f"{rows:,} rows are too many for one batch: {error}",
        hint="take fewer at a time, or columns of large_string or large_binary",
    )


def numbers(array: Array, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Give the buffer of an array of fixed width as numbers, without a copy; nulls are any."""
    raw = array.buffers()[1]
    if raw is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(raw, kind, len(array), array.offset * np.dtype(kind).itemsize)


def is_true(array: Array) -> Mask:
    """Give an array of booleans, null being false."""
    filled = array.fill_null(False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def valid(array: Array) -> Mask:
    """Tell which rows are not null."""
    if not array.null_count and not kinds.is_null(array.type):
        return np.ones(len(array), np.bool_)
    return is_true(array.is_valid())


def children(rows: pa.StructArray) -> list[Array]:
    """Give the columns of rows, decoded; where a row is null all of them are."""
    found = [decode(child) for child in rows.flatten()]
    if not rows.null_count:
        return found
    places = pa.array(np.arange(len(rows)), mask=~valid(rows))
    # Runs have no nulls of their own, so flatten cannot put those of the row into them.
    return [
        rows_at(child, places) if _is_in_runs(field.type) else child
        for child, field in zip(found, rows.type, strict=True)
    ]


def _is_in_runs(kind: Any) -> bool:  # noqa: ANN401
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return kinds.is_run_end_encoded(stored)
