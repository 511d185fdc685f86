"""The bytes of the write-ahead log, without any file."""

from __future__ import annotations

import struct
import zlib

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamagedEntry, DamageError, TornEntry, VersionError
from quiver.payload import SEQ_MAX, EncodedBundle, Payload
from quiver.wal import format as wal
from quiver.wal import sidecar

LIMIT = 1 << 20
DIGEST = bytes(range(16))


def payload(slot_id: int, data: bytes = b"stream", rows: int = 3) -> Payload:
    return Payload(slot_id, slot_id + 100, bytes([slot_id]) * 32, rows, data)


BUNDLE = EncodedBundle(7, 1_700_000_000_000_000_000, (payload(0), payload(5, b"x" * 40)))


def entry(bundle: EncodedBundle = BUNDLE) -> bytes:
    return wal.encode_bundle(bundle)


def test_struct_sizes_are_those_of_the_format() -> None:
    sizes = (
        wal.HEADER.size,
        wal.HEAD.size,
        wal.BLOCK.size,
        sidecar.SIDECAR.size,
        wal.ENTRY_OVERHEAD,
    )
    assert sizes == (30, 25, 42, 32, 8)
    assert len(entry(EncodedBundle(0, 0, ()))) == wal.ENTRY_BYTES_MIN == 33
    assert len(entry(EncodedBundle(0, 0, (payload(0, b""),)))) == wal.BUNDLE_BYTES_MIN == 75


def test_an_entry_is_laid_out_as_written_in_the_format() -> None:
    data = entry()
    (length,) = struct.unpack_from("<I", data, 0)
    assert length == len(data) - 8 == 25 + 42 + 6 + 42 + 40
    assert struct.unpack_from("<BqQQ", data, 4) == (0, 1_700_000_000_000_000_000, 7, 0b100001)
    assert struct.unpack_from("<H32sII", data, 29) == (100, bytes(32), 3, 6)
    assert data[29 + 42 : 29 + 48] == b"stream"
    assert struct.unpack_from("<I", data, len(data) - 4) == (crc32c(data[4:-4]),)
    assert crc32c(data[4:-4]) != zlib.crc32(data[4:-4])


def test_a_bundle_comes_back_equal() -> None:
    frame = wal.frame_at(memoryview(entry()), 0, LIMIT)
    back = wal.decode_bundle(frame)
    assert back.wal_seq == 7
    assert back.ingestion_ns == BUNDLE.ingestion_ns
    assert [bytes(p.data) for p in back.payloads] == [b"stream", b"x" * 40]
    assert [(p.slot_id, p.payload_type_id, p.row_count) for p in back.payloads] == [
        (0, 100, 3),
        (5, 105, 3),
    ]
    assert [p.fingerprint for p in back.payloads] == [bytes(32), b"\5" * 32]


def test_all_64_slots_fit_into_one_entry() -> None:
    bundle = EncodedBundle(0, 0, tuple(payload(i) for i in range(64)))
    back = wal.decode_bundle(wal.frame_at(memoryview(entry(bundle)), 0, LIMIT))
    assert [p.slot_id for p in back.payloads] == list(range(64))


def test_an_entry_without_slots_is_valid() -> None:
    bundle = EncodedBundle(3, 4, ())
    frame = wal.frame_at(memoryview(entry(bundle)), 0, LIMIT)
    assert (frame.end, wal.decode_bundle(frame).payloads) == (33, ())


def test_a_time_before_1970_reads_as_1970() -> None:
    frame = wal.frame_at(memoryview(entry(EncodedBundle(1, -5, ()))), 0, LIMIT)
    assert wal.decode_bundle(frame).ingestion_ns == 0


def test_zeros_are_no_entries() -> None:
    with pytest.raises(DamagedEntry, match="length"):
        wal.frame_at(memoryview(bytes(4096)), 0, LIMIT)


def changed(offset: int, value: bytes) -> bytes:
    data = bytearray(entry())
    data[offset : offset + len(value)] = value
    return bytes(data)


def resealed(offset: int, value: bytes) -> bytes:
    """Damage with a checksum made right again: structure alone must give it away."""
    data = bytearray(changed(offset, value))
    data[-4:] = struct.pack("<I", crc32c(bytes(data[4:-4])))
    return bytes(data)


