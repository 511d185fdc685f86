"""Heads of frames, messages, errors: any bytes are one of them, damage, or a newer version.

::

    flags u8 | head, or message, or text
"""

from __future__ import annotations

import struct
from contextlib import suppress

from crc32c import crc32c

from quiver.chain.wire.faults import from_text, to_text
from quiver.chain.wire.format import (
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from quiver.errors import DamageError, VersionError

REPAIR = 1
FRAME_BYTES = 56
TOP_BYTES = 16


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, whole = data[0], data[1:]
    if flags & REPAIR:
        whole = repaired(whole)
    with suppress(DamageError, VersionError):
        assert encode_frame(decode_frame(whole)) == whole
    with suppress(DamageError, VersionError):
        assert encode_message(decode_message(whole)) == whole
    error = from_text(whole.decode("utf-8", "replace"))
    if error is not None:
        again = from_text(to_text(error))
        assert type(again) is type(error)


def repaired(data: bytes) -> bytes:
    """Give a head or a message the length and the checksum that it would have."""
    if len(data) < TOP_BYTES + 4:
        return data
    fixed = bytearray(data)
    if len(data) != FRAME_BYTES or not data.startswith(b"QUIVER\0F"):
        struct.pack_into("<I", fixed, TOP_BYTES - 4, len(data) - TOP_BYTES - 4)
    struct.pack_into("<I", fixed, len(data) - 4, crc32c(fixed[:-4]))
    return bytes(fixed)
