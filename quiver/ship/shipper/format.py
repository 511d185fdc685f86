"""The payload of a shipped segment: whose it is, and what is in the record. ``FORMAT.md`` has it.

::

    payload   version u8 | kind u8 | core u16 | store_id[16] | segment_seq u64
              | wal_seq_first u64 | wal_seq_last u64 | bundle_count u32 | slots u64 | crc32c u32

Everything is little-endian. It is the payload of one item of an entry; the item's first record is
the segment, a whole ``.qseg`` file. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "CHECKED_BYTES",
    "KIND_SEGMENT",
    "PAYLOAD",
    "VERSION",
    "ShippedSegment",
    "decode_payload",
    "encode_payload",
    "is_payload",
    "record_checksum",
]

VERSION: Final = 1
KIND_SEGMENT: Final = 1
PAYLOAD: Final = struct.Struct("<BBH16sQQQIQI")
CHECKED_BYTES: Final = PAYLOAD.size - 4
"""The bytes of a payload before its checksum."""
_STORE_ID_BYTES: Final = 16
_CORE_MAX: Final = (1 << 16) - 1
_U32_MAX: Final = (1 << 32) - 1
_U64_MAX: Final = (1 << 64) - 1


class ShippedSegment(NamedTuple):
    """What a payload says. ``store_id`` is 32 hexadecimal digits, ``slots`` has a bit for each id.

    ``crc32c`` is that of the bytes of the payload before it and of the record behind them.
    """

    store_id: str
    core: int
    segment_seq: int
    wal_seq_first: int
    wal_seq_last: int
    bundle_count: int
    slots: int
    crc32c: int = 0

    @property
    def source(self) -> tuple[bytes, int]:
        """Its store and core, as the marks of a queue name them."""
        return bytes.fromhex(self.store_id), self.core

    def sealed(self, record: bytes | memoryview) -> ShippedSegment:
        """Give the same with the checksum that it has for this record."""
        return self._replace(crc32c=record_checksum(encode_payload(self), record))

    def check(self, record: bytes | memoryview) -> None:
        """Raise DamagedEntry unless this, and the record, are what was shipped."""
        found = record_checksum(encode_payload(self), record)
        if found != self.crc32c:
            raise DamagedEntry(
                f"segment {self.segment_seq} of core {self.core} of store {self.store_id} is not "
                "what was shipped",
                expected=f"{self.crc32c:#010x}",
                found=f"{found:#010x}",
            )


def record_checksum(payload: bytes, record: bytes | memoryview) -> int:
    """Compute the checksum that a payload has for a record."""
    return crc32c(record, crc32c(payload[:CHECKED_BYTES]))


def encode_payload(segment: ShippedSegment) -> bytes:
    """Write a payload; raises InputError for what has no place in it."""
    store_id = _store_id(segment.store_id)
    fits = (
        0 <= segment.core <= _CORE_MAX
        and 0 <= segment.segment_seq <= _U64_MAX
        and 0 <= segment.wal_seq_first <= segment.wal_seq_last <= _U64_MAX
        and 1 <= segment.bundle_count <= _U32_MAX
        and 0 <= segment.slots <= _U64_MAX
        and 0 <= segment.crc32c <= _U32_MAX
    )
    if not fits:
        raise InputError(f"a number of a shipped segment is out of range: {segment}")
    return PAYLOAD.pack(VERSION, KIND_SEGMENT, segment.core, store_id, *segment[2:])


def _store_id(text: str) -> bytes:
    try:
        store_id = bytes.fromhex(text)
    except ValueError:
        store_id = b""
    if len(store_id) != _STORE_ID_BYTES or store_id.hex() != text:
        raise InputError(f"{text!r} is no id of a store: 32 hexadecimal digits")
    return store_id


def is_payload(data: bytes | memoryview) -> bool:
    """Whether this looks like the payload of a shipped segment, of whatever version."""
    return len(data) >= PAYLOAD.size and data[0] >= VERSION and data[1] == KIND_SEGMENT


def decode_payload(data: bytes | memoryview) -> ShippedSegment:
    """Read a payload; raises TornEntry, DamagedEntry, or VersionError for a newer one."""
    if len(data) < PAYLOAD.size:
        raise TornEntry(
            "the payload of a segment is too short", expected=PAYLOAD.size, found=len(data)
        )
    version, kind, core, store_id, *numbers = PAYLOAD.unpack_from(data)
    if version > VERSION:
        raise VersionError(
            f"a shipped segment has format {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if version < VERSION or kind != KIND_SEGMENT or len(data) > PAYLOAD.size:
        raise DamagedEntry(
            "this is not the payload of a segment",
            expected=f"version {VERSION}, kind {KIND_SEGMENT}, {PAYLOAD.size} bytes",
            found=f"version {version}, kind {kind}, {len(data)} bytes",
        )
    found = ShippedSegment(store_id.hex(), core, *numbers)
    if found.wal_seq_first > found.wal_seq_last or not found.bundle_count:
        raise DamagedEntry("the numbers of a shipped segment make no sense", found=str(found))
    return found
