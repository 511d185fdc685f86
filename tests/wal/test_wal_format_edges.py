"""The borders of the log's format: each limit met exactly, each error with all that it knows."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from quiver.errors import DamagedEntry, TornEntry, VersionError
from quiver.payload import EncodedBundle, Payload
from quiver.wal import format as wal
from quiver.wal import sidecar

LIMIT = 1 << 20
DIGEST = bytes(range(16))
EMPTY = wal.encode_bundle(EncodedBundle(7, 9, ()))
ONE = wal.encode_bundle(EncodedBundle(7, 9, (Payload(0, 1, bytes(32), 2, b""),)))
TWO = wal.encode_bundle(
    EncodedBundle(
        7, 9, (Payload(0, 1, bytes(32), 2, b"data"), Payload(63, 0xFFFF, b"\1" * 32, 3, b""))
    )
)


def resealed(data: bytes, offset: int, layout: str, value: int) -> bytes:
    """Change a field and make the checksum right again."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, value)
    changed[-4:] = struct.pack("<I", crc32c(bytes(changed[4:-4])))
    return bytes(changed)


def mislaid(data: bytes, length: int = 0xFFFF_FFFF) -> memoryview:
    """Give an entry a length field that is wrong."""
    return memoryview(struct.pack("<I", length) + data[4:])


@pytest.mark.parametrize(
    "value", [wal.Place(1, 2), wal.frame_at(memoryview(EMPTY), 0, LIMIT)], ids=["place", "frame"]
)
def test_values_neither_change_nor_gain_fields(value) -> None:
    with pytest.raises(AttributeError):
        value.offset = 3
    assert not hasattr(value, "__dict__")


def test_places_are_in_order_of_generation_then_offset() -> None:
    places = [wal.Place(2, 0), wal.Place(1, 9), wal.Place(1, 30)]
    assert sorted(places) == [wal.Place(1, 9), wal.Place(1, 30), wal.Place(2, 0)]


def test_the_types_of_entries_are_those_on_the_page() -> None:
    assert (wal.BUNDLE, wal.CHECKPOINT, wal.NOTED) == (0, 1, 2)


@pytest.mark.parametrize("data", [EMPTY, ONE, TWO], ids=["no slot", "one slot", "two slots"])
def test_an_entry_may_be_as_long_as_the_limit_and_no_longer(data: bytes) -> None:
    length = len(data) - 8
    for buffer in (memoryview(data), memoryview(data + b"next"), memoryview(data)[:]):
        assert wal.frame_at(buffer, 0, length).end == len(data)
    with pytest.raises(DamagedEntry) as caught:
        wal.frame_at(memoryview(b"junk" + data), 4, length - 1)
    error = caught.value
    assert (error.offset, error.expected, error.found) == (4, f"25 to {length - 1}", length)


def test_a_length_of_four_gigabytes_is_told_as_such() -> None:
    with pytest.raises(DamagedEntry) as caught:
        wal.frame_at(mislaid(EMPTY), 0, LIMIT)
    assert caught.value.found == 0xFFFF_FFFF


def test_a_length_below_the_shortest_is_refused_and_the_shortest_is_not() -> None:
    assert len(EMPTY) == 33
    assert wal.frame_at(memoryview(EMPTY), 0, 25).wal_seq == 7
    with pytest.raises(DamagedEntry, match="impossible"):
        wal.frame_at(mislaid(EMPTY, 24), 0, LIMIT)


@pytest.mark.parametrize("rest, expected", [(0, 4), (3, 4), (4, 33), (32, 33)])
def test_a_torn_entry_says_how_much_of_it_is_there(rest: int, expected: int) -> None:
    with pytest.raises(TornEntry) as caught:
        wal.frame_at(memoryview(b"before" + EMPTY[:rest]), 6, LIMIT)
    error = caught.value
    assert (error.offset, error.expected, error.found) == (6, expected, rest)


def test_a_wrong_checksum_is_told_with_its_place() -> None:
    data = b"xy" + EMPTY[:-4] + struct.pack("<I", 0xFEDC_BA98)
    with pytest.raises(DamagedEntry) as caught:
        wal.frame_at(memoryview(data), 2, LIMIT)
    error = caught.value
    right = f"{crc32c(EMPTY[4:-4]):#010x}"
    assert (error.offset, error.expected, error.found) == (2, "0xfedcba98", right)


