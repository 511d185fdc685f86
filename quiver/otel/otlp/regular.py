"""Attributes that all items have alike: the same keys in the same order, with the same kinds.

So does who logs with one format. Then the table is known but for its values: one item says what to
look for, all are held to it, and what does not fit to the last byte is left to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.otlp.columns import words
from quiver.otel.otlp.plain import come_again, plain_texts, text_ranges
from quiver.otel.otlp.values import BOOL, CASES, DOUBLE, INT, STR
from quiver.otel.wire import Ints, Ranges, Source, read_varints, span

__all__ = ["read_regular"]

_EACH_MAX: Final = 64
_ROWS_MAX: Final = 1 << 13
"""So many rows are kept for the next request."""
_KEY, _VALUE = span(1), span(2)
_LONG: Final = 0x80
_DOUBLE_BYTES: Final = 9
_BOOL_BYTES: Final = 2
_KINDS: Final = {case.tag: case.kind for case in CASES if case.kind in {STR, INT, DOUBLE, BOOL}}
_NAMES: Final = {STR: "str", INT: "int", DOUBLE: "double", BOOL: "bool"}
_TYPES: Final = {INT: pa.int64(), DOUBLE: pa.float64(), BOOL: pa.bool_()}


class _Layout(NamedTuple):
    """What the attributes of one item are."""

    heads: tuple[bytes, ...]
    """Each KeyValue up to the length of its value: its key is in there."""
    tags: tuple[int, ...]


class _Frame(NamedTuple):
    """All of a table but its values."""

    columns: list[pa.Array[Any]]
    fields: list[pa.Field[Any]]
    places: dict[int, list[int]]
    """By kind, which attributes of an item are of it."""
    valid: dict[int, tuple[pa.Buffer | None, int]]
    """By kind, which rows have a value, and how many have none."""
    told: Ints
    """How many texts stand before each row, and in all."""


def read_regular(source: Source, parts: Ranges, *, ids: pa.DataType) -> pa.RecordBatch | None:
    """Give the table of these KeyValues; None if they are not alike, or malformed."""
    count = int(parts.owner[-1]) + 1
    each, rest = divmod(parts.size, count)
    if rest or each > _EACH_MAX:
        return None
    if parts.owner.tobytes() != _owners(count, each).tobytes():
        return None
    layout = _layout(source, parts.start[:each].tolist())
    if layout is None or not _has_heads(source, parts.start.reshape(count, each), layout.heads):
        return None
    frame = (_frame if parts.size <= _ROWS_MAX else _frame.__wrapped__)(layout, count, ids)
    try:
        return None if frame is None else _fill(source, parts, layout, frame=frame)
    except InputError:
        return None  # Others say where it is.


@lru_cache(64)
def _owners(count: int, each: int) -> Ints:
    return np.repeat(np.arange(count), each)


def _layout(source: Source, starts: Sequence[int]) -> _Layout | None:
    """Look at the attributes of the first item."""
    data, heads, tags = source.data, list[bytes](), list[int]()
    for start in starts:
        size = data[start + 1]
        at = start + 3 + size
        if data[start] != _KEY or size >= _LONG or at >= source.size or data[at - 1] != _VALUE:
            return None
        heads.append(data[start:at])
        tag = data[at + (1 if data[at] < _LONG else 2)]
        if tag not in _KINDS:
            return None
        tags.append(tag)
    return _Layout(tuple(heads), tuple(tags))


def _has_heads(source: Source, start: Ints, heads: Sequence[bytes]) -> bool:
    """Whether each item has these heads at its places."""
    for row, head in enumerate(heads):
        size, at = len(head), start[:, row]
        room = source.size - size + 1
        if int(at[-1]) >= room:  # They ascend.
            return False
        pieces = np.ndarray((room,), f"V{size}", source.data, strides=(1,))
        if pieces[at].tobytes() != head * at.size:
            return False
    return True


@lru_cache(64)
def _frame(layout: _Layout, count: int, ids: pa.DataType) -> _Frame | None:
    """Give what is the same in all tables of so many items; None if a key is no text."""
    try:
        keys = [head[2:-1].decode() for head in layout.heads]
    except UnicodeDecodeError:
        return None
    known = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    kinds = [_KINDS[tag] for tag in layout.tags]
    owners = np.repeat(np.arange(count), len(keys)).astype(ids.to_pandas_dtype())
    indices: Any = np.tile(np.array([known[key] for key in keys], np.uint8), count)
    key = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(known), pa.string()))
    kind = np.tile(np.array(kinds, np.uint8), count)
    columns: list[pa.Array[Any]] = [pa.array(owners), key, pa.array(kind)]
    fields = [
        pa.field(name, column.type, nullable=False)
        for name, column in zip(("parent_id", "key", "type"), columns, strict=True)
    ]
    places, valid = dict[int, list[int]](), dict[int, tuple[pa.Buffer | None, int]]()
    for case in (STR, INT, DOUBLE, BOOL):
        if case in kinds:
            places[case] = [place for place, each in enumerate(kinds) if each == case]
            bits = pa.py_buffer(np.packbits(kind == case, bitorder="little").data)
            absent = int(np.count_nonzero(kind != case))
            valid[case] = (bits if absent else None), absent
    told = np.concatenate([[0], np.cumsum(kind == STR)])
    return _Frame(columns, fields, places, valid, told)


def _fill(
    source: Source, parts: Ranges, layout: _Layout, *, frame: _Frame
) -> pa.RecordBatch | None:
    each = len(layout.heads)
    shape = (parts.size // each, each)
    end = parts.end.reshape(shape)
    heads = np.array([len(head) for head in layout.heads])
    at = text_ranges(source, parts.start.reshape(shape) + heads, end)
    if at is None or source.octets[at].tobytes() != bytes(layout.tags) * shape[0]:
        return None
    columns, fields = list(frame.columns), list(frame.fields)
    for kind, places in frame.places.items():
        whole = len(places) == each
        inside, stop = (at, end) if whole else (at[:, places], end[:, places])
        if kind == STR:
            column = _texts(source, inside.ravel() + 1, stop.ravel(), frame=frame)
        else:
            column = _numbers(source, kind, (inside, stop, shape), frame=frame)
        if column is None:
            return None
        columns.append(column)
        fields.append(pa.field(_NAMES[kind], column.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _texts(source: Source, at: Ints, end: Ints, *, frame: _Frame) -> pa.Array[Any] | None:
    valid, absent = frame.valid[STR]
    start = text_ranges(source, at, end)
    found = None if start is None else plain_texts(source, start, end)
    if start is None or found is None:
        return None
    offsets, data = found
    if absent:
        offsets = offsets[frame.told]
    count = frame.told.size - 1
    buffers = [valid, pa.py_buffer(offsets.data), data]
    if come_again(source, start, end, each=len(frame.places[STR])):
        values = pa.Array.from_buffers(pa.binary(), count, buffers, absent)
        return words(values, frame.told[:-1], least=16)
    return pa.Array.from_buffers(pa.string(), count, buffers, absent)


def _numbers(
    source: Source, kind: int, where: tuple[Ints, Ints, tuple[int, int]], *, frame: _Frame
) -> pa.Array[Any] | None:
    at, end, shape = where
    value: Any
    if kind == INT:
        value, after = read_varints(source, at.ravel() + 1)
        fits = after.tobytes() == end.tobytes()
        value = value.view(np.int64)
    elif kind == DOUBLE:
        fits = (at + _DOUBLE_BYTES).tobytes() == end.tobytes()
        value = source.words64[at + 1].view(np.float64) if fits else None
    else:
        value = source.octets[at + 1]
        fits = (at + _BOOL_BYTES).tobytes() == end.tobytes() and value.tobytes().isascii()
        value = value != 0
    if not fits:
        return None
    if len(frame.places[kind]) < shape[1]:
        full = np.zeros(shape, value.dtype)
        full[:, frame.places[kind]] = value.reshape(shape[0], -1)
        value = full
    if kind == BOOL:
        value = np.packbits(value.ravel(), bitorder="little")
    valid, absent = frame.valid[kind]
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(value).data)]
    return pa.Array.from_buffers(_TYPES[kind], shape[0] * shape[1], buffers, absent)
