"""The canonical bytes of rows: equal bytes, equal rows, whatever types lie inside.

Of each row first everything of fixed width, then what varies. HASHING.md gives it byte by byte.
Nothing here looks at one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts.nested import decode
from quiver.casts.picking import rows_at
from quiver.errors import InputError
from quiver.upsert.rows.columns import Array, Mask, children, is_true, valid

__all__ = ["exact_bytes", "key_bytes"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_LENGTH_MAX: Final = (1 << 32) - 1
_NOTHING: Final = pa.scalar(b"", pa.large_binary())
_TEXTS: Final = (
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_string_view,
    kinds.is_binary,
    kinds.is_large_binary,
    kinds.is_binary_view,
)
_LISTS: Final = (
    kinds.is_list,
    kinds.is_large_list,
    kinds.is_fixed_size_list,
    kinds.is_list_view,
    kinds.is_large_list_view,
)


@dataclass(slots=True)
class _Parts:
    """What rows consist of: pieces of fixed width, and arrays of bytes that vary."""

    rows: int
    exact: bool
    fixed: list[_Bytes] = field(default_factory=list)
    varying: list[Array] = field(default_factory=list)

    def inner(self, rows: int) -> _Parts:
        """Give a place for rows that lie inside of these."""
        return _Parts(rows, self.exact)

    def join(self) -> pa.LargeBinaryArray:
        """Put the pieces of each row one behind the other."""
        head = np.concatenate([np.empty((self.rows, 0), np.uint8), *self.fixed], axis=1)
        width = head.shape[1]
        offsets = np.arange(self.rows + 1, dtype=np.int64) * width
        front = _large_binary(offsets, _buffer(head))
        if not self.varying:
            return front
        join: Any = pc.binary_join_element_wise
        return join(front, *self.varying, _NOTHING)


def key_bytes(keys: pa.StructArray) -> pa.LargeBinaryArray:
    """Give the canonical bytes of each key: -0.0 is 0.0, and every NaN is the same.

    Raises InputError where a key is of a type that has none, or holds 4 GiB in one column.
    """
    return _row_bytes(keys, exact=False)


def exact_bytes(rows: pa.StructArray) -> pa.LargeBinaryArray:
    """Give bytes that are equal for rows that are the same to the last bit, and for no others."""
    return _row_bytes(rows, exact=True)


def _row_bytes(rows: pa.StructArray, *, exact: bool) -> pa.LargeBinaryArray:
    parts = _Parts(len(rows), exact)
    for column in children(rows):
        _add(column, parts)
    return parts.join()


def _add(array: Array, parts: _Parts) -> None:
    """Add the pieces of one column: whether it is there, then what it is."""
    array = decode(array)
    kind = array.type
    there = valid(array)
    parts.fixed.append(there.view(np.uint8)[:, None])
    if kinds.is_null(kind):
        return
    if kinds.is_struct(kind):
        for child in children(array):
            _add(child, parts)
        return
    add = next((add for belongs, add in _KINDS if belongs(kind)), None)
    if add is None:
        raise InputError(f"rows of {kind} cannot be compared")
    add(array, there, parts)


def _add_bool(array: Array, _there: Mask, parts: _Parts) -> None:
    parts.fixed.append(is_true(array).view(np.uint8)[:, None])


def _add_fixed(array: Array, there: Mask, parts: _Parts) -> None:
    width = array.type.bit_width // 8
    raw = array.buffers()[1]
    if raw is None or not width:
        parts.fixed.append(np.zeros((len(array), width), np.uint8))
        return
    data = np.frombuffer(raw, np.uint8, len(array) * width, array.offset * width)
    data = data.reshape(len(array), width)
    if kinds.is_floating(array.type) and not parts.exact:
        data = _canonical_floats(data, width)
    if array.null_count:
        data = np.where(there[:, None], data, np.uint8(0))
    parts.fixed.append(data)


def _canonical_floats(data: _Bytes, width: int) -> _Bytes:
    with np.errstate(invalid="ignore"):  # Some NaNs signal.
        floats = data.view(f"<f{width}") + np.zeros(1, f"<f{width}")  # -0.0 + 0.0 is 0.0
    floats[np.isnan(floats)] = np.nan
    return floats.view(np.uint8).reshape(data.shape)


def _add_text(array: Array, _there: Mask, parts: _Parts) -> None:
    text = kinds.is_string(array.type) or kinds.is_string_view(array.type)
    wide = array.cast(pa.large_string()) if text else array
    wide = wide.cast(pa.large_binary())
    _add_varying(wide.fill_null(b"") if wide.null_count else wide, parts)


def _add_varying(array: Array, parts: _Parts) -> None:
    """Add bytes that vary: their length to what is fixed, themselves to what is not."""
    offsets, _ = _inside(array)
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) > _LENGTH_MAX:
        raise InputError("a key of 4 GiB or more in one column cannot be taken")
    parts.fixed.append(lengths.astype("<u4").view(np.uint8).reshape(len(lengths), 4))
    parts.varying.append(array)


def _add_list(array: Array, _there: Mask, parts: _Parts) -> None:
    lengths: Array = pc.list_value_length(array)
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = _values(array, counts)
    inner = parts.inner(len(values))
    _add(values, inner)
    ends, data = _inside(inner.join())
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    _add_varying(_large_binary(ends[starts], data), parts)


def _values(array: Array, counts: npt.NDArray[np.int64]) -> Array:
    """Give the values of all lists, one behind the other."""
    try:
        return array.flatten()
    except pa.ArrowNotImplementedError:  # Views of dictionaries that Arrow cannot build anew.
        ends = np.cumsum(counts)
        # A view has an offset for each list, others have one more behind the last.
        starts = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)[: len(counts)]
        places = np.repeat(starts - (ends - counts), counts) + np.arange(counts.sum())
        return rows_at(array.values, places)


def _add_map(array: Array, there: Mask, parts: _Parts) -> None:
    """Take a map for a list of its entries, in the order in which they are."""
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    both = [decode(part[first:last]) for part in (array.keys, array.items)]
    entries = pa.StructArray.from_arrays(both, names=["key", "value"])
    mask = array.is_null() if array.null_count else None
    starts = pc.subtract(offsets, offsets[0])
    _add_list(pa.ListArray.from_arrays(starts, entries, mask=mask), there, parts)


def _inside(array: Array) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Give the offsets and the bytes of an array of bytes."""
    _, offsets, data = array.buffers()
    if offsets is None:
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    found = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    return found, data if data is not None else pa.py_buffer(b"")


def _large_binary(offsets: npt.NDArray[np.int64], data: pa.Buffer) -> pa.LargeBinaryArray:
    buffers = [None, _buffer(offsets), data]
    made: Any = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return made


def _buffer(array: npt.NDArray[Any]) -> pa.Buffer:
    flat: Any = np.ascontiguousarray(array).reshape(-1)
    return pa.py_buffer(flat)


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    return any(belongs(kind) for belongs in _TEXTS)


def _is_list(kind: Any) -> bool:  # noqa: ANN401
    return any(belongs(kind) for belongs in _LISTS)


def _is_fixed(kind: Any) -> bool:  # noqa: ANN401
    return bool(
        kinds.is_primitive(kind)
        or kinds.is_decimal(kind)
        or kinds.is_interval(kind)
        or kinds.is_fixed_size_binary(kind)
    )


_KINDS: Final[tuple[tuple[Callable[[Any], bool], Callable[..., None]], ...]] = (
    (kinds.is_boolean, _add_bool),
    (_is_text, _add_text),
    (_is_list, _add_list),
    (kinds.is_map, _add_map),
    (_is_fixed, _add_fixed),
)
