"""The ledger on a disk: whatever is there, it stops nobody and gets right again."""

from __future__ import annotations

from contextlib import closing

import pytest

from quiver.errors import StorageError, VersionError
from quiver.ledger import LEDGER_NAME, Record, read_ledger, write_record
from quiver.ledger.format import FILE_BYTES_MAX, encode_header
from quiver.testing import MemoryDisk

STORE_ID = bytes(range(16))
MINE, OTHER = Record(0, 1, 10, 20), Record(2, 9, 30, 40, 5, 6, pending=True)


def put(disk: MemoryDisk, data: bytes, offset: int = 0) -> None:
    if disk.stat(LEDGER_NAME) is None:
        disk.create(LEDGER_NAME).close()
    with closing(disk.open(LEDGER_NAME, writable=True)) as file:
        file.write(offset, data)


def written() -> MemoryDisk:
    disk = MemoryDisk()
    for record in (MINE, OTHER):
        write_record(disk, record, store_id=STORE_ID)
    return disk


def read(disk: MemoryDisk, cores: range = range(4)) -> dict[int, Record]:
    return read_ledger(disk, cores, store_id=STORE_ID)


def test_each_core_finds_what_the_others_wrote() -> None:
    disk = written()
    assert read(disk) == {0: MINE, 2: OTHER}
    assert read(disk, range(2)) == {0: MINE}
    assert disk.map(LEDGER_NAME)[:64] == encode_header(STORE_ID)


def test_without_a_file_nobody_has_a_record() -> None:
    assert read(MemoryDisk()) == {}


def test_a_file_that_goes_away_is_made_again() -> None:
    disk = written()
    disk.unlink(LEDGER_NAME)
    assert read(disk) == {}
    write_record(disk, MINE, store_id=STORE_ID)
    assert read(disk) == {0: MINE}


@pytest.mark.parametrize("offset", range(0, 256, 9))
def test_damage_costs_a_record_and_is_written_over(offset: int) -> None:
    disk = written()
    put(disk, b"\xa5" * 9, offset)
    found = read(disk)
    assert found.items() <= {0: MINE, 2: OTHER}.items()
    assert len(found) >= 1
    for record in (MINE, OTHER):
        write_record(disk, record, store_id=STORE_ID)
    assert read(disk) == {0: MINE, 2: OTHER}
    assert disk.map(LEDGER_NAME)[:64] == encode_header(STORE_ID)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 128, 191])
def test_a_file_that_ends_early_is_written_on(size: int) -> None:
    disk = written()
    with closing(disk.open(LEDGER_NAME, writable=True)) as file:
        file.truncate(size)
    assert 2 not in read(disk)
    write_record(disk, OTHER, store_id=STORE_ID)
    assert read(disk)[2] == OTHER


def test_what_is_too_long_is_cut_off() -> None:
    disk = written()
    put(disk, b"more", FILE_BYTES_MAX + 1000)
    assert read(disk) == {0: MINE, 2: OTHER}
    write_record(disk, MINE, store_id=STORE_ID)
    found = disk.stat(LEDGER_NAME)
    assert found is not None
    assert found.size == FILE_BYTES_MAX


def test_the_ledger_of_another_store_says_nothing() -> None:
    disk = MemoryDisk()
    write_record(disk, OTHER, store_id=bytes(16))
    assert read(disk) == {}
    write_record(disk, MINE, store_id=STORE_ID)
    assert read(disk) == {0: MINE}


def test_that_of_a_newer_version_is_left_as_it_is() -> None:
    import struct

    from crc32c import crc32c

    disk = written()
    header = bytearray(encode_header(STORE_ID))
    header[8] = 2
    header[60:] = struct.pack("<I", crc32c(bytes(header[:60])))
    put(disk, bytes(header))
    before = bytes(disk.map(LEDGER_NAME))
    with pytest.raises(VersionError):
        write_record(disk, MINE, store_id=STORE_ID)
    assert bytes(disk.map(LEDGER_NAME)) == before


def test_a_folder_in_its_place_is_told() -> None:
    disk = MemoryDisk()
    disk.make_dir(LEDGER_NAME)
    with pytest.raises(StorageError):
        read(disk)
    with pytest.raises(StorageError):
        write_record(disk, MINE, store_id=STORE_ID)


def test_a_core_that_has_no_place_is_left_out() -> None:
    assert read_ledger(written(), [0, 5000], store_id=STORE_ID) == {0: MINE}
