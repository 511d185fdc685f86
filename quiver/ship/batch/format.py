"""The bytes of a batch: records, each behind its length, and a footer. ``FORMAT.md`` is the spec.

::

    batch    block | compression u8 | count u32 | version u16
    block    (length u32 | record) ...        as a whole compressed, if the footer says so

Everything is little-endian. The bytes are those of OpenData's Buffer. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "COUNT_MAX",
    "FOOTER",
    "LENGTH",
    "RECORD_BYTES_MAX",
    "STORED",
    "VERSION",
    "ZSTD",
    "Footer",
    "decode_block",
    "decode_footer",
    "encode_block",
    "encode_footer",
]

FOOTER: Final = struct.Struct("<BIH")
LENGTH: Final = struct.Struct("<I")
VERSION: Final = 1
STORED: Final = 0
ZSTD: Final = 1
RECORD_BYTES_MAX: Final = (1 << 32) - 1
COUNT_MAX: Final = (1 << 32) - 1


class Footer(NamedTuple):
    """How the block is kept, and how many records it has."""

    compression: int
    record_count: int


def encode_footer(footer: Footer) -> bytes:
    """Write the seven bytes at the end."""
    return FOOTER.pack(footer.compression, footer.record_count, VERSION)


def decode_footer(data: bytes | memoryview) -> Footer:
    """Read the end of a batch; raises TornEntry, VersionError, DamagedEntry."""
    start = len(data) - FOOTER.size
    if start < 0:
        raise TornEntry("a batch is too short", expected=FOOTER.size, found=len(data))
    compression, count, version = FOOTER.unpack_from(data, start)
    if version != VERSION:
        raise VersionError(
            f"a batch has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver, or the object is no batch",
        )
    if compression not in (STORED, ZSTD):
        raise DamagedEntry(
            "the compression of a batch is unknown",
            offset=start,
            expected=f"{STORED} or {ZSTD}",
            found=compression,
        )
    return Footer(compression, count)


def encode_block(
    records: Sequence[bytes | bytearray | memoryview],
) -> list[bytes | bytearray | memoryview]:
    """Give the pieces of a block, the records as they are; raises InputError."""
    if len(records) > COUNT_MAX:
        raise InputError(f"a batch has {len(records):,} records, the most is {COUNT_MAX:,}")
    pieces: list[bytes | bytearray | memoryview] = []
    for index, record in enumerate(records):
        size = record.nbytes if isinstance(record, memoryview) else len(record)
        if size > RECORD_BYTES_MAX:
            raise InputError(f"record {index} has {size:,} bytes, the most is {RECORD_BYTES_MAX:,}")
        pieces.append(LENGTH.pack(size))
        if size:
            pieces.append(record)
    return pieces


def decode_block(block: memoryview, count: int) -> list[memoryview]:
    """Give the records as views of an uncompressed block; raises TornEntry, DamagedEntry.

    Nothing is reserved for more records than the block has room for.
    """
    if count * LENGTH.size > len(block):
        raise TornEntry(
            "a batch has no room for its records",
            expected=count * LENGTH.size,
            found=len(block),
        )
    records: list[memoryview] = []
    at, end = 0, len(block)
    for index in range(count):
        if end - at < LENGTH.size:
            raise TornEntry(
                f"the length of record {index} is cut",
                offset=at,
                expected=LENGTH.size,
                found=end - at,
            )
        (size,) = LENGTH.unpack_from(block, at)
        at += LENGTH.size
        if size > end - at:
            raise TornEntry(f"record {index} is cut", offset=at, expected=size, found=end - at)
        records.append(block[at : at + size])
        at += size
    if at != end:
        raise DamagedEntry("a batch has more than its records", offset=at, expected=at, found=end)
    return records
