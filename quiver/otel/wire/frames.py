"""One field, written for itself: where there are too few for vectors."""

from __future__ import annotations

__all__ = ["frame", "varint_bytes"]


def varint_bytes(value: int) -> bytes:
    """Give a number from 0 to 2^64 - 1 as a varint."""
    out = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame(number: int, content: bytes) -> bytes:
    """Give a field with a length: a text, bytes, or a message that is written already."""
    return varint_bytes(number << 3 | 2) + varint_bytes(len(content)) + content