@pytest.mark.parametrize("entry_type", [1, 3, 128, 255])
def test_an_entry_of_another_type_is_checked_by_its_checksum_alone(entry_type: int) -> None:
    data = resealed(resealed(TWO, 21, "<Q", 2**64 - 1), 4, "<B", entry_type)
    frame = wal.frame_at(memoryview(data), 0, LIMIT)
    assert (frame.entry_type, frame.slot_bitmap, frame.end) == (entry_type, 2**64 - 1, len(data))
    assert bytes(frame.body) == data[4:-4]
    assert wal.frame_with_damaged_length(mislaid(data), 0, LIMIT) is None


def test_an_entry_of_another_type_without_blocks_is_not_found_by_its_blocks() -> None:
    data = resealed(EMPTY, 4, "<B", 1)
    assert wal.frame_at(memoryview(data), 0, LIMIT).entry_type == 1
    assert wal.frame_with_damaged_length(mislaid(data), 0, LIMIT) is None
    assert wal.frame_with_damaged_length(mislaid(EMPTY), 0, LIMIT) is not None


@pytest.mark.parametrize(
    "data, found",
    [
        pytest.param(resealed(ONE, 29 + 38, "<I", 1), 68, id="payload beyond the body"),
        pytest.param(resealed(ONE, 21, "<Q", 0), 25, id="a block too many"),
        pytest.param(resealed(ONE, 21, "<Q", 3), 109, id="a block too few"),
        pytest.param(resealed(ONE, 21, "<Q", 2**64 - 1), 109, id="63 blocks too few"),
        pytest.param(resealed(EMPTY, 21, "<Q", 1), 67, id="no block at all"),
        pytest.param(resealed(TWO, 29 + 38, "<I", 5), 114, id="second block cut short"),
        pytest.param(resealed(TWO, 29 + 38, "<I", 3), 112, id="a byte between and behind"),
    ],
)
def test_blocks_that_do_not_add_up_say_to_what_they_do(data: bytes, found: int) -> None:
    with pytest.raises(DamagedEntry, match="add up") as caught:
        wal.frame_at(memoryview(b"123" + data), 3, LIMIT)
    error = caught.value
    assert (error.offset, error.expected, error.found) == (3, len(data) - 8, found)
    assert wal.frame_with_damaged_length(mislaid(data), 0, LIMIT) is None


@pytest.mark.parametrize("data", [EMPTY, ONE, TWO], ids=["no slot", "one slot", "two slots"])
def test_an_entry_is_found_by_its_blocks_if_all_of_it_is_there(data: bytes) -> None:
    wrong = b"before" + bytes(mislaid(data))
    for stop in range(6, len(wrong)):
        assert wal.frame_with_damaged_length(memoryview(wrong)[:stop], 6, LIMIT) is None
    for buffer in (wrong, wrong + b"behind"):
        frame = wal.frame_with_damaged_length(memoryview(buffer), 6, LIMIT)
        assert frame is not None
        assert (frame.offset, frame.end) == (6, 6 + len(data))
        assert bytes(frame.body) == data[4:-4]


@pytest.mark.parametrize("data", [EMPTY, ONE, TWO], ids=["no slot", "one slot", "two slots"])
def test_an_entry_is_found_by_its_blocks_up_to_the_limit(data: bytes) -> None:
    length = len(data) - 8
    assert wal.frame_with_damaged_length(mislaid(data), 0, length) is not None
    assert wal.frame_with_damaged_length(mislaid(data), 0, length - 1) is None


@pytest.mark.parametrize("ns, read", [(-(2**63), 0), (-1, 0), (0, 0), (1, 1), (2**63 - 1,) * 2])
def test_only_a_time_before_1970_is_changed_by_reading(ns: int, read: int) -> None:
    data = wal.encode_bundle(EncodedBundle(2**63 - 1, ns, ()))
    frame = wal.frame_at(memoryview(data), 0, LIMIT)
    assert frame.ingestion_ns == ns
    assert wal.decode_bundle(frame).ingestion_ns == read
    assert frame.wal_seq == 2**63 - 1


