"""Bytes of the truncate sidecar: the first place of the log that is still needed, as a hint.

::

    sidecar  magic[8] | version u16 | reserved u16 | offset u64 | generation u64 | crc32c u32
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from quiver.errors import DamagedEntry, TornEntry, VersionError
from quiver.wal.format import GENERATION_MAX, VERSION, Place

__all__ = ["SIDECAR", "SIDECAR_MAGIC", "decode_sidecar", "encode_sidecar"]

SIDECAR: Final = struct.Struct("<8sHHQQI")
SIDECAR_MAGIC: Final = b"QUIVER\0T"
_CRC: Final = struct.Struct("<I")


def encode_sidecar(place: Place) -> bytes:
    """Write the first place of the log that is still needed."""
    head = SIDECAR.pack(SIDECAR_MAGIC, VERSION, 0, place.offset, place.generation, 0)[: -_CRC.size]
    return head + _CRC.pack(crc32c(head))


def decode_sidecar(data: bytes) -> Place:
    """Read the sidecar; raises TornEntry, DamagedEntry or, for a newer version, VersionError."""
    if len(data) < SIDECAR.size:
        raise TornEntry("the sidecar is too short", expected=SIDECAR.size, found=len(data))
    magic, version, reserved, offset, generation, expected = SIDECAR.unpack_from(data)
    found = crc32c(data[: SIDECAR.size - _CRC.size])
    if magic != SIDECAR_MAGIC:
        raise DamagedEntry("the sidecar has no magic", expected=SIDECAR_MAGIC, found=magic)
    if found != expected:
        raise DamagedEntry(
            "the checksum of the sidecar is wrong",
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    if version != VERSION:
        raise VersionError(
            f"the sidecar has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if reserved != 0 or len(data) != SIDECAR.size:
        wrong = "the sidecar has a wrong size or reserved field"
        raise DamagedEntry(wrong, expected=SIDECAR.size, found=len(data))
    if not 1 <= generation <= GENERATION_MAX:
        raise DamagedEntry(
            "the sidecar names an impossible generation",
            expected=f"1 to {GENERATION_MAX}",
            found=generation,
        )
    return Place(generation, offset)
