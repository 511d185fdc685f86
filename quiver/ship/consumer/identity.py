"""Which segment of which store a call carries, as the metadata of a shipped segment says. Pure.

::

    version u8 = 1 | kind u8 = 1 | core u16 | store id 16 | segment_seq u64 | ... | crc32c u32

The shipper has the whole of it; this reads what it begins with, and its checksum. Metadata of
anybody else has no identity: its calls are never dropped as repeats.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

__all__ = ["Identity", "identity_of"]

_HEAD: Final = struct.Struct("<BBH16sQ")
_CRC: Final = struct.Struct("<I")
_VERSION: Final = 1
_SEGMENT: Final = 1


class Identity(NamedTuple):
    """One segment, whichever object it arrives in."""

    store_id: bytes
    core: int
    segment_seq: int


def identity_of(payload: bytes) -> Identity | None:
    """Read what the metadata of one call says; None if it is not about a segment."""
    end = len(payload) - _CRC.size
    if end < _HEAD.size:
        return None
    version, kind, core, store_id, segment_seq = _HEAD.unpack_from(payload)
    (checksum,) = _CRC.unpack_from(payload, end)
    if (version, kind) != (_VERSION, _SEGMENT) or crc32c(payload[:end]) != checksum:
        return None
    return Identity(store_id, core, segment_seq)
