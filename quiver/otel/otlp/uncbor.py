"""Back from CBOR: lists and maps of attributes as the protobuf of OTLP.

What comes here may be what another program wrote: all of RFC 8949 that OTLP has a place for is
taken, half floats and lengths that are told at the end among it; the rest is an InputError.
"""

from __future__ import annotations

import struct
from typing import Final

from quiver.errors import InputError
from quiver.otel.wire import frame, varint_bytes

__all__ = ["cbor_as_list", "cbor_as_map"]

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG, _SIMPLE = range(8)
_OPEN: Final = 31
_BREAK: Final = 0xFF
_SIZES: Final = {24: 1, 25: 2, 26: 4, 27: 8}
_FLOATS: Final = {25: struct.Struct(">e"), 26: struct.Struct(">f")}
_EIGHT: Final = 27
_DOUBLE: Final = struct.Struct("<Bd")
_I64: Final = 1 << 63


def cbor_as_list(data: bytes, room: int) -> bytes:
    """Give the ArrayValue that this list is; it may hold messages ``room`` deep."""
    return _whole(data, _LIST, room)


def cbor_as_map(data: bytes, room: int) -> bytes:
    """Give the KeyValueList that this map is; it may hold messages ``room`` deep."""
    return _whole(data, _MAP, room)


def _whole(data: bytes, wanted: int, room: int) -> bytes:
    reader = _Reader(data)
    major, more = reader.head()
    if major != wanted:
        raise reader.error("it is no list" if wanted == _LIST else "it is no map")
    out = reader.inner(major, more, room)
    if reader.at != len(data):
        raise reader.error("more bytes follow")
    return out


class _Reader:
    """Reads one value of CBOR from the front."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def error(self, what: str) -> InputError:
        return InputError(f"an attribute's CBOR cannot be read: at byte {self.at}, {what}")

    def take(self, size: int) -> bytes:
        start = self.at
        if size > len(self.data) - start:
            raise self.error("it ends early")
        self.at += size
        return self.data[start : self.at]

    def head(self) -> tuple[int, int]:
        """Give the major type and what follows it in the first byte."""
        octet = self.take(1)[0]
        return octet >> 5, octet & 0x1F

    def number(self, more: int) -> int:
        if more < 24:  # noqa: PLR2004
            return more
        if more not in _SIZES:
            raise self.error("it is no CBOR")
        return int.from_bytes(self.take(_SIZES[more]), "big")

    def ends(self) -> bool:
        """Whether what has no length ends here; steps over the end."""
        if self.at < len(self.data) and self.data[self.at] == _BREAK:
            self.at += 1
            return True
        return False

    def string(self, major: int, more: int) -> bytes:
        if more != _OPEN:
            return self.take(self.number(more))
        parts = []
        while not self.ends():
            inner, length = self.head()
            if inner != major or length == _OPEN:
                raise self.error("a part is of another kind")
            parts.append(self.take(self.number(length)))
        return b"".join(parts)

    def text(self, major: int, more: int) -> bytes:
        text = self.string(major, more)
        try:
            text.decode()
        except UnicodeDecodeError:
            raise self.error("a text is not UTF-8") from None
        return text

    def inner(self, major: int, more: int, room: int) -> bytes:
        """Give what is in a list or map: its fields, one behind the other."""
        if room < 0:
            raise self.error("values lie too deep in each other")
        one = self.pair if major == _MAP else self.element
        parts = []
        if more == _OPEN:
            while not self.ends():
                parts.append(one(room - 1))
        else:
            count = self.number(more)
            if count > len(self.data) - self.at:
                raise self.error("it ends early")
            parts = [one(room - 1) for _ in range(count)]
        return b"".join(parts)

    def element(self, room: int) -> bytes:
        return frame(1, self.value(room) or b"")

    def pair(self, room: int) -> bytes:
        major, more = self.head()
        if major != _TEXT:
            raise self.error("a key is no text")
        key = self.text(major, more)
        value = self.value(room - 1)
        named = frame(1, key) if key else b""
        return frame(1, named if value is None else named + frame(2, value))

    def value(self, room: int) -> bytes | None:
        """Give one value as AnyValue, None for what is not there."""
        if room < 0:
            raise self.error("values lie too deep in each other")
        major, more = self.head()
        if major in {_UNSIGNED, _NEGATIVE}:
            return self.integer(major, self.number(more))
        if major == _TEXT:
            return frame(1, self.text(major, more))
        if major == _BYTES:
            return frame(7, self.string(major, more))
        if major in {_LIST, _MAP}:
            number = 5 if major == _LIST else 6
            return frame(number, self.inner(major, more, room - 1))
        if major == _TAG:
            raise self.error("OTLP has no place for tags")
        return self.simple(more)

    def integer(self, major: int, number: int) -> bytes:
        if number >= _I64:
            raise self.error("a number has more than 64 bits")
        return b"\x18" + varint_bytes(number if major == _UNSIGNED else (1 << 64) - 1 - number)

    def simple(self, more: int) -> bytes | None:
        if more == _EIGHT:
            return b"\x21" + self.take(8)[::-1]
        if more in _FLOATS:
            form = _FLOATS[more]
            return _DOUBLE.pack(0x21, *form.unpack(self.take(form.size)))
        known: dict[int, bytes | None] = {20: b"\x10\x00", 21: b"\x10\x01", 22: b"", 23: None}
        if more not in known:
            raise self.error("OTLP has no place for a simple value")
        return known[more]
