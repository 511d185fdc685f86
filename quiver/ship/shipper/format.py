"""The payload of a shipped segment: whose it is, and what is in the record. ``FORMAT.md`` has it.

::

    payload   version u8 | kind u8 | core u16 | store_id[16] | segment_seq u64
              | wal_seq_first u64 | wal_seq_last u64 | bundle_count u32 | slots u64
              | record_bytes u64 | first_ns i64 | last_ns i64 | schema u64 ... | crc32c u32

Everything is little-endian. There is a schema for each bit of ``slots``. It is the payload of one
item of an entry; the item's first record is the segment, a whole ``.qseg`` file. Pure: bytes in,
values out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "ANY_TIME",
    "KIND_SEGMENT",
    "PAYLOAD",
    "VERSION",
    "ShippedSegment",
    "decode_payload",
    "encode_payload",
    "is_payload",
]

VERSION: Final = 1
KIND_SEGMENT: Final = 1
PAYLOAD: Final = struct.Struct("<BBH16sQQQIQQqq")
"""What comes before the schemas."""
CRC: Final = struct.Struct("<I")
ANY_TIME: Final = (-(1 << 63), (1 << 63) - 1)
"""The times of a segment of which nobody knows when its bundles were appended."""
_STORE_ID_BYTES: Final = 16
_CORE_MAX: Final = (1 << 16) - 1
_U32_MAX: Final = (1 << 32) - 1
_U64_MAX: Final = (1 << 64) - 1
_SCHEMA_BYTES: Final = 8
_SLOTS_FIELD: Final = 4
"""Behind the id of the store."""


class ShippedSegment(NamedTuple):
    """What a payload says; ``store_id`` is 32 hexadecimal digits, ``slots`` has a bit for each."""

    store_id: str
    core: int
    segment_seq: int
    wal_seq_first: int
    wal_seq_last: int
    bundle_count: int
    slots: int
    record_bytes: int
    first_ns: int
    """When the first of its bundles was appended, in nanoseconds since 1970."""
    last_ns: int
    schemas: tuple[int, ...]
    """For each of its slots, by id: a number for its name and its schema; 0: nothing is known."""

    @property
    def source(self) -> tuple[bytes, int]:
        """Its store and core, as the marks of a queue name them."""
        return bytes.fromhex(self.store_id), self.core


def encode_payload(segment: ShippedSegment) -> bytes:
    """Write a payload; raises InputError for what has no place in it."""
    store_id = _store_id(segment.store_id)
    fits = (
        0 <= segment.core <= _CORE_MAX
        and 0 <= segment.segment_seq <= _U64_MAX
        and 0 <= segment.wal_seq_first <= segment.wal_seq_last <= _U64_MAX
        and 1 <= segment.bundle_count <= _U32_MAX
        and 0 <= segment.slots <= _U64_MAX
        and 0 <= segment.record_bytes <= _U64_MAX
        and ANY_TIME[0] <= segment.first_ns <= segment.last_ns <= ANY_TIME[1]
        and len(segment.schemas) == segment.slots.bit_count()
        and all(0 <= schema <= _U64_MAX for schema in segment.schemas)
    )
    if not fits:
        raise InputError(f"a number of a shipped segment is out of range: {segment}")
    numbers, schemas = segment[2:-1], segment.schemas
    head = PAYLOAD.pack(VERSION, KIND_SEGMENT, segment.core, store_id, *numbers)
    data = head + struct.pack(f"<{len(schemas)}Q", *schemas)
    return data + CRC.pack(crc32c(data))


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
    return len(data) > PAYLOAD.size and data[0] >= VERSION and data[1] == KIND_SEGMENT


def decode_payload(data: bytes | memoryview) -> ShippedSegment:
    """Read a payload; raises TornEntry, DamagedEntry, or VersionError for a newer one."""
    if len(data) < PAYLOAD.size + CRC.size:
        raise TornEntry(
            "the payload of a segment is too short",
            expected=PAYLOAD.size + CRC.size,
            found=len(data),
        )
    version, kind, core, store_id, *fields = PAYLOAD.unpack_from(data)
    if version > VERSION:
        raise VersionError(
            f"a shipped segment has format {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if version < VERSION or kind != KIND_SEGMENT:
        raise DamagedEntry(
            "this is not the payload of a segment",
            expected=f"version {VERSION}, kind {KIND_SEGMENT}",
            found=f"version {version}, kind {kind}",
        )
    _check_sum(data)
    size, slots = len(data) - PAYLOAD.size - CRC.size, fields[_SLOTS_FIELD]
    count, rest = divmod(size, _SCHEMA_BYTES)
    schemas = () if rest else struct.unpack_from(f"<{count}Q", data, PAYLOAD.size)
    found = ShippedSegment(*(store_id.hex(), core, *fields, schemas))
    makes_sense = (
        found.wal_seq_first <= found.wal_seq_last
        and found.bundle_count > 0
        and found.first_ns <= found.last_ns
        and not rest
        and count == slots.bit_count()
    )
    if not makes_sense:
        raise DamagedEntry("the numbers of a shipped segment make no sense", found=str(found))
    return found


def _check_sum(data: bytes | memoryview) -> None:
    (expected,) = CRC.unpack_from(data, len(data) - CRC.size)
    found = crc32c(data[: -CRC.size])
    if found != expected:
        raise DamagedEntry(
            "the checksum of a shipped segment's payload is wrong",
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
