"""Which segment of which store a call carries, as the metadata of a shipped segment says. Pure.

::

    version u8 = 1 | kind u8 = 1 | core u16 | store id 16 | segment_seq u64
    | wal_seq first u64, last u64 | bundles u32 | slots u64 | crc32c u32

Metadata of anybody else has no identity: its calls are never dropped as repeats.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

__all__ = ["Identity", "identity_of"]

_LAYOUT: Final = struct.Struct("<BBH16sQQQIQI")
_VERSION: Final = 1
_SEGMENT: Final = 1


class Identity(NamedTuple):
    """One segment, whichever object it arrives in."""

    store_id: bytes
    core: int
    segment_seq: int


def identity_of(payload: bytes) -> Identity | None:
    """Read what the metadata of one call says; None if it is not about a segment."""
    if len(payload) != _LAYOUT.size:
        return None
    version, kind, core, store_id, segment_seq, *_, checksum = _LAYOUT.unpack(payload)
    if (version, kind) != (_VERSION, _SEGMENT) or crc32c(payload[:-4]) != checksum:
        return None
    return Identity(store_id, core, segment_seq)
