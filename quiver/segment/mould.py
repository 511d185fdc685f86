"""Directories that differ from one read before in nothing but numbers are not decoded again.

Segments of a store have directories of few shapes: the same slots, schemas and streams, at other
offsets and times. A mould is one that was read and checked in full, with the places of its numbers.
Another one of its length, with the same bytes everywhere else, is read by its numbers alone: what
Arrow checks of it, offsets, validity, text and schema, was checked before, byte for byte. Arrow is
not given that one at all, so nothing that is unchecked can reach it.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from quiver.segment.tables import Column

__all__ = ["SEQ_KEY", "Mould", "Moulds", "Values"]

SEQ_KEY: Final = b"quiver.segment_seq"
"""The one text of a directory's metadata that each segment has another one of: a number."""

Values: TypeAlias = list[Sequence[Any]]
"""What is in a table, column by column."""

Places: TypeAlias = Sequence[tuple[int, int]]
"""Where bytes start, and how many they are."""

_SCHEMAS: Final = 2
"""An Arrow file has its schema in front, and in its footer again."""
_TEXT: Final = struct.Struct("<I")
_BYTE: Final = 8
_CODES: Final = {8: "B", 16: "H", 32: "I", 64: "Q"}
_BYTES_MAX: Final = 1 << 16
_SHAPES_MAX: Final = 32
_ALIKE_MAX: Final = 4


class _Numbers(NamedTuple):
    """Where the values of a column lie; with ``ends`` they belong to lists that end there."""

    column: int
    start: int
    layout: struct.Struct
    valid: Sequence[bool] | None
    ends: Sequence[int] | None

    def read(self, data: bytes) -> Sequence[Any]:
        values: Sequence[Any] = self.layout.unpack_from(data, self.start)
        if self.ends is not None:
            return [values[first:end] for first, end in itertools.pairwise(self.ends)]
        if self.valid is not None:
            return [value if v else None for value, v in zip(values, self.valid, strict=True)]
        return values


class Mould:
    """The shape of one directory, and all of it that is no number."""

    def __init__(
        self, data: bytes, columns: Values, numbers: Sequence[_Numbers], *, texts: Places
    ) -> None:
        """Take a directory, its values, and where numbers lie and the texts of one; see ``of``."""
        self._columns = columns
        self._numbers = numbers
        self._texts = texts
        places = [(each.start, each.layout.size) for each in numbers]
        self._gaps = [(start, start + size, bytes(size)) for start, size in (*places, *texts)]
        self._rest = self._blanked(data)

    @classmethod
    def of(cls, data: pa.Buffer, arrays: Sequence[Column], columns: Values) -> Mould | None:
        """Make a mould of a directory that was found good; None if its bytes lie strangely.

        ``arrays`` are its columns, None for each that it has not, and ``columns`` their values.
        """
        if data.size > _BYTES_MAX:
            return None
        known = [(place, array) for place, array in enumerate(arrays) if array is not None]
        buffers = [buffer for _, array in known for buffer in array.buffers() if buffer]
        regions = [(buffer.address - data.address, buffer.size) for buffer in buffers]
        texts = _seq_texts(data.to_pybytes())
        if len(texts) != _SCHEMAS or not _lie_apart([*regions, *texts], data.size):
            return None
        numbers = [found for place, array in known if (found := _numbers(place, array, data))]
        return cls(data.to_pybytes(), columns, numbers, texts=texts)

    def cast(self, data: bytes) -> tuple[Values, int] | None:
        """Read another directory: its values, and the segment's number; None if it does not fit."""
        if len(data) != len(self._rest) or self._blanked(data) != self._rest:
            return None
        texts = {data[start : start + size] for start, size in self._texts}
        seq = texts.pop() if len(texts) == 1 else b""
        if not seq.isdigit():
            return None
        columns = list(self._columns)
        for numbers in self._numbers:
            columns[numbers.column] = numbers.read(data)
        return columns, int(seq)

    def _blanked(self, data: bytes) -> bytearray:
        blank = bytearray(data)
        for start, end, zeros in self._gaps:
            blank[start:end] = zeros
        return blank


def _lie_apart(places: Places, length: int) -> bool:
    """Whether nothing lies on a number, so that all else is compared."""
    ends = 0
    for start, size in sorted(places):
        if start < ends:
            return False
        ends = start + size
    return ends <= length


def _numbers(place: int, array: Column, data: pa.Buffer) -> _Numbers | None:
    """Find the values of a column of numbers, or of lists of numbers; None for any other one."""
    kind, ends = array.type, None
    if kinds.is_list(kind) and not array.null_count:
        ends = array.offsets.to_pylist()
        array, kind = array.values, kind.value_type
        if array.null_count or ends[0]:
            return None
    if not kinds.is_integer(kind) or not len(array):
        return None
    code = _CODES[kind.bit_width]
    if not kinds.is_unsigned_integer(kind):
        code = code.lower()
    valid = array.is_valid().to_pylist() if array.null_count else None
    start = array.buffers()[1].address - data.address + array.offset * kind.bit_width // _BYTE
    return _Numbers(place, start, struct.Struct(f"<{len(array)}{code}"), valid, ends)


def _seq_texts(data: bytes) -> Places:
    """Find where the segment's number is written: right before its key, as Arrow lays it out."""
    found: list[tuple[int, int]] = []
    key = _TEXT.pack(len(SEQ_KEY)) + SEQ_KEY
    place = data.find(key)
    while place >= 0:
        digits = data[:place].rstrip(b"\0")
        size = len(digits) - len(digits.rstrip(b"0123456789"))
        start = len(digits) - size
        if _TEXT.pack(size) == data[start - _TEXT.size : start]:
            found.append((start, size))
        place = data.find(key, place + 1)
    return found


class Moulds:
    """The moulds of this process, a few of each length. Safe for several threads at once."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._by_length: dict[int, tuple[tuple[Mould, Any], ...]] = {}

    def cast(self, data: pa.Buffer) -> tuple[Values, int, Any] | None:
        """Read a directory by a mould that it fits: values, number, and what was kept with it."""
        alike = self._by_length.get(data.size, ())
        taken = data.to_pybytes() if alike else b""
        for mould, beside in alike:
            found = mould.cast(taken)
            if found is not None:
                return *found, beside
        return None

    def keep(self, mould: Mould, length: int, beside: object) -> None:
        """Keep a mould for directories of this length, and something beside it."""
        with self._lock:
            alike = self._by_length.pop(length, ())
            self._by_length[length] = ((mould, beside), *alike[: _ALIKE_MAX - 1])
            if len(self._by_length) > _SHAPES_MAX:
                del self._by_length[next(iter(self._by_length))]
