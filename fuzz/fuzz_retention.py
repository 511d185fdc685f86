"""The ages: any bytes are marks, damage or a newer version, and make no clock run backwards.

::

    flags u8 | file
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from quiver.errors import DamageError, VersionError
from quiver.retention import Ages
from quiver.retention.format import AGES_BYTES_MAX, decode_ages, encode_ages

REPAIR = 1
LIMIT_NS = 3600 * 10**9
WALL_NS = 1_790_000_000 * 10**9
LOOKS = (0, LIMIT_NS // 8, LIMIT_NS, 4 * LIMIT_NS)


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, file = data[0], data[1:]
    if flags & REPAIR:
        file = file[:-4] + struct.pack("<I", crc32c(file[:-4]))
    try:
        saved = decode_ages(file)
    except (DamageError, VersionError):
        return
    assert len(file) <= AGES_BYTES_MAX
    again = encode_ages(saved)
    assert decode_ages(again) == saved
    ages = Ages(LIMIT_NS, saved, WALL_NS, 0)
    below = 0
    for mono in LOOKS:
        ages.observe(WALL_NS + mono, mono)
        assert ages.ripe_below(mono) >= below
        below = ages.ripe_below(mono)
    ages.note(1 << 63, LOOKS[-1])
    decode_ages(encode_ages(ages.to_save(WALL_NS + LOOKS[-1], LOOKS[-1])))
