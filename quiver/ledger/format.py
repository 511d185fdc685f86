"""The bytes of the ledger: a header, then one record for each core. ``FORMAT.md`` has the tables.

Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, TornEntry, VersionError

__all__ = [
    "CORES_MAX",
    "FILE_BYTES_MAX",
    "HEADER",
    "MAGIC",
    "RECORD",
    "RECORD_BYTES",
    "VERSION",
    "Record",
    "decode_header",
    "decode_record",
    "encode_header",
    "encode_record",
    "record_offset",
]

MAGIC: Final = b"QUIVER\0L"
VERSION: Final = 1
HEADER: Final = struct.Struct("<8sHHI16s28sI")
RECORD: Final = struct.Struct("<IIQQQQI16sI")
RECORD_BYTES: Final = 64
CORES_MAX: Final = 1024
FILE_BYTES_MAX: Final = RECORD_BYTES * (1 + CORES_MAX)

_CRC: Final = struct.Struct("<I")
_BODY_BYTES: Final = RECORD_BYTES - _CRC.size
_PENDING: Final = 1
_TURNS: Final = 1 << 32
_BYTES_MAX: Final = (1 << 63) - 1


class Record(NamedTuple):
    """What one core says of itself; sizes in bytes."""

    core: int
    turn: int = 0
    """Goes up by one with each write, and begins again at 0 after 2^32 - 1."""
    held: int = 0
    """What its folder takes on the disk, as of its last tick."""
    claimed: int = 0
    """Up to how much it may grow without looking here again."""
    wanted: int = 0
    """How much more it asks the others for; 0 if it has what it needs."""
    spare: int = 0
    """How much of what it holds everybody has finished with."""
    pending: bool = False
    """Whether the claim is announced and may be taken back."""

    @property
    def charge(self) -> int:
        """How much of the cap it takes."""
        return max(self.held, self.claimed)


def record_offset(core: int) -> int:
    """Give the byte at which the record of a core begins."""
    if not 0 <= core < CORES_MAX:
        raise ValueError(f"core {core} has no place in the ledger")
    return RECORD_BYTES * (1 + core)


def encode_header(store_id: bytes) -> bytes:
    """Write the header of the ledger of a store, whose id has 16 bytes."""
    head = HEADER.pack(MAGIC, VERSION, 0, 0, store_id, bytes(28), 0)[:_BODY_BYTES]
    return head + _CRC.pack(crc32c(head))


def decode_header(data: bytes) -> bytes:
    """Read the store's id; raises TornEntry, DamagedEntry, or VersionError for a newer format."""
    if len(data) < RECORD_BYTES:
        raise TornEntry("the header is too short", expected=RECORD_BYTES, found=len(data))
    magic, version, _, _, store_id, _, expected = HEADER.unpack_from(data)
    found = crc32c(data[:_BODY_BYTES])
    if magic != MAGIC:
        raise DamagedEntry("the ledger has no magic", expected=MAGIC, found=magic)
    if found != expected:
        raise DamagedEntry(
            "the checksum of the header is wrong",
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    if version != VERSION:
        raise VersionError(
            f"the ledger has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    return bytes(store_id)


def encode_record(record: Record, store_id: bytes) -> bytes:
    """Write a record, which counts in the ledger of this store alone."""
    sizes = (record.held, record.claimed, record.wanted, record.spare)
    head = RECORD.pack(
        record.core,
        record.turn % _TURNS,
        *(min(size, _BYTES_MAX) for size in sizes),
        _PENDING if record.pending else 0,
        bytes(16),
        0,
    )[:_BODY_BYTES]
    return head + _CRC.pack(_checksum(head, store_id))


def decode_record(data: bytes, core: int, *, store_id: bytes) -> Record:
    """Read the record of a core; raises TornEntry or DamagedEntry if it is not sound, or blank."""
    if len(data) < RECORD_BYTES:
        raise TornEntry("the record is too short", expected=RECORD_BYTES, found=len(data))
    number, turn, held, claimed, wanted, spare, flags, _, expected = RECORD.unpack_from(data)
    found = _checksum(data[:_BODY_BYTES], store_id)
    if found != expected:
        raise DamagedEntry(
            "the checksum of the record is wrong",
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    if number != core or max(held, claimed, wanted, spare) > _BYTES_MAX:
        raise DamagedEntry("the record is of another core", expected=core, found=number)
    return Record(number, turn, held, claimed, wanted, spare, bool(flags & _PENDING))


def _checksum(body: bytes, store_id: bytes) -> int:
    return crc32c(body, crc32c(store_id))
