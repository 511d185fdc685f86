"""A node's copies: any bytes are a state, a floor, a log, or damage, and never more than they are.

::

    flags u8 | object, or what stands in a log behind its front and its mark
"""

from __future__ import annotations

import struct
from contextlib import suppress

from crc32c import crc32c

from quiver.chain.copies.entries import Extent, extent_behind, frames_in
from quiver.chain.copies.format import (
    LOG_BEGIN,
    decode_floor,
    decode_generation,
    decode_mark,
    decode_state,
    encode_floor,
    encode_generation,
    encode_mark,
    encode_state,
)
from quiver.chain.copies.log import BlockLog
from quiver.chain.peers import BlockName, decode_layout, encode_layout
from quiver.errors import DamageError, InputError, VersionError
from quiver.testing import MemoryDisk

REPAIR = 1
TOP_BYTES = 16
LIMIT = 1 << 16
BLOCK = BlockName("core_0", 3)


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, whole = data[0], data[1:]
    check_log(whole)
    if flags & REPAIR:
        whole = repaired(whole)
    with suppress(DamageError, VersionError):
        state = decode_state(whole)
        assert encode_state(state) == whole
        with suppress(InputError):
            slots = decode_layout(state.layout)
            assert decode_layout(encode_layout(slots)) == slots
    with suppress(DamageError, VersionError):
        assert encode_floor(decode_floor(whole)) == whole
    with suppress(DamageError, VersionError):
        assert encode_generation(decode_generation(whole)) == whole
    mark = decode_mark(whole)
    assert mark is None or encode_mark(mark) == whole[:20]


def repaired(data: bytes) -> bytes:
    """Give an object the length and the checksum that it would have."""
    if len(data) < TOP_BYTES + 4:
        return data
    fixed = bytearray(data)
    struct.pack_into("<I", fixed, TOP_BYTES - 4, len(data) - TOP_BYTES - 4)
    struct.pack_into("<I", fixed, len(data) - 4, crc32c(fixed[:-4]))
    return bytes(fixed)


def check_log(body: bytes) -> None:
    """Find the same entries in a log and in a row that is sent, or nothing."""
    sent = None
    with suppress(InputError):
        sent = extent_behind(frames_in(memoryview(body), LIMIT), Extent())
    disk = MemoryDisk()
    log = BlockLog.create(disk, "log", BLOCK, entry_bytes_max=LIMIT)
    log.close()
    file = disk.open("log", writable=True)
    file.write(LOG_BEGIN, body)
    file.close()
    log = BlockLog.open(disk, "log", BLOCK, entry_bytes_max=LIMIT, is_same_boot=False)
    found = log.extent
    assert b"".join(log.read(0, found.length)) == body[: found.length]
    assert sent is None or sent == found
    log.close()
