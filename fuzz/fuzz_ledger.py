"""The ledger: any bytes are records, damage or a newer version; a core's own record gets in.

::

    flags u8 | file
"""

from __future__ import annotations

import struct
from contextlib import closing

from crc32c import crc32c

from quiver.errors import DamageError, VersionError
from quiver.ledger import LEDGER_NAME, Record, read_ledger, write_record
from quiver.ledger.format import (
    FILE_BYTES_MAX,
    RECORD_BYTES,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
)
from quiver.testing import MemoryDisk

REPAIR = 1
STORE_ID = bytes(range(16))
CORES = range(4)
OWN = Record(1, 5, 100, 200, 50, 25)


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, file = data[0], data[1:]
    if flags & REPAIR:
        file = repaired(file)
    newer = check_header(file[:RECORD_BYTES])
    check_records(file)
    check_file(file, newer=newer)


def repaired(data: bytes) -> bytes:
    """Give header and records their checksums."""
    parts = [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]
    return b"".join(
        sealed(part, b"" if number == 0 else STORE_ID) if len(part) == RECORD_BYTES else part
        for number, part in enumerate(parts)
    )


def sealed(data: bytes, seed: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32c(data[:-4], crc32c(seed)))


def check_header(data: bytes) -> bool:
    """Say whether it is of a newer version."""
    try:
        store_id = decode_header(data)
    except DamageError:
        return False
    except VersionError:
        return True
    assert decode_header(encode_header(store_id)) == store_id
    return False


def check_records(data: bytes) -> None:
    for core in CORES:
        at = RECORD_BYTES * (1 + core)
        try:
            record = decode_record(data[at : at + RECORD_BYTES], core, store_id=STORE_ID)
        except DamageError:
            continue
        again = encode_record(record, STORE_ID)
        assert again[:40] == data[at : at + 40]
        assert decode_record(again, core, store_id=STORE_ID) == record


def check_file(data: bytes, *, newer: bool) -> None:
    """Whatever is there, a core's record gets in, and changes no other."""
    disk = MemoryDisk()
    with closing(disk.create(LEDGER_NAME)) as file:
        file.write(0, data)
    before = read_ledger(disk, CORES, store_id=STORE_ID)
    try:
        write_record(disk, OWN, store_id=STORE_ID)
    except VersionError:
        assert newer
        return
    assert not newer
    assert read_ledger(disk, CORES, store_id=STORE_ID) == before | {OWN.core: OWN}
    found = disk.stat(LEDGER_NAME)
    assert found is not None
    assert found.size <= FILE_BYTES_MAX