def test_every_field_of_a_block_holds_its_greatest_value() -> None:
    payload = Payload(63, 0xFFFF, b"\xff" * 32, 0xFFFF_FFFF, b"")
    data = wal.encode_bundle(EncodedBundle(0, 0, (payload,)))
    [back] = wal.decode_bundle(wal.frame_at(memoryview(data), 0, LIMIT)).payloads
    assert back == payload._replace(data=back.data)


def test_a_header_that_is_short_or_damaged_says_what_is_there() -> None:
    short = wal.decode_header(b"QUIVER", DIGEST)
    assert isinstance(short, TornEntry)
    assert (short.offset, short.expected, short.found) == (0, 30, 6)
    good = wal.encode_header(DIGEST)
    for data in (b"q" + good[1:], b"quiver" + good[6:], good[:-1] + b"\xff"):
        error = wal.decode_header(data, DIGEST)
        assert isinstance(error, DamagedEntry)
        assert (error.expected, error.found) == (good.hex(), data.hex())


def test_more_than_a_header_is_never_taken_for_one() -> None:
    with pytest.raises(ValueError, match="shorter"):
        wal.decode_header(wal.encode_header(DIGEST) + b"\0", DIGEST)


def test_two_wrong_bytes_behind_the_magic_may_be_another_store_and_are_refused() -> None:
    good = wal.encode_header(DIGEST)
    with pytest.raises(VersionError, match="version 65535, this Quiver reads 1"):
        wal.decode_header(good[:10] + b"\xff\xff" + good[12:], DIGEST)
    other = bytes(2) + good[16:]
    with pytest.raises(VersionError, match="layout") as caught:
        wal.decode_header(good[:14] + b"\xff\xff" + other[2:], DIGEST)
    assert "ffff" in str(caught.value)


@pytest.mark.parametrize(
    "place",
    [wal.Place(1, 0), wal.Place(1, 2), wal.Place(10**18, 2**64 - 1), wal.Place(3, 1 << 40)],
)
def test_a_sidecar_is_laid_out_as_on_the_page(place: wal.Place) -> None:
    data = sidecar.encode_sidecar(place)
    head = b"QUIVER\0T\1\0\0\0" + struct.pack("<QQ", place.offset, place.generation)
    assert data == head + struct.pack("<I", crc32c(head))
    assert sidecar.decode_sidecar(data) == place


def sealed_sidecar(head: bytes, extra: bytes = b"") -> bytes:
    return head + struct.pack("<I", crc32c(head)) + extra


GENERATIONS = "1 to 1000000000000000000"
HEAD = sidecar.encode_sidecar(wal.Place(3, 12345))[:28]


@pytest.mark.parametrize(
    "data, error, words, expected, found",
    [
        (HEAD, TornEntry, "too short", 32, 28),
        (b"X" * 32, DamagedEntry, "magic", b"QUIVER\0T", b"X" * 8),
        (HEAD + b"\xff" * 4, DamagedEntry, "checksum", "0xffffffff", f"{crc32c(HEAD):#010x}"),
        (sealed_sidecar(HEAD[:10] + b"\1\0" + HEAD[12:]), DamagedEntry, "reserved", 32, 32),
        (sealed_sidecar(HEAD, b"\0"), DamagedEntry, "size", 32, 33),
        (sidecar.encode_sidecar(wal.Place(0, 30)), DamagedEntry, "impossible", GENERATIONS, 0),
        (
            sidecar.encode_sidecar(wal.Place(10**18 + 1, 30)),
            DamagedEntry,
            "impossible",
            GENERATIONS,
            10**18 + 1,
        ),
    ],
)
def test_a_bad_sidecar_says_what_is_wrong(data, error, words, expected, found) -> None:
    with pytest.raises(error, match=words) as caught:
        sidecar.decode_sidecar(data)
    assert type(caught.value) is error
    assert (caught.value.expected, caught.value.found) == (expected, found)


@pytest.mark.parametrize("version", [0, 2, 0xFFFF])
def test_a_sidecar_of_another_version_names_it(version: int) -> None:
    data = sealed_sidecar(HEAD[:8] + struct.pack("<H", version) + HEAD[10:])
    with pytest.raises(VersionError, match=f"version {version}, this Quiver reads 1"):
        sidecar.decode_sidecar(data)


