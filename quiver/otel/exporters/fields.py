"""The few small messages of Protocol Buffers in answers, read without generated code.

Answers come from somebody else: sizes are bounded by who reads them, and what is malformed is an
InputError that says at which byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quiver.errors import InputError

__all__ = ["fields", "signed", "text_of"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10
_SEVEN: Final = 0x7F
_MORE: Final = 0x80
_WORD: Final = 1 << 64


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Go through the fields of one message: varints as numbers, bytes as views, others left out."""
    view, at = memoryview(data), 0
    while at < len(view):
        key, at = _varint(view, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(view, at)
            yield number, value
        elif kind == _BYTES:
            length, at = _varint(view, at)
            yield number, _cut(view, at, length)
            at += length
        elif kind in _FIXED:
            _cut(view, at, _FIXED[kind])
            at += _FIXED[kind]
        else:
            raise InputError(f"an answer has a field of wire type {kind} at byte {at}")


def _cut(view: memoryview, at: int, length: int) -> memoryview:
    if length > len(view) - at:
        raise InputError(f"an answer ends at byte {len(view)}, inside of a field")
    return view[at : at + length]


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for step, byte in enumerate(view[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & _SEVEN) << (7 * step)
        if byte < _MORE:
            return value % _WORD, at + step + 1
    raise InputError(f"an answer has a number without an end at byte {at}")


def signed(value: int) -> int:
    """Read a varint as an int64."""
    return value - _WORD if value >= _WORD // 2 else value


def text_of(value: int | memoryview) -> str:
    """Read a field as text, whatever its bytes."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")
