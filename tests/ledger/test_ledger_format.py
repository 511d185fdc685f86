"""The bytes of the ledger: the golden file, round trips, each flipped bit."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamageError, TornEntry, VersionError
from quiver.ledger.format import (
    CORES_MAX,
    FILE_BYTES_MAX,
    MAGIC,
    RECORD_BYTES,
    Record,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
    record_offset,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "ledger" / "ledger"
STORE_ID = bytes(range(16))
OTHER_ID = bytes(16)
RECORDS = [
    Record(0, 7, 300_000, 400_000, 0, 100_000),
    Record(1, (1 << 32) - 1, 1 << 40, (1 << 40) + 8192, 4096, 0, pending=True),
    Record(3, 1, 12),
]
sizes = st.integers(0, (1 << 63) - 1)
records = st.builds(
    Record,
    core=st.integers(0, CORES_MAX - 1),
    turn=st.integers(0, (1 << 32) - 1),
    held=sizes,
    claimed=sizes,
    wanted=sizes,
    spare=sizes,
    pending=st.booleans(),
)


def resealed(data: bytearray, seed: bytes = b"") -> bytes:
    data[60:64] = struct.pack("<I", crc32c(bytes(data[:60]), crc32c(seed)))
    return bytes(data)


def test_the_golden_file_is_read_as_what_it_was_written_from() -> None:
    data = GOLDEN.read_bytes()
    assert decode_header(data[:RECORD_BYTES]) == STORE_ID
    for record in RECORDS:
        at = record_offset(record.core)
        assert decode_record(data[at : at + 64], record.core, store_id=STORE_ID) == record
    with pytest.raises(DamageError):
        decode_record(data[192:256], 2, store_id=STORE_ID)


def test_the_golden_file_is_written_as_it_is() -> None:
    made = bytearray(GOLDEN.stat().st_size)
    made[:64] = encode_header(STORE_ID)
    for record in RECORDS:
        at = record_offset(record.core)
        made[at : at + 64] = encode_record(record, STORE_ID)
    assert bytes(made) == GOLDEN.read_bytes()


@given(records, st.binary(min_size=16, max_size=16))
def test_a_record_comes_back(record: Record, store_id: bytes) -> None:
    data = encode_record(record, store_id)
    assert len(data) == RECORD_BYTES
    assert decode_record(data, record.core, store_id=store_id) == record


def test_every_flipped_bit_is_found() -> None:
    data = encode_record(RECORDS[1], STORE_ID)
    header = encode_header(STORE_ID)
    for bit in range(8 * RECORD_BYTES):
        mask = (1 << bit).to_bytes(RECORD_BYTES, "little")
        with pytest.raises(DamageError):
            decode_record(bytes(map(int.__xor__, data, mask)), 1, store_id=STORE_ID)
        with pytest.raises(DamageError):
            decode_header(bytes(map(int.__xor__, header, mask)))


def test_a_record_counts_in_its_own_place_and_store_alone() -> None:
    data = encode_record(RECORDS[0], STORE_ID)
    with pytest.raises(DamageError):
        decode_record(data, 1, store_id=STORE_ID)
    with pytest.raises(DamageError):
        decode_record(data, 0, store_id=OTHER_ID)


@pytest.mark.parametrize("field", range(4))
def test_a_size_that_none_can_have_is_damage(field: int) -> None:
    data = bytearray(encode_record(RECORDS[0], STORE_ID))
    data[8 + 8 * field : 16 + 8 * field] = b"\xff" * 8
    with pytest.raises(DamageError):
        decode_record(resealed(data, STORE_ID), 0, store_id=STORE_ID)


def test_what_is_too_large_to_be_written_is_written_as_the_most_there_is() -> None:
    data = encode_record(Record(0, 1 << 32, claimed=1 << 70), STORE_ID)
    assert decode_record(data, 0, store_id=STORE_ID) == Record(0, 0, claimed=(1 << 63) - 1)


def test_what_is_too_short_is_torn() -> None:
    with pytest.raises(TornEntry):
        decode_header(encode_header(STORE_ID)[:-1])
    with pytest.raises(TornEntry):
        decode_record(encode_record(RECORDS[0], STORE_ID)[:-1], 0, store_id=STORE_ID)


def test_a_newer_version_is_told_from_damage() -> None:
    data = bytearray(encode_header(STORE_ID))
    data[8:10] = struct.pack("<H", 2)
    with pytest.raises(DamageError):
        decode_header(bytes(data))
    with pytest.raises(VersionError, match="version 2"):
        decode_header(resealed(data))


def test_another_file_has_no_magic() -> None:
    data = bytearray(encode_header(STORE_ID))
    data[: len(MAGIC)] = b"SOMETHIN"
    with pytest.raises(DamageError, match="no magic"):
        decode_header(resealed(data))


def test_places_end_with_the_last_core() -> None:
    assert record_offset(0) == 64
    assert record_offset(CORES_MAX - 1) + RECORD_BYTES == FILE_BYTES_MAX
    for core in (-1, CORES_MAX):
        with pytest.raises(ValueError, match="no place"):
            record_offset(core)


@given(records)
def test_a_core_takes_what_it_has_or_may_have(record: Record) -> None:
    assert record.charge == max(record.held, record.claimed)
