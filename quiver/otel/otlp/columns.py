"""Columns of payloads: dictionaries where values come again, and none where there are no values."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from quiver.otel.wire import Flags, Ints, Longs, Source, as_text, binaries

__all__ = ["Columns", "fixed_ids", "rare", "text_column", "times", "words"]

_U8_MAX: Final = 1 << 8
_U16_MAX: Final = 1 << 16
_SAMPLE: Final = 256
_LOW_BITS: Final = np.uint64(0xFFFF_FFFF)
_SHORT: Final = 8
_OF_SIZE: Final = np.array([(1 << 8 * size) - 1 for size in range(_SHORT + 1)], np.uint64)
_LEAST: Final = np.array([0, *(1 << 8 * size for size in range(_SHORT))], np.uint64)
_FEW_TEXTS: Final = 16


class Columns:
    """Columns of one batch or struct in the order in which they are given, but for absent ones."""

    __slots__ = ("_columns", "_fields")

    def __init__(self) -> None:
        """Start without any."""
        self._columns: list[pa.Array[Any]] = []
        self._fields: list[pa.Field[Any]] = []

    def add(self, name: str, column: pa.Array[Any] | None, *, nullable: bool = True) -> None:
        """Add a column; None is one that is left out."""
        if column is not None:
            self._columns.append(column)
            self._fields.append(pa.field(name, column.type, nullable=nullable))

    def count(self, name: str, values: Longs) -> None:
        """Add a number of 32 bits, of which protobuf takes the low ones; none if all are 0."""
        low = values & _LOW_BITS
        if low.any():
            self.add(name, pa.array(low.astype(np.uint32)))

    def batch(self) -> pa.RecordBatch:
        """Give them as a batch."""
        return pa.RecordBatch.from_arrays(self._columns, schema=pa.schema(self._fields))

    def struct(self, absent: Flags | None = None) -> pa.Array[Any]:
        """Give them as one column, null where ``absent``."""
        mask = pa.array(absent) if absent is not None and absent.any() else None
        return pa.StructArray.from_arrays(self._columns, fields=self._fields, mask=mask)


def text_column(source: Source, at: tuple[Ints, Ints]) -> pa.Array[Any] | None:
    """Give a text of which the empty one and none are the same; None if there is none at all."""
    start, end = at
    if start.size and (column := _short_texts(source, start, end)) is not None:
        return column
    start = np.where(end > start, start, -1)
    if not start.size or int(start.max()) < 0:
        return None
    return words(binaries(source, start, end), start, least=8)


def _short_texts(source: Source, start: Ints, end: Ints) -> pa.Array[Any] | None:
    """Give texts of a few bytes and few values as a dictionary; None if they are none of these."""
    sizes = end - start
    if int(sizes.max()) > _SHORT:
        return None
    found = source.words64[start] & _OF_SIZE[sizes]
    known = dict.fromkeys(found.tolist())
    absent = found == 0
    missing = int(np.count_nonzero(absent))
    told = [each for each in known if each]
    if not told or len(known) > _FEW_TEXTS or np.count_nonzero(found < _LEAST[sizes]):
        return None  # Some end with a zero, and look as without it.
    try:
        meant, kind = _meant(tuple(told))
    except UnicodeDecodeError:
        return None
    keys = np.zeros(found.size, np.uint8)
    for key, each in enumerate(told[1:], 1):
        keys[found == np.uint64(each)] = key
    valid = pa.py_buffer(np.packbits(~absent, bitorder="little").data) if missing else None
    buffers = [valid, pa.py_buffer(keys.data)]
    return pa.DictionaryArray.from_buffers(kind, found.size, buffers, meant, missing)


@lru_cache(64)
def _meant(told: tuple[int, ...]) -> tuple[pa.Array[Any], Any]:
    texts = [each.to_bytes(8, "little").rstrip(b"\0").decode() for each in told]
    meant = pa.array(texts, pa.string())
    return meant, pa.dictionary(pa.uint8(), meant.type)


def words(values: pa.Array[Any], start: Ints, *, least: int, text: bool = True) -> pa.Array[Any]:
    """Give values as a dictionary with keys of ``least`` or 16 bits if that is shorter.

    ``start`` is where each value was, for the error of a text that is none.
    """
    if least == 8 or _come_again(values):  # noqa: PLR2004
        encoded = values.dictionary_encode()
        known = len(encoded.dictionary)
        narrow = least == 8 and known <= _U8_MAX  # noqa: PLR2004
        if narrow or (known <= _U16_MAX and 2 * known <= len(values)):
            meant = encoded.dictionary
            if text:
                meant = meant.view(pa.string())
                try:
                    meant.validate(full=True)
                except pa.ArrowInvalid:
                    return as_text(values, start)  # Which says where.
            return _with_keys(encoded.indices, meant, np.uint8 if narrow else np.uint16)
    return as_text(values, start) if text else values


def _with_keys(
    keys: pa.Array[Any], meant: pa.Array[Any], width: type[np.uint8 | np.uint16]
) -> pa.Array[Any]:
    """Make a dictionary with keys of another width, which all of them fit."""
    valid, numbers = cast("tuple[pa.Buffer | None, pa.Buffer]", keys.buffers())
    narrow = np.frombuffer(memoryview(numbers), np.int32)[: len(keys)].astype(width)
    key: Any = pa.from_numpy_dtype(narrow.dtype)
    kind: Any = pa.dictionary(key, meant.type)
    buffers = [valid, pa.py_buffer(narrow.data)]
    return pa.DictionaryArray.from_buffers(kind, len(keys), buffers, meant, keys.null_count)


def _come_again(values: pa.Array[Any]) -> bool:
    """Whether a sample has so few different values that looking at all is worth it."""
    count = len(values)
    if count <= _SAMPLE:
        return True
    sample = values.take(np.arange(0, count, count // _SAMPLE))
    told = len(sample) - sample.null_count
    return told == 0 or 2 * len(sample.dictionary_encode().dictionary) <= told


def times(values: Longs) -> pa.Array[Any]:
    """Give times; those from 2262 on, which have no place, as negative ones of the same bits."""
    return pa.array(values.view(np.int64)).view(pa.timestamp("ns"))


def fixed_ids(
    source: Source, at: tuple[Ints, Ints], size: int
) -> tuple[pa.Array[Any] | None, pa.Array[Any] | None]:
    """Give ids of one size, and those that have another one: None for what there is none of."""
    start, end = at
    sizes = end - start
    right = sizes == size
    if right.size and np.count_nonzero(right) == right.size:
        pieces = np.ndarray((source.size - size + 1,), f"V{size}", source.data, strides=(1,))
        whole = [None, pa.py_buffer(pieces[start].view(np.uint8).data)]
        return pa.Array.from_buffers(pa.binary(size), right.size, whole, 0), None
    fixed = None
    if right.any():
        content = np.zeros((start.size, size // 8), np.uint64)
        for word in range(size // 8):
            content[right, word] = source.words64[start[right] + 8 * word]
        valid = None if right.all() else pa.py_buffer(np.packbits(right, bitorder="little").data)
        buffers = [valid, pa.py_buffer(content.data)]
        fixed = pa.Array.from_buffers(pa.binary(size), start.size, buffers)
    odd = (sizes > 0) & ~right
    return fixed, binaries(source, np.where(odd, start, -1), end) if odd.any() else None


def rare(rows: Ints, values: list[bytes], count: int) -> pa.Array[Any]:
    """Give a column of so many rows in which only these have a value."""
    keys = np.zeros(count, np.int64)
    absent = np.ones(count, np.bool_)
    keys[rows] = np.arange(rows.size)
    absent[rows] = False
    return pa.array(values, pa.binary()).take(pa.array(keys, pa.int64(), mask=absent))
