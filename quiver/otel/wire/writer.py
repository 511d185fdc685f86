"""Messages that are written many at a time: sizes from the bottom up, then one buffer is filled.

A ``Messages`` is all messages of one kind. Each of its fields is a column; fields come out in the
order in which they were given, which should be that of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.wire.frames import varint_bytes
from quiver.otel.wire.reader import fixed32, fixed64, span, varint
from quiver.otel.wire.source import BYTES_MAX, Flags, Ints, Longs, Octets
from quiver.otel.wire.varints import varint_sizes, write_varints

__all__ = ["Messages"]

_TEXTS: Final = (pa.string(), pa.binary())
_BLOCK: Final = 1 << 16
"""As many bytes are copied at a time: what says where they go shall fit into the cache."""

_Put = Callable[[Octets, Ints], None]


class _Field(NamedTuple):
    """A column: which messages have it, the sizes of those, and what writes it at their places."""

    where: Ints | None
    sizes: Ints
    put: _Put


class Messages:
    """So many messages of one kind, to which fields are added."""

    __slots__ = ("_fields", "sizes")

    def __init__(self, count: int) -> None:
        """Start with messages that are empty."""
        self.sizes: Ints = np.zeros(count, np.int64)
        self._fields: list[_Field] = []

    def varint(self, number: int, values: Longs, present: Flags | None = None) -> None:
        """Add a number that each message has, or those where ``present``."""
        where, values = _some(values, present)
        tag = varint_bytes(varint(number))

        def put(out: Octets, at: Ints) -> None:
            write_varints(out, _stamp(out, at, tag), values)

        self._add(_Field(where, varint_sizes(values) + len(tag), put))

    def fixed64(self, number: int, words: Longs, present: Flags | None = None) -> None:
        """Add a number of 8 bytes, given as its bits."""
        self._words(varint_bytes(fixed64(number)), np.asarray(words, "<u8"), present)

    def fixed32(self, number: int, words: Longs, present: Flags | None = None) -> None:
        """Add a number of 4 bytes, given as its bits."""
        self._words(varint_bytes(fixed32(number)), np.asarray(words, "<u4"), present)

    def text(self, number: int, column: pa.Array[Any], present: Flags | None = None) -> None:
        """Add a text, or bytes, that each message has; none where it is null or not ``present``."""
        data, start, sizes, valid = _column(column)
        if valid is not None:
            present = valid if present is None else present & valid
        where, sizes = _some(sizes, present)
        self._ranges(number, where, (data, start if where is None else start[where], sizes))

    def children(self, number: int, child: Messages, counts: Ints) -> None:
        """Add messages: ``counts`` says how many of ``child``, in order, each message has."""
        tag = varint_bytes(span(number))
        framed = len(tag) + varint_sizes(child.sizes.view(np.uint64)) + child.sizes
        where, counts = _some(counts, counts > 0)
        before = np.cumsum(framed) - framed
        first = np.cumsum(counts) - counts
        sizes = np.add.reduceat(framed, first) if first.size else counts

        def put(out: Octets, at: Ints) -> None:
            place = np.repeat(at - before[first], counts) + before
            place = _stamp(out, place, tag)
            write_varints(out, place, child.sizes.view(np.uint64))
            child._fill(out, place + framed - child.sizes - len(tag))

        self._add(_Field(where, sizes, put))

    def packed_fixed64(self, number: int, words: Longs, counts: Ints) -> None:
        """Add a repeated number of 8 bytes; ``counts`` says how many each message has."""
        where, counts = _some(counts, counts > 0)
        data = np.ascontiguousarray(words, "<u8").view(np.uint8)
        ends = np.cumsum(counts) * 8
        self._ranges(number, where, (data, ends - counts * 8, counts * 8))

    def packed_varints(self, number: int, values: Longs, counts: Ints) -> None:
        """Add a repeated varint; ``counts`` says how many each message has."""
        where, counts = _some(counts, counts > 0)
        sizes = varint_sizes(values)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        data = np.empty(int(ends[-1]), np.uint8)
        write_varints(data, ends[:-1], values)
        last = np.cumsum(counts)
        start = ends[last - counts]
        self._ranges(number, where, (data, start, ends[last] - start))

    def raw(self, column: pa.Array[Any]) -> None:
        """Add fields that are written already, as bytes; none where it is null."""
        data, start, sizes, valid = _column(column)
        where, sizes = _some(sizes, valid)
        start = start if where is None else start[where]
        self._add(_Field(where, sizes, lambda out, at: _copy(out, at, (data, start, sizes))))

    def to_bytes(self) -> bytes:
        """Give all messages one behind the other, without lengths: for the outermost, the only one.

        Raises InputError if that is longer than a message may be.
        """
        total = int(self.sizes.sum())
        if total > BYTES_MAX:
            raise InputError(
                f"a message of {total} bytes; at most {BYTES_MAX} can be written",
                hint="encode fewer rows at once",
            )
        out = np.empty(total, np.uint8)
        self._fill(out, np.cumsum(self.sizes) - self.sizes)
        return out.tobytes()

    def _add(self, field: _Field) -> None:
        if field.where is None:
            self.sizes += field.sizes
        else:
            self.sizes[field.where] += field.sizes
        self._fields.append(field)

    def _fill(self, out: Octets, at: Ints) -> None:
        """Write each message at its place."""
        at = at.copy()
        for where, sizes, put in self._fields:
            if where is None:
                put(out, at)
                at += sizes
            elif where.size:
                put(out, at[where])
                at[where] += sizes

    def _words(self, tag: bytes, words: np.ndarray[Any, Any], present: Flags | None) -> None:
        where, words = _some(words, present)
        rows = np.ascontiguousarray(words).view(np.uint8).reshape(words.size, words.itemsize)
        sizes = np.full(words.size, len(tag) + words.itemsize)

        def put(out: Octets, at: Ints) -> None:
            at = _stamp(out, at, tag)
            for place in range(rows.shape[1]):
                out[at + place] = rows[:, place]

        self._add(_Field(where, sizes, put))

    def _ranges(self, number: int, where: Ints | None, taken: tuple[Octets, Ints, Ints]) -> None:
        tag = varint_bytes(span(number))
        _, _, sizes = taken
        lengths = sizes.view(np.uint64)
        heads = varint_sizes(lengths)

        def put(out: Octets, at: Ints) -> None:
            at = _stamp(out, at, tag)
            write_varints(out, at, lengths)
            _copy(out, at + heads, taken)

        self._add(_Field(where, len(tag) + heads + sizes, put))


def _some(
    values: np.ndarray[Any, Any], present: Flags | None
) -> tuple[Ints | None, np.ndarray[Any, Any]]:
    """Give who is present, None for all, and their values."""
    if present is None or bool(present.all()):
        return None, values
    where = np.flatnonzero(present)
    return where, values[where]


def _stamp(out: Octets, at: Ints, tag: bytes) -> Ints:
    """Write the same few bytes at each place; give the places behind them."""
    for octet in tag:
        out[at] = octet
        at = at + 1
    return at


def _column(column: pa.Array[Any]) -> tuple[Octets, Ints, Ints, Flags | None]:
    """Give the bytes of a column, where each value starts in them, its size, and who has one."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = _octets(column.buffers()[1])
        start = (np.arange(len(column)) + column.offset) * width
        return data, start, np.full(len(column), width), valid
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if not large:
        column = column.cast(pa.string()) if column.type not in _TEXTS else column
    _, bounds, content = column.buffers()
    numbers = _octets(bounds).view(np.int64 if large else np.int32)
    ends: Ints = numbers[column.offset : column.offset + len(column) + 1].astype(np.int64)
    sizes = ends[1:] - ends[:-1]
    return _octets(content), ends[: sizes.size], sizes, valid


def _octets(buffer: pa.Buffer | None) -> Octets:
    return np.frombuffer(b"" if buffer is None else memoryview(buffer), np.uint8)


def _copy(out: Octets, at: Ints, taken: tuple[Octets, Ints, Ints]) -> None:
    """Copy ranges of bytes to their places."""
    data, start, sizes = taken
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    if not total:
        return
    shift_in, shift_out = start - (ends - sizes), at - (ends - sizes)
    in_order = bool((shift_in == shift_in[0]).all())
    blocks = np.searchsorted(ends, np.arange(_BLOCK, total, _BLOCK)).tolist()
    for low, high in zip([0, *blocks], [*blocks, ends.size], strict=True):
        if low == high:
            continue
        first = int(ends[low] - sizes[low])
        run = np.arange(first, int(ends[high - 1]))
        lengths = sizes[low:high]
        if in_order:
            piece = data[first + int(shift_in[0]) : int(ends[high - 1] + shift_in[0])]
        else:
            piece = data[run + np.repeat(shift_in[low:high], lengths)]
        out[run + np.repeat(shift_out[low:high], lengths)] = piece