def test_a_checkpoint_entry_is_these_bytes() -> None:
    data = wal.encode_checkpoint(0x0102, wal.Place(7, 0x189))
    body = bytes([1]) + bytes(8) + bytes([2, 1]) + bytes(6) + bytes(8)
    body += bytes([7]) + bytes(7) + bytes([0x89, 1]) + bytes(6)
    assert data == struct.pack("<I", 41) + body + struct.pack("<I", crc32c(body))
    frame = wal.frame_at(memoryview(data), 0, LIMIT)
    assert (frame.entry_type, frame.wal_seq, frame.ingestion_ns) == (wal.CHECKPOINT, 0x0102, 0)
    assert (frame.slot_bitmap, frame.blocks, frame.end) == (0, (), len(data))
    assert wal.decode_checkpoint(frame) == wal.Place(7, 0x189)


@pytest.mark.parametrize("length", [25, 40])
def test_a_checkpoint_without_its_place_is_damaged(length: int) -> None:
    body = bytes([1]) + bytes(length - 1)
    data = struct.pack("<I", length) + body + struct.pack("<I", crc32c(body))
    frame = wal.frame_at(memoryview(b"junk" + data), 4, LIMIT)
    with pytest.raises(DamagedEntry, match="too short") as caught:
        wal.decode_checkpoint(frame)
    assert (caught.value.offset, caught.value.expected, caught.value.found) == (4, 41, length)


def test_a_longer_checkpoint_of_a_later_quiver_gives_its_place() -> None:
    body = wal.encode_checkpoint(3, wal.Place(2, 30))[4:-4] + b"more"
    data = struct.pack("<I", len(body)) + body + struct.pack("<I", crc32c(body))
    assert wal.decode_checkpoint(wal.frame_at(memoryview(data), 0, LIMIT)) == wal.Place(2, 30)


@pytest.mark.parametrize("reserved", [b"\xff\xff", b"\1\1"])
def test_a_header_wrong_in_its_reserved_bytes_alone_is_damaged_and_no_other_layout(
    reserved: bytes,
) -> None:
    data = wal.encode_header(bytes(range(16)))
    error = wal.decode_header(data[:12] + reserved + data[14:], bytes(range(16)))
    assert isinstance(error, DamagedEntry)
    with pytest.raises(VersionError, match="layout"):
        wal.decode_header(data[:12] + reserved + bytes(16), bytes(range(16)))


STORED = EncodedBundle(
    41, 99, (Payload(2, 5, b"f" * 32, 3, b"abc"), Payload(9, 6, b"g" * 32, 1, b""))
)


def test_a_stored_bundle_is_the_one_whose_frame_had_this_checksum() -> None:
    data = b"before" + wal.encode_bundle(STORED)
    frame = wal.frame_at(memoryview(data), 6, LIMIT)
    assert frame.checksum == crc32c(frame.body) == int.from_bytes(data[-4:], "little")
    back = wal.decode_stored(bytes(frame.body), frame.checksum)
    assert (back.wal_seq, back.ingestion_ns) == (41, 99)
    assert [bytes(p.data) for p in back.payloads] == [b"abc", b""]
    assert [p._replace(data=b"") for p in back.payloads] == [
        p._replace(data=b"") for p in STORED.payloads
    ]


def test_a_stored_bundle_that_is_no_longer_the_same_is_damaged() -> None:
    body = bytearray(wal.encode_bundle(STORED)[4:-4])
    checksum = crc32c(bytes(body))
    for wrong in (bytes(body[:-1]), bytes(body) + b"\0", b""):
        with pytest.raises(DamagedEntry, match="no longer what was recovered") as caught:
            wal.decode_stored(wrong, checksum)
        assert caught.value.expected == f"{checksum:#010x}"
        assert caught.value.found == f"{crc32c(wrong):#010x}"
    hollow = bytes(body[:-1])  # Its checksum is right, and its blocks are not.
    with pytest.raises(DamagedEntry, match="do not add up") as caught:
        wal.decode_stored(hollow, crc32c(hollow))
    assert caught.value.offset == 0
