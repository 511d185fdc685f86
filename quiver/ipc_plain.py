"""Which messages of an Arrow file are plainly not compressed, seen for most of them at once.

A file of 1,000 small batches is read faster than its messages are followed one by one in Python.
But a writer lays all of them out alike: the bytes that say where things are differ in none. So one
is followed, each byte that decided is noted, and all messages that have the same bytes there would
be followed in the same way. The answer goes one way only: what is not plain is looked at in
``ipc_messages``, and there it is refused.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "deciding_bytes", "plain_messages"]

BLOCK: Final = np.dtype(
    [("offset", "<i8"), ("metadata", "<i4"), ("padding", "<i4"), ("body", "<i8")]
)
_Mask = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]

_U8: Final = struct.Struct("<B")
_U16: Final = struct.Struct("<H")
_I16: Final = struct.Struct("<h")
_I32: Final = struct.Struct("<i")
_U32: Final = struct.Struct("<I")
_LENGTH: Final = np.dtype("<i8")

_SHAPES_MAX: Final = 8
"""How many messages are followed; one writer makes one shape, and a stream may have several."""

_CONTINUATION: Final = -1
_PREFIX_BYTES: Final = 8
_FILE_START: Final = 8
_VTABLE_HEAD: Final = 4
_KIND_DICTIONARY, _KIND_BATCH = 2, 3
_VERSION_5: Final = 4
# The fields of a message, and of a batch, by their place in Message.fbs.
_VERSION, _KIND, _HEADER, _BODY_LENGTH, _CUSTOM = range(5)
_DATA: Final = 1
"""The batch in a dictionary."""
_COMPRESSION: Final = 3


def plain_messages(data: memoryview, table: memoryview) -> _Mask:
    """Say of each block of ``table`` whether it is an uncompressed batch, or words, in its place.

    That is: it lies inside ``data`` and behind the one before, its own lengths are those of its
    block, and nothing in its metadata says that it is compressed. Only bytes of metadata are read.
    """
    blocks = np.frombuffer(table, BLOCK)
    found = np.zeros(len(blocks), bool)
    if not len(blocks):
        return found
    whole = np.frombuffer(data, np.uint8)
    offset, metadata, body = (
        blocks[name].astype(np.int64) for name in ("offset", "metadata", "body")
    )
    left = np.flatnonzero(_in_place((offset, metadata, body), len(whole)))
    for _ in range(_SHAPES_MAX):
        if not len(left):
            break
        first = left[0]
        shape = _Shape(data[offset[first] : offset[first] + metadata[first]])
        alike = metadata[left] == metadata[first]
        alike &= shape.fits(whole, offset[left], alike)
        if shape.is_plain:
            places = left[alike]
            found[places] = shape.body_bytes(whole, offset[places]) == body[places]
        alike[0] = True  # Whatever it is, it has been looked at.
        left = left[~alike]
    return found


def deciding_bytes(message: memoryview) -> list[int] | None:
    """Give the places of all bytes that say how a message is to be followed, but its body's length.

    None unless it is an uncompressed batch, or words. Others that have the same bytes there, and
    are as long, are too; how long their bodies are is in the same place.
    """
    shape = _Shape(message)
    return shape.places if shape.is_plain else None


def _in_place(lengths: tuple[_Numbers, _Numbers, _Numbers], size: int) -> _Mask:
    """Say which blocks lie inside of so many bytes, and behind the one before."""
    together = np.stack(lengths)
    inside: _Mask = np.logical_and.reduce((together >= 0) & (together <= size), axis=0)
    ends = np.where(inside, together.sum(axis=0), size + 1)  # No sum of such overflows.
    behind = np.concatenate(([_FILE_START], ends[:-1]))
    inside &= (lengths[0] >= behind) & (ends <= size)
    return inside


class _Shape:
    """One message followed to where compression would be, and all bytes that were read for it."""

    def __init__(self, message: memoryview) -> None:
        self._data = message
        self.places: list[int] = []
        self._body_place = 0
        try:
            self.is_plain = self._follow()
        except struct.error:
            self.is_plain = False
        self._read_bytes = np.array(self.places, np.int64)

    def fits(self, whole: Any, offsets: _Numbers, among: _Mask) -> _Mask:  # noqa: ANN401
        """Say which messages have the same bytes, of those that are as long as this one."""
        fits = among.copy()
        own = np.frombuffer(self._data, np.uint8)[self._read_bytes]
        theirs = whole[offsets[among][:, None] + self._read_bytes]
        fits[among] = (theirs == own).all(axis=1)
        return fits

    def body_bytes(self, whole: Any, offsets: _Numbers) -> _Numbers:  # noqa: ANN401
        """Give how long the bodies of messages of this shape are, by their own words."""
        places = offsets[:, None] + (self._body_place + np.arange(_LENGTH.itemsize))
        lengths: _Numbers = whole[places].view(_LENGTH).reshape(-1)
        return lengths

    def _follow(self) -> bool:
        if self._read(_I32, 0, low=0) != _CONTINUATION:
            return False
        if self._read(_I32, 4, low=0) != len(self._data) - _PREFIX_BYTES:
            return False
        message = _PREFIX_BYTES + self._read(_U32, _PREFIX_BYTES)
        version, kind, header, self._body_place, custom = (
            self._field(message, number) for number in range(_CUSTOM + 1)
        )
        if not (kind and header and self._body_place):
            return False
        if self._body_place + _LENGTH.itemsize > len(self._data):
            return False
        number = self._read(_U8, kind)
        if number not in (_KIND_BATCH, _KIND_DICTIONARY):
            return False
        if custom and (not version or self._read(_I16, version) < _VERSION_5):
            return False
        batch = header + self._read(_U32, header)
        if number == _KIND_DICTIONARY:
            inner = self._field(batch, _DATA)
            if not inner:
                return False
            batch = inner + self._read(_U32, inner)
        return self._field(batch, _COMPRESSION) == 0

    def _field(self, table: int, number: int) -> int:
        """Find a field of a table; 0 if it has none."""
        vtable = table - self._read(_I32, table)
        entry = _VTABLE_HEAD + _U16.size * number
        if self._read(_U16, vtable) < entry + _U16.size:
            return 0
        offset = self._read(_U16, vtable + entry)
        return table + offset if offset else 0

    def _read(self, number: struct.Struct, place: int, *, low: int = _PREFIX_BYTES) -> int:
        """Read a number inside of the message, and note which bytes it is."""
        if place < low:
            raise struct.error("a place lies before its message")
        value: int = number.unpack_from(self._data, place)[0]
        self.places += range(place, place + number.size)
        return value