@pytest.mark.parametrize(
    "data, kind, words",
    [
        (changed(0, struct.pack("<I", 24)), DamagedEntry, "length of an entry is impossible"),
        (changed(0, struct.pack("<I", LIMIT + 1)), DamagedEntry, "length of an entry"),
        (changed(0, struct.pack("<I", 1000)), TornEntry, "ends early"),
        (changed(4, b"\1"), DamagedEntry, "checksum"),
        (changed(5, b"\1"), DamagedEntry, "checksum"),
        (changed(13, b"\1"), DamagedEntry, "checksum"),
        (changed(21, b"\3"), DamagedEntry, "checksum"),
        (changed(29, b"\1"), DamagedEntry, "checksum"),
        (changed(71, b"T"), DamagedEntry, "checksum"),
        (changed(len(entry()) - 1, b"\0"), DamagedEntry, "checksum"),
        (resealed(21, b"\x23"), DamagedEntry, "do not add up"),
        (resealed(21, b"\x01"), DamagedEntry, "do not add up"),
        (resealed(29 + 38, struct.pack("<I", 5)), DamagedEntry, "do not add up"),
        (resealed(29 + 38, struct.pack("<I", 0xFFFFFFFF)), DamagedEntry, "do not add up"),
    ],
)
def test_a_damaged_entry_says_what_is_wrong(
    data: bytes, kind: type[DamageError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        wal.frame_at(memoryview(data), 0, LIMIT)


def test_a_checksum_error_gives_both_values() -> None:
    with pytest.raises(DamagedEntry) as caught:
        wal.frame_at(memoryview(changed(13, b"\1")), 0, LIMIT)
    assert caught.value.expected != caught.value.found
    assert str(caught.value.found).startswith("0x")


def test_every_prefix_of_an_entry_is_torn_and_never_damaged() -> None:
    data = entry()
    for cut in range(len(data)):
        with pytest.raises(TornEntry):
            wal.frame_at(memoryview(data[:cut]), 0, LIMIT)


def test_every_single_bit_flip_of_an_entry_is_noticed() -> None:
    data = entry()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(DamageError):
            wal.frame_at(memoryview(flipped), 0, LIMIT)


def test_an_entry_whose_length_alone_is_wrong_is_still_found() -> None:
    data = entry()
    for bit in range(32):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        found = wal.frame_with_damaged_length(memoryview(flipped), 0, LIMIT)
        assert found is not None
        assert found.end == len(data)
    assert wal.frame_with_damaged_length(memoryview(changed(71, b"T")), 0, LIMIT) is None


@given(
    st.lists(st.integers(0, 63), unique=True, max_size=6),
    st.integers(0, SEQ_MAX),
    st.integers(0, 2**63 - 1),
    st.data(),
)
def test_any_bundle_round_trips(slots: list[int], seq: int, ns: int, data: st.DataObject) -> None:
    payloads = tuple(
        payload(s, data.draw(st.binary(max_size=64)), data.draw(st.integers(0, 2**32 - 1)))
        for s in sorted(slots)
    )
    bundle = EncodedBundle(seq, ns, payloads)
    frame = wal.frame_at(memoryview(b"junk" + wal.encode_bundle(bundle)), 4, LIMIT)
    back = wal.decode_bundle(frame)
    assert frame.end - frame.offset == wal.entry_bytes(bundle.payloads)
    assert back == EncodedBundle(
        seq,
        ns,
        tuple(
            Payload(p.slot_id, p.payload_type_id, p.fingerprint, p.row_count, q.data)
            for p, q in zip(payloads, back.payloads, strict=True)
        ),
    )
    assert [bytes(p.data) for p in back.payloads] == [p.data for p in payloads]


def test_a_header_is_30_bytes_and_right() -> None:
    data = wal.encode_header(DIGEST)
    assert data == b"QUIVER\0WAL" + b"\1\0" + b"\0\0" + DIGEST
    assert wal.decode_header(data, DIGEST) is None


def test_a_header_of_another_version_or_layout_is_refused_and_names_both() -> None:
    newer = bytearray(wal.encode_header(bytes(16)))
    newer[10] = 2
    with pytest.raises(VersionError, match="version 2"):
        wal.decode_header(bytes(newer), DIGEST)
    other = bytes(reversed(range(16)))
    with pytest.raises(VersionError) as caught:
        wal.decode_header(wal.encode_header(other), DIGEST)
    assert other.hex() in str(caught.value)
    assert DIGEST.hex() in str(caught.value)


def test_a_header_with_one_wrong_byte_is_damage_and_not_another_layout() -> None:
    for index in range(30):
        data = bytearray(wal.encode_header(DIGEST))
        data[index] ^= 0x40
        assert isinstance(wal.decode_header(bytes(data), DIGEST), DamagedEntry)
    for cut in range(30):
        assert isinstance(wal.decode_header(wal.encode_header(DIGEST)[:cut], DIGEST), TornEntry)


@pytest.mark.parametrize(
    "offset, value, kind",
    [
        (0, b"X", DamagedEntry),
        (8, b"\2", DamagedEntry),
        (10, b"\1", DamagedEntry),
        (12, b"\1", DamagedEntry),
        (20, b"\1", DamagedEntry),
        (28, b"\1", DamagedEntry),
    ],
)
def test_a_damaged_sidecar_is_refused(offset: int, value: bytes, kind: type[DamageError]) -> None:
    data = bytearray(sidecar.encode_sidecar(wal.Place(3, 12345)))
    data[offset] ^= value[0]
    with pytest.raises(kind):
        sidecar.decode_sidecar(bytes(data))


def test_a_sidecar_round_trips_and_a_newer_one_is_refused() -> None:
    data = sidecar.encode_sidecar(wal.Place(3, 12345))
    assert len(data) == 32
    assert sidecar.decode_sidecar(data) == wal.Place(3, 12345)
    for cut in range(32):
        with pytest.raises(TornEntry):
            sidecar.decode_sidecar(data[:cut])
    with pytest.raises(DamagedEntry):
        sidecar.decode_sidecar(data + b"\0")
    newer = bytearray(data)
    newer[8] = 2
    newer[28:] = struct.pack("<I", crc32c(bytes(newer[:28])))
    with pytest.raises(VersionError):
        sidecar.decode_sidecar(bytes(newer))
