"""The least and the greatest value of columns: what a scan may leave out without reading it.

Of each stream for every column of an ordered type, and of each chunk for those whose values are
numbers that fit into eight bytes. Kept as bytes, as Arrow keeps one value of the type:

=====================================  ==========================================================
type                                   its bytes
=====================================  ==========================================================
integers, floats, decimals, times      little-endian, as wide as the type
bool                                   one byte
dictionary                             of its values, used or not; of text the bytes themselves,
                                       neither if one has more than 64
extension                              of its storage
=====================================  ==========================================================

Text that is in no dictionary has none: to compare it takes longer than all the rest together.
A NaN belongs to no order: a column that has one has no bounds, and a chunk has NaN for both. Bounds
leave nulls out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.arrays import truths

__all__ = [
    "Bounds",
    "ColumnBounds",
    "RunningBounds",
    "agrees",
    "column_bounds",
    "dictionary_bounds",
    "value_array",
    "value_type",
]

Column: TypeAlias = Any
"""An Arrow array or type; pyarrow's stubs know only those that are known beforehand."""

Bounds: TypeAlias = tuple[bytes, bytes]
_Numbers: TypeAlias = npt.NDArray[Any]

TEXT_BYTES_MAX: Final = 64
"""Longer text is no bound: it would take more room than it saves reading."""

_BYTE: Final = 8
_WORD: Final = 8
"""The bytes of the widest integer that numpy has."""
_SIGN: Final = 63
"""How far to shift one of those for all its bits to be those of its sign."""


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of one column of a stream; None where nothing is.

    ``chunks`` are two arrays of values, one for each chunk, as bytes one after the other. A chunk
    without a value has the widest bounds there are, or NaN.
    """

    stream: Bounds | None = None
    chunks: Bounds | None = None


def agrees(written: ColumnBounds, found: ColumnBounds) -> bool:
    """Whether written bounds are those found; an earlier release knew of fewer, which is no lie."""
    return written.stream in (None, found.stream) and written.chunks in (None, found.chunks)


def value_type(kind: Column) -> Column:
    """Give the type whose values the bounds of a column are; None if the type has no order."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif isinstance(kind, pa.DictionaryType):
            kind = kind.value_type
        else:
            break
    ordered = (
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_decimal(kind)
        or kinds.is_boolean(kind)
        or (kinds.is_temporal(kind) and not kinds.is_interval(kind))
        or _is_text(kind)
    )
    return kind if ordered else None


def _is_text(kind: Column) -> bool:
    return (
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
    )


