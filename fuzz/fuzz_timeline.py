"""The timeline: any bytes are times that go on, damage or a newer version.

::

    flags u8 | file
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from quiver.errors import DamageError, VersionError
from quiver.timeline import TIMELINE_BYTES, decode_timeline, encode_timeline

REPAIR = 1


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, file = data[0], data[1:]
    if flags & REPAIR:
        file = file[:-4] + struct.pack("<I", crc32c(file[:-4]))
    try:
        saved = decode_timeline(file)
    except (DamageError, VersionError):
        return
    assert len(file) == TIMELINE_BYTES
    assert encode_timeline(saved) == file
    assert saved.least_ns >= 0
