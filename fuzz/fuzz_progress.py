"""Progress: any bytes are a note, a table, a file, damage or a newer version; nothing else.

::

    flags u8 | file
"""

from __future__ import annotations

import struct
from contextlib import suppress

from crc32c import crc32c

from quiver.errors import DamageError, VersionError
from quiver.progress import Table, decode_note, encode_note
from quiver.progress.file import read_copies
from quiver.progress.format import HEAD, RECORD, decode_table, encode_copy, encode_table

REPAIR = 1
STORE_ID = bytes(range(16))


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, file = data[0], data[1:]
    if flags & REPAIR:
        file = repaired(file)
    check_note(file[HEAD.size + RECORD.size :])
    check_table(file[HEAD.size :])
    check_file(file)


def repaired(data: bytes) -> bytes:
    """Give both halves of the file the lengths and checksums that they would have."""
    half = data[: len(data) // 2]
    if len(half) < HEAD.size + 4:
        return data
    fixed = bytearray(half)
    struct.pack_into("<Q", fixed, HEAD.size - 8, len(half) - HEAD.size - 4)
    struct.pack_into("<I", fixed, len(half) - 4, crc32c(fixed[:-4]))
    return 2 * bytes(fixed)


def check_note(data: bytes) -> None:
    with suppress(DamageError, VersionError):
        assert encode_note(decode_note(data)) == data


def check_table(data: bytes) -> None:
    with suppress(DamageError, VersionError):
        notes = decode_table(data)
        assert encode_table(notes) == data
        table = Table(notes)
        assert Table(table.notes()).encode() == table.encode()
        assert len(table.encode()) <= table.byte_count()


def check_file(data: bytes) -> None:
    with suppress(VersionError):
        content, damage = read_copies(data, core=0, store_id=STORE_ID.hex())
        if damage == []:
            table = encode_table(content.notes)
            assert 2 * encode_copy(table, content.wal_seq, core=0, store_id=STORE_ID) == data