def value_array(kind: Column, data: bytes) -> Column:
    """Read values of a bounds' type back: of text one, of all other types as many as there are.

    Raises ValueError if the bytes are not whole values.
    """
    if _is_text(kind):
        return pa.array([data], pa.binary()).cast(kind)
    if kinds.is_boolean(kind):
        return pa.array([byte != 0 for byte in data], kind)
    count, rest = divmod(len(data), kind.bit_width // _BYTE)
    if rest:
        raise ValueError(f"{len(data)} bytes are no values of {kind}")
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def column_bounds(table: pa.Table) -> list[ColumnBounds]:
    """Find the bounds of each column of a stream's chunks, of which dictionaries are united."""
    return [_bounds(column) for column in table.columns]


def _bounds(column: Column) -> ColumnBounds:
    first = _storage(column.chunk(0)) if column.num_chunks else None
    if isinstance(first, pa.DictionaryArray):
        return dictionary_bounds(first.dictionary)
    running = RunningBounds(column.type)
    if running.looks:
        running.add(column.chunks)
    return running.found()


def dictionary_bounds(words: Column) -> ColumnBounds:
    """Find the bounds of a stream's column of which these are all values."""
    kind = value_type(words.type)
    if kind is None:
        return ColumnBounds()
    if kinds.is_decimal(kind):
        running = RunningBounds(kind)
        running.add([words])
        return ColumnBounds(running.found().stream)
    return ColumnBounds(_stream_bounds(_joined([_storage(words)], kind)))


class RunningBounds:
    """The bounds of a column without dictionary, whose chunks come some at a time."""

    def __init__(self, kind: Column) -> None:
        kind = value_type(kind)
        self._kind = None if kind is None or _is_text(kind) else kind
        self._parts: list[_ChunkNumbers | Column] = []

    @property
    def looks(self) -> bool:
        """Whether it looks at values: they are of a type whose order is found in no time."""
        return self._kind is not None

    def add(self, chunks: Sequence[Column]) -> None:
        """Look at chunks."""
        kind = self._kind
        if kind is None or not chunks:
            return
        stored = chunks
        if _storage(chunks[0]) is not chunks[0]:
            stored = [_storage(chunk) for chunk in chunks]
        numbers = None if kinds.is_boolean(kind) else _chunk_numbers(stored, kind)
        self._parts.append(_extremes(_joined(stored, kind)) if numbers is None else numbers)

    def found(self) -> ColumnBounds:
        """Give the bounds of all chunks so far."""
        numbers = [part for part in self._parts if isinstance(part, _ChunkNumbers)]
        if len(numbers) == len(self._parts):
            return _number_bounds(numbers, self._kind) if numbers else ColumnBounds()
        values = [
            part.extremes(self._kind) if isinstance(part, _ChunkNumbers) else part
            for part in self._parts
        ]
        return ColumnBounds(_stream_bounds(_joined(values, self._kind)))


def _joined(chunks: Sequence[Column], kind: Column) -> Column:
    every: Column = pa.chunked_array
    return every(chunks, kind)


def _storage(array: Column) -> Column:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(array, pa.DictionaryArray) and isinstance(
        array.dictionary.type, pa.BaseExtensionType
    ):
        return pa.DictionaryArray.from_arrays(array.indices, _storage(array.dictionary))
    return array


def _stream_bounds(values: Column) -> Bounds | None:
    try:
        both: Any = pc.min_max(values)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return None
    low, high = both["min"], both["max"]
    if not low.is_valid:
        return None
    kind = values.type
    if kinds.is_boolean(kind):
        return bytes([low.as_py()]), bytes([high.as_py()])
    if kinds.is_floating(kind):
        return None if _has_nan(values) else (_raw(low), _raw(high))
    if not _is_text(kind):
        return _raw(low), _raw(high)
    least, greatest = low.as_buffer().to_pybytes(), high.as_buffer().to_pybytes()
    return (least, greatest) if max(len(least), len(greatest)) <= TEXT_BYTES_MAX else None


def _has_nan(values: Column) -> bool:
    return bool(pc.any(pc.is_nan(values)).as_py())


def _raw(scalar: Column) -> bytes:
    """Give the bytes that Arrow keeps of one value of fixed width."""
    array: Column = pa.repeat(scalar, 1)
    return array.buffers()[1].slice(0, array.type.bit_width // _BYTE).to_pybytes()


def _extremes(values: Column) -> Column:
    """Give an array of the least and the greatest value, or of nulls."""
    both: Any = pc.min_max(values)
    return pa.concat_arrays([pa.repeat(both[name], 1) for name in ("min", "max")])


@dataclass(frozen=True, slots=True)
class _ChunkNumbers:
    """Least and greatest value of each chunk; of those that are not ``known`` the widest."""

    least: _Numbers
    greatest: _Numbers
    known: npt.NDArray[np.bool_]

    def extremes(self, kind: Column) -> Column:
        """Give all that are known as values of the type."""
        values = np.concatenate((self.least[self.known], self.greatest[self.known]))
        return value_array(kind, _stored(values, kind))


def _chunk_numbers(chunks: Sequence[Column], kind: Column) -> _ChunkNumbers | None:
    """Reduce all chunks at once: a call for each would cost more than the values do.

    None for decimals of which one does not fit into the eight bytes that numpy's integers have.
    """
    lengths = np.array([len(chunk) for chunk in chunks], np.int64)
    low, high = _widest(_dtype(kind))
    every = np.full((2, len(chunks)), low, _dtype(kind))
    every[1] = high
    known = np.zeros(len(chunks), bool)
    if lengths.sum():
        whole = pa.concat_arrays([chunk for chunk in chunks if len(chunk)])
        valid = None
        if whole.null_count:
            valid = truths(whole.is_valid())
        values = _numbers(whole, kind, valid)
        if values is None:
            return None
        starts = np.concatenate(([0], np.cumsum(lengths[lengths > 0])[:-1]))
        filled = np.flatnonzero(lengths)
        known[filled] = True if valid is None else np.logical_or.reduceat(valid, starts)
        least = values if valid is None else np.where(valid, values, high)
        greatest = values if valid is None else np.where(valid, values, low)
        is_known = known[filled]
        every[0, known] = _reduce(np.minimum, least, starts)[is_known]
        every[1, known] = _reduce(np.maximum, greatest, starts)[is_known]
    return _ChunkNumbers(every[0], every[1], known)


def _number_bounds(parts: Sequence[_ChunkNumbers], kind: Column) -> ColumnBounds:
    least, greatest, known = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("least", "greatest", "known")
    )
    if not known.any():
        return ColumnBounds()
    low, high = least[known].min(keepdims=True), greatest[known].max(keepdims=True)
    return ColumnBounds(
        None if np.isnan(low).any() else (_stored(low, kind), _stored(high, kind)),
        (_stored(least, kind), _stored(greatest, kind)),
    )


def _reduce(how: np.ufunc, values: _Numbers, starts: _Numbers) -> _Numbers:
    with np.errstate(invalid="ignore"):
        return how.reduceat(values, starts)


def _numbers(array: Column, kind: Column, valid: _Numbers | None) -> _Numbers | None:
    """View fixed-width values as numpy numbers; nulls hold anything.

    None for decimals of which one does not fit into the eight bytes that numpy's integers have.
    """
    dtype = _dtype(kind)
    words = _words(kind)
    count = (array.offset + len(array)) * words
    rows = np.frombuffer(array.buffers()[1], dtype, count).reshape(-1, words)[array.offset :]
    if words == 1:
        return rows[:, 0]
    low = np.ascontiguousarray(rows[:, 0])
    sign = low >> _SIGN
    fits = np.logical_and.reduce([rows[:, word] == sign for word in range(1, words)])
    return low if (fits if valid is None else fits | ~valid).all() else None


def _dtype(kind: Column) -> np.dtype[Any]:
    width = min(kind.bit_width // _BYTE, _WORD)
    if kinds.is_floating(kind):
        return np.dtype(f"<f{width}")
    return np.dtype(f"<u{width}" if kinds.is_unsigned_integer(kind) else f"<i{width}")


def _words(kind: Column) -> int:
    return max(kind.bit_width // _BYTE // _WORD, 1)


def _stored(values: _Numbers, kind: Column) -> bytes:
    """Write numbers as wide as their type, of which wide decimals repeat the sign."""
    words = _words(kind)
    if words == 1:
        return values.tobytes()
    return np.stack([values, *[values >> _SIGN] * (words - 1)], axis=1).tobytes()


def _widest(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Give the least and greatest value of a type; for floats NaN stands for no bounds."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    info = np.iinfo(dtype)
    return info.min, info.max
