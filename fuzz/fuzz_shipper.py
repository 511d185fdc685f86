"""Shipped segments: any payload is one, damage, or of a newer version; nothing else.

::

    flags u8 | payload
"""

from __future__ import annotations

import struct
from contextlib import suppress

from crc32c import crc32c

from quiver.errors import DamageError, VersionError
from quiver.ship.shipper.format import decode_payload, encode_payload, is_payload

REPAIR = 1


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, payload = data[0], data[1:]
    if flags & REPAIR:
        payload = payload[:-4] + struct.pack("<I", crc32c(payload[:-4]))
    with suppress(DamageError, VersionError):
        segment = decode_payload(payload)
        assert encode_payload(segment) == payload
        assert is_payload(payload)
