"""Records, pages, amended blocks: any bytes are one of them, damage, or a newer version.

::

    flags u8 | object
"""

from __future__ import annotations

import struct
from contextlib import suppress

from crc32c import crc32c

from quiver.chain.record import (
    decode_amended,
    decode_page,
    decode_record,
    encode_amended,
    encode_page,
    encode_record,
    paged,
    purged,
)
from quiver.errors import DamageError, VersionError

REPAIR = 1
TOP_BYTES = 16


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, whole = data[0], data[1:]
    if flags & REPAIR:
        whole = repaired(whole)
    check_record(whole)
    with suppress(DamageError, VersionError):
        assert encode_page(decode_page(whole)) == whole
    with suppress(DamageError, VersionError):
        assert encode_amended(decode_amended(whole)) == whole


def repaired(data: bytes) -> bytes:
    """Give an object the length and the checksum that it would have."""
    if len(data) < TOP_BYTES + 4:
        return data
    fixed = bytearray(data)
    struct.pack_into("<I", fixed, TOP_BYTES - 4, len(data) - TOP_BYTES - 4)
    struct.pack_into("<I", fixed, len(data) - 4, crc32c(fixed[:-4]))
    return bytes(fixed)


def check_record(data: bytes) -> None:
    with suppress(DamageError, VersionError):
        record = decode_record(data)
        assert encode_record(record) == data
        shorter, _ = paged(record)
        assert decode_record(encode_record(shorter)) == shorter
        if record.recent:
            gone = purged(record, record.recent[-1].number)
            assert len(gone.recent) == 1
            if gone.change > record.change:
                encode_record(gone)
