"""Shipped segments: any payload is one, damage or newer; any record is what was shipped or damage.

::

    flags u8 | payload (60) | record
"""

from __future__ import annotations

from contextlib import suppress

from quiver.errors import DamageError, VersionError
from quiver.segment import open_bytes
from quiver.ship.shipper.format import PAYLOAD, decode_payload, encode_payload

REPAIR = 1


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, payload, record = data[0], data[1 : 1 + PAYLOAD.size], data[1 + PAYLOAD.size :]
    with suppress(DamageError, VersionError):
        segment = decode_payload(payload)
        assert encode_payload(segment) == payload
        if flags & REPAIR:
            segment = segment.sealed(record)
        segment.check(record)
        read(record)


def read(record: bytes) -> int:
    """Read what is to be a segment; only who checks nothing else may reach it with anything."""
    with open_bytes(record, place="a record") as reader:
        return reader.bundle_count
