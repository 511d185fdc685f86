"""The payload of a shipped segment, byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError
from quiver.segment import open_bytes
from quiver.ship.shipper.format import (
    PAYLOAD,
    ShippedSegment,
    decode_payload,
    encode_payload,
    is_payload,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
STORE = "000102030405060708090a0b0c0d0e0f"
SEGMENT = ShippedSegment(STORE, 3, 1 << 40, 5, (1 << 33) + 1, 70_000, 1 << 63 | 5)

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
SEGMENTS = st.builds(
    lambda store, core, seq, wal, count, slots, check: ShippedSegment(
        store.hex(), core, seq, min(wal), max(wal), count, slots, check
    ),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 65_535),
    U64,
    st.tuples(U64, U64),
    st.integers(1, (1 << 32) - 1),
    U64,
    U32,
)


def test_the_golden_payload_says_what_it_says() -> None:
    payload = (GOLDEN / "shipper" / "payload").read_bytes()
    record = (GOLDEN / "segment" / "0000000000000042.qseg").read_bytes()
    found = decode_payload(payload)
    assert found._replace(crc32c=0) == SEGMENT
    assert found == SEGMENT.sealed(record)
    assert encode_payload(found) == payload
    found.check(record)
    assert open_bytes(record, place="golden").bundle_count > 0


def test_each_field_lies_where_the_page_says() -> None:
    data = encode_payload(SEGMENT._replace(crc32c=0xA1B2C3D4))
    assert len(data) == PAYLOAD.size == 60
    assert (data[0], data[1]) == (1, 1)
    assert struct.unpack_from("<H", data, 2) == (3,)
    assert data[4:20] == bytes(range(16))
    assert struct.unpack_from("<QQQ", data, 20) == (1 << 40, 5, (1 << 33) + 1)
    assert struct.unpack_from("<IQI", data, 44) == (70_000, 1 << 63 | 5, 0xA1B2C3D4)


@given(SEGMENTS)
def test_what_is_written_is_read(segment: ShippedSegment) -> None:
    assert decode_payload(encode_payload(segment)) == segment
    assert is_payload(encode_payload(segment))
    assert segment.source == (bytes.fromhex(segment.store_id), segment.core)


@given(SEGMENTS, st.binary(max_size=200), st.data())
def test_any_flipped_bit_of_payload_or_record_is_found(segment, record, data) -> None:
    whole = encode_payload(segment.sealed(record)) + record
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises((DamageError, VersionError)):
        decode_payload(damaged[: PAYLOAD.size]).check(bytes(damaged[PAYLOAD.size :]))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:-1], TornEntry),
        (lambda data: b"", TornEntry),
        (lambda data: data + b"\0", DamagedEntry),
        (lambda data: b"\0" + data[1:], DamagedEntry),
        (lambda data: b"\2" + data[1:], VersionError),
        (lambda data: data[:1] + b"\2" + data[2:], DamagedEntry),
        (lambda data: data[:28] + b"\xff" * 8 + data[36:], DamagedEntry),
        (lambda data: data[:44] + bytes(4) + data[48:], DamagedEntry),
    ],
    ids=["cut", "empty", "longer", "version 0", "newer", "other kind", "order", "no bundles"],
)
def test_what_is_no_payload_is_refused(change, error) -> None:
    with pytest.raises(error):
        decode_payload(change(encode_payload(SEGMENT)))


@pytest.mark.parametrize(
    "fields",
    [
        {"store_id": "ab"},
        {"store_id": STORE.upper()},
        {"store_id": "xy" * 16},
        {"core": 65_536},
        {"core": -1},
        {"segment_seq": 1 << 64},
        {"wal_seq_first": 9, "wal_seq_last": 8},
        {"bundle_count": 0},
        {"bundle_count": 1 << 32},
        {"slots": 1 << 64},
        {"crc32c": -1},
    ],
    ids=str,
)
def test_what_has_no_place_is_not_written(fields) -> None:
    with pytest.raises(InputError):
        encode_payload(SEGMENT._replace(**fields))


def test_what_others_put_into_a_queue_is_not_taken_for_a_segment() -> None:
    assert not is_payload(b"")
    assert not is_payload(b"\1\1\1\0")
    assert not is_payload(bytes(60))
    assert not is_payload(b"\1\2" + bytes(58))
