"""The payload of a shipped segment, byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError
from quiver.ship.shipper.format import (
    PAYLOAD,
    ShippedSegment,
    decode_payload,
    encode_payload,
    is_payload,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
STORE = "000102030405060708090a0b0c0d0e0f"
SEGMENT = ShippedSegment(
    STORE,
    3,
    1 << 40,
    5,
    (1 << 33) + 1,
    70_000,
    1 << 63 | 5,
    1 << 20,
    -3,
    1 << 60,
    (7, 0, (1 << 64) - 1),
)

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
U64 = st.integers(0, (1 << 64) - 1)
SEGMENTS = st.builds(
    lambda store, core, seq, wal, count, schemas, size, times: ShippedSegment(
        store.hex(),
        core,
        seq,
        min(wal),
        max(wal),
        count,
        sum(1 << slot for slot in schemas),
        size,
        min(times),
        max(times),
        tuple(schemas[slot] for slot in sorted(schemas)),
    ),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 65_535),
    U64,
    st.tuples(U64, U64),
    st.integers(1, (1 << 32) - 1),
    st.dictionaries(st.integers(0, 63), U64),
    U64,
    st.tuples(I64, I64),
)


def test_the_golden_payload_says_what_it_says() -> None:
    payload = (GOLDEN / "shipper" / "payload").read_bytes()
    assert decode_payload(payload) == SEGMENT
    assert encode_payload(SEGMENT) == payload


def test_each_field_lies_where_the_page_says() -> None:
    data = encode_payload(SEGMENT)
    assert PAYLOAD.size == 80
    assert len(data) == 84 + 3 * 8
    assert (data[0], data[1]) == (1, 1)
    assert struct.unpack_from("<H", data, 2) == (3,)
    assert data[4:20] == bytes(range(16))
    assert struct.unpack_from("<QQQ", data, 20) == (1 << 40, 5, (1 << 33) + 1)
    assert struct.unpack_from("<IQ", data, 44) == (70_000, 1 << 63 | 5)
    assert struct.unpack_from("<Qqq", data, 56) == (1 << 20, -3, 1 << 60)
    assert struct.unpack_from("<QQQ", data, 80) == (7, 0, (1 << 64) - 1)
    assert struct.unpack_from("<I", data, 104) == (crc32c(data[:104]),)


@given(SEGMENTS)
def test_what_is_written_is_read(segment: ShippedSegment) -> None:
    assert decode_payload(encode_payload(segment)) == segment
    assert is_payload(encode_payload(segment))
    assert segment.source == (bytes.fromhex(segment.store_id), segment.core)


@given(SEGMENTS, st.integers(0, 84 * 8 - 1))
def test_any_flipped_bit_is_found(segment: ShippedSegment, bit: int) -> None:
    damaged = bytearray(encode_payload(segment))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises((DamageError, VersionError)):
        decode_payload(damaged)


def again(data: bytes) -> bytes:
    """Give it the checksum that it would have."""
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:83], TornEntry),
        (lambda data: data[:-1], DamagedEntry),
        (lambda data: b"", TornEntry),
        (lambda data: data + b"\0", DamagedEntry),
        (lambda data: b"\0" + data[1:], DamagedEntry),
        (lambda data: b"\2" + data[1:], VersionError),
        (lambda data: data[:1] + b"\2" + data[2:], DamagedEntry),
        (lambda data: data[:-1] + b"\0", DamagedEntry),
        (lambda data: again(data[:28] + b"\xff" * 8 + data[36:]), DamagedEntry),
        (lambda data: again(data[:44] + bytes(4) + data[48:]), DamagedEntry),
        (lambda data: again(data[:80]), TornEntry),
        (lambda data: again(data[:-12] + data[-4:]), DamagedEntry),
        (lambda data: again(data[:-5] + data[-4:]), DamagedEntry),
        (lambda data: again(data[:64] + b"\xff" * 7 + b"\x7f" + data[72:]), DamagedEntry),
    ],
    ids=[
        "cut",
        "a byte cut",
        "empty",
        "longer",
        "version 0",
        "newer",
        "other kind",
        "checksum",
        "order",
        "no bundles",
        "no schemas",
        "a schema too few",
        "a schema cut",
        "times",
    ],
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
        {"slots": 1},
        {"schemas": (1, 2, -1)},
        {"record_bytes": 1 << 64},
        {"first_ns": 5, "last_ns": 4},
    ],
    ids=str,
)
def test_what_has_no_place_is_not_written(fields) -> None:
    with pytest.raises(InputError):
        encode_payload(SEGMENT._replace(**fields))


def test_what_others_put_into_a_queue_is_not_taken_for_a_segment() -> None:
    assert not is_payload(b"")
    assert not is_payload(b"\1\1\1\0")
    assert not is_payload(bytes(100))
    assert not is_payload(b"\1\2" + bytes(98))
