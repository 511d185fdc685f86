"""Lists and maps of attributes: as protobuf in OTLP, as CBOR (RFC 8949) in Arrow.

Both say the same: null is a value that is empty, undefined one that is not there. Pairs of a map
stay in order, and keys may come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from quiver.errors import InputError
from quiver.otel.wire import Source, check_text, fields_of, malformed

__all__ = ["UNDEFINED", "list_as_cbor", "map_as_cbor"]

UNDEFINED: Final = b"\xf7"
"""What stands for a value that is not there."""

_NULL: Final = b"\xf6"
_FALSE, _TRUE = b"\xf4", b"\xf5"
_STRING, _BOOL, _INT, _FLOAT = 1 << 3 | 2, 2 << 3, 3 << 3, 4 << 3 | 1
_LIST, _MAP, _BYTES = 5 << 3 | 2, 6 << 3 | 2, 7 << 3 | 2
_KINDS: Final = frozenset({_STRING, _BOOL, _INT, _FLOAT, _LIST, _MAP, _BYTES})
_NESTED: Final = {_LIST: 4, _MAP: 5}
_FIRST, _SECOND = 1 << 3 | 2, 2 << 3 | 2

Parts: TypeAlias = Sequence[tuple[int, int]]
"""Ranges of bytes that are one message together."""


def list_as_cbor(source: Source, parts: Parts, room: int) -> bytes:
    """Give a list as CBOR; it may hold messages ``room`` deep. Raises InputError."""
    return _joined(4, [each for part in parts for each in _elements(source, part, room)])


def map_as_cbor(source: Source, parts: Parts, room: int) -> bytes:
    """Give a map as CBOR; it may hold messages ``room`` deep. Raises InputError."""
    return _joined(5, [each for part in parts for each in _pairs(source, part, room)])


def _elements(source: Source, part: tuple[int, int], room: int) -> list[bytes]:
    _check_room(part, room)
    return [
        _value(source, [(start, end)], room - 1)
        for tag, start, end in fields_of(source, *part)
        if tag == _FIRST
    ]


def _pairs(source: Source, part: tuple[int, int], room: int) -> list[bytes]:
    _check_room(part, room)
    return [
        _pair(source, (start, end), room - 1)
        for tag, start, end in fields_of(source, *part)
        if tag == _FIRST
    ]


def _pair(source: Source, part: tuple[int, int], room: int) -> bytes:
    _check_room(part, room)
    key, value = _head(3, 0), []
    for tag, start, end in fields_of(source, *part):
        if tag == _FIRST:
            key = _text(source, start, end)
        elif tag == _SECOND:
            value.append((start, end))
    return key + (_value(source, value, room - 1) if value else UNDEFINED)


def _value(source: Source, parts: Parts, room: int) -> bytes:
    """Give one value: the last kind that it has; lists and maps that follow each other are one."""
    kind, out, inner = 0, _NULL, list[bytes]()
    for part in parts:
        _check_room(part, room)
        for tag, start, value in fields_of(source, *part):
            if tag not in _KINDS:
                continue
            if tag in _NESTED:
                found = (_elements if tag == _LIST else _pairs)(source, (start, value), room - 1)
                inner = found if tag != kind else inner
                if inner is not found:
                    inner += found
            else:
                out = _plain(source, tag, (start, value))
            kind = tag
    return _joined(_NESTED[kind], inner) if kind in _NESTED else out


def _plain(source: Source, tag: int, found: tuple[int, int]) -> bytes:
    start, value = found
    if tag == _STRING:
        return _text(source, start, value)
    if tag == _BYTES:
        return _head(2, value - start) + source.data[start:value]
    if tag == _BOOL:
        return _TRUE if value else _FALSE
    if tag == _INT:
        return _head(0, value) if value < 1 << 63 else _head(1, (1 << 64) - 1 - value)
    return b"\xfb" + source.data[start : start + 8][::-1]


def _text(source: Source, start: int, end: int) -> bytes:
    text = source.data[start:end]
    check_text(text, start)
    return _head(3, len(text)) + text


def _joined(major: int, inner: list[bytes]) -> bytes:
    return _head(major, len(inner)) + b"".join(inner)


def _head(major: int, number: int) -> bytes:
    """Give the head of a value: its major type, and a number in as few bytes as it takes."""
    if number < 24:  # noqa: PLR2004
        return bytes([major << 5 | number])
    for more, size in enumerate((1, 2, 4, 8), 24):
        if number >> 8 * size == 0:
            return bytes([major << 5 | more]) + number.to_bytes(size, "big")
    raise InputError(f"a value of {number} bytes has no place in CBOR")


def _check_room(part: tuple[int, int], room: int) -> None:
    if room < 0:
        raise malformed(part[0], "values lie too deep in each other")
