"""The borders of ack.log's format: each limit met exactly, each error with all that it knows."""

import dataclasses
import struct

import pytest
from crc32c import crc32c

from quiver.acks import (
    DEAD_ATTEMPTS,
    DEAD_REJECTED,
    DROPPED_AGE,
    DROPPED_DAMAGED,
    DROPPED_OPERATOR,
    DROPPED_SIZE,
    Ack,
    DeadLetter,
    Dropped,
    Floor,
    Lease,
    Nack,
    Pause,
    Register,
    Rename,
    Unregister,
)
from quiver.acks.format import (
    NAME_BYTES_MAX,
    decode_frame,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
    name_fault,
)
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

U16, U32, U64, I64 = 2**16 - 1, 2**32 - 1, 2**64 - 1, 2**63 - 1
ACK = Ack(1, 42, 2, 5, 7)
FRAME = encode_record(ACK, 5)
HEADER = encode_header(8)
NAMED = encode_record(Register(1, "ab"), 5)


def sealed(body):
    return body + struct.pack("<I", crc32c(body))


def patched(data, offset, layout, value):
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, value)
    return sealed(bytes(changed[:60]))


def decoded(data):
    return decode_record([decode_frame(data[at : at + 64]) for at in range(0, len(data), 64)])


def test_the_numbers_of_the_page_are_those_of_the_code():
    reasons = DROPPED_SIZE, DROPPED_AGE, DROPPED_DAMAGED, DROPPED_OPERATOR
    assert (reasons, NAME_BYTES_MAX) == ((1, 2, 3, 4), 128)
    assert (DEAD_REJECTED, DEAD_ATTEMPTS) == (1, 2)


def test_what_is_not_said_is_nothing():
    assert Ack(1, 2, 3, 4, 5).lease == 0
    assert Dropped(1, 2, 3, 4, 5).reason == DROPPED_SIZE
    nack = Nack(1, 2, 3, 4, 5, 6)
    assert (nack.reason, nack.lease) == (0, 0)
    register = Register(1, "a")
    assert (register.at_ns, register.start_segment_seq, register.start_bundle_index) == (0, 0, 0)
    assert Unregister(1).at_ns == 0
    dead = DeadLetter(1, 2, 3, 4, 5)
    assert (dead.attempt, dead.reason, dead.lease) == (0, DEAD_REJECTED, 0)
    assert dataclasses.astuple(Floor()) == (0, 0, 0)


@pytest.mark.parametrize(
    "value",
    [
        ACK,
        Dropped(1, 2, 3, 4, 5),
        Nack(1, 2, 3, 4, 5, 6),
        Register(1, "a"),
        Unregister(1),
        DeadLetter(1, 2, 3, 4, 5),
        Pause(1, 2, paused=True),
        Lease(1, 2, 3),
        Rename(1, "a", 2),
        Floor(),
        decode_frame(FRAME),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_neither_change_nor_gain_fields(value):
    with pytest.raises(AttributeError):
        value.at_ns = 3
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("base_seq", [0, 1, 2**63, U64])
def test_a_header_is_laid_out_as_on_the_page(base_seq):
    body = b"QUIVER\0A\1\0\0\0\0\0\0\0" + struct.pack("<Q", base_seq) + bytes(36)
    assert encode_header(base_seq) == sealed(body)
    assert decode_header(sealed(body)) == base_seq
    assert decode_header(sealed(body) + b"frames") == base_seq


@pytest.mark.parametrize(
    "data, error, words, expected, found",
    [
        (b"", TornEntry, "short", 64, 0),
        (HEADER[:63], TornEntry, "short", 64, 63),
        (b"PARQUET1" + HEADER[8:], DamagedEntry, "magic", b"QUIVER\0A", b"PARQUET1"),
        (HEADER[:60] + b"\xff" * 4, DamagedEntry, "sum", "ffffffff", f"{crc32c(HEADER[:60]):08x}"),
    ],
)
def test_a_bad_header_says_what_is_wrong(data, error, words, expected, found):
    with pytest.raises(error, match=words) as caught:
        decode_header(data)
    assert (caught.value.expected, caught.value.found) == (expected, found)


@pytest.mark.parametrize("version", [0, 2, U16])
def test_a_header_of_another_version_names_it(version):
    with pytest.raises(VersionError, match=f"format {version}, this program reads 1"):
        decode_header(patched(HEADER, 8, "<H", version))


def test_fields_of_a_header_that_are_zero_today_may_have_a_meaning_later():
    assert decode_header(sealed(HEADER[:10] + b"\xff" * 6 + HEADER[16:24] + b"\xff" * 36)) == 8


@pytest.mark.parametrize(
    "record",
    [
        Ack(U16, U64, U32, 1, I64, U64),
        Ack(0, 0, 0, 1, -(2**63), 0),
        Ack(1, 2, 0, U32, 3),
        Ack(1, 2, 1, U32, 3),
        Dropped(U16, U64, U32, 1, I64, U16),
        Nack(U16, U64, U32, U32, I64, I64, U16, U64),
        Nack(0, 0, 0, 0, -(2**63), -(2**63), 0, 0),
        Register(U16, "n" * 128, I64, U64, U32),
        Unregister(U16, -(2**63)),
        DeadLetter(U16, U64, U32, 1, I64, U32, U16, U64),
        DeadLetter(0, 0, 0, 1, -(2**63), 0, 0, 0),
        Pause(U16, I64, paused=True),
        Pause(0, -(2**63), paused=False),
        Lease(U16, U64, I64),
        Lease(0, 0, -(2**63)),
        Rename(U16, "n" * 128, I64),
        Floor(2**63, 2**63, I64),
    ],
)
def test_every_field_holds_its_greatest_and_its_least_value(record):
    assert decoded(encode_record(record, 2**63)) == record


def test_a_frame_is_laid_out_as_on_the_page():
    body = struct.pack("<QIIqQI", 42, 2, 5, 0, 0, 0)
    assert sealed(struct.pack("<BBBBHHQq", 1, 0, 1, 0, 1, 0, 5, 7) + body) == FRAME
    body = struct.pack("<QIIqQI", 42, 2, 1, 99, 8, 3)
    frame = sealed(struct.pack("<BBBBHHQq", 2, 0, 1, 0, 1, 6, 5, 7) + body)
    assert encode_record(Nack(1, 42, 2, 3, 99, 7, 6, 8), 5) == frame
    body = struct.pack("<QIIqQI", 42, 2, 5, 0, 0, 0)
    frame = sealed(struct.pack("<BBBBHHQq", 3, 0, 1, 0, 1, 4, 5, 7) + body)
    assert encode_record(Dropped(1, 42, 2, 5, 7, DROPPED_OPERATOR), 5) == frame
    frame = sealed(struct.pack("<BBBBHHQq", 5, 0, 1, 0, 9, 0, 5, 7) + bytes(36))
    assert encode_record(Unregister(9, 7), 5) == frame
    body = struct.pack("<QQ", 42, 900) + bytes(20)
    frame = sealed(struct.pack("<BBBBHHQq", 6, 0, 1, 0, 0, 0, 5, 7) + body)
    assert encode_record(Floor(42, 900, 7), 5) == frame


def test_the_kinds_that_came_later_are_laid_out_as_on_the_page():
    body = struct.pack("<QIIqQI", 42, 2, 5, 0, 8, 3)
    frame = sealed(struct.pack("<BBBBHHQq", 8, 0, 1, 0, 1, 2, 5, 7) + body)
    assert encode_record(DeadLetter(1, 42, 2, 5, 7, 3, DEAD_ATTEMPTS, 8), 5) == frame
    for paused in (False, True):
        frame = sealed(struct.pack("<BBBBHHQq", 7, 0, 1, paused, 9, 0, 5, 7) + bytes(36))
        assert encode_record(Pause(9, 7, paused), 5) == frame
        others = sealed(frame[:3] + bytes([0xFE | paused]) + frame[4:24] + b"\xff" * 36)
        assert decoded(others) == Pause(9, 7, paused)
    body = struct.pack("<QIIqQI", 0, 0, 0, 0, 8, 0)
    frame = sealed(struct.pack("<BBBBHHQq", 9, 0, 1, 0, 1, 0, 5, 7) + body)
    assert encode_record(Lease(1, 8, 7), 5) == frame
    body = struct.pack("<QIIqQI", U64, U32, U32, -1, 8, U32)
    assert decoded(sealed(frame[:24] + body)) == Lease(1, 8, 7)
    body = struct.pack("<QIH22s", 0, 0, 2, b"ab")
    frame = sealed(struct.pack("<BBBBHHQq", 10, 0, 1, 0, 1, 0, 5, 7) + body)
    assert encode_record(Rename(1, "ab", 7), 5) == frame
    assert decoded(patched(frame, 24, "<Q", U64)) == Rename(1, "ab", 7)


def test_a_long_name_goes_on_in_the_frames_behind_it():
    name = "abcdefghijklmnopqrstuv" + "w" * 36 + "x"
    first = struct.pack("<QIH", 42, 2, 59) + name[:22].encode()
    parts = first, b"w" * 36, b"x" + bytes(35)
    frames = [
        sealed(struct.pack("<BBBBHHQq", 4, part, 3, 0, 1, 0, 5 + part, 7) + body)
        for part, body in enumerate(parts)
    ]
    assert encode_record(Register(1, name, 7, 42, 2), 5) == b"".join(frames)


@pytest.mark.parametrize(
    "record",
    [
        ACK,
        Dropped(1, 2, 3, 4, 5, DROPPED_AGE),
        Nack(1, 2, 3, 4, 5, 6, 7, 8),
        Register(1, "n" * 128, 3, 4, 5),
        Unregister(1, 2),
        DeadLetter(1, 2, 3, 4, 5, 6, 7, 8),
        Pause(1, 2, paused=True),
        Lease(1, 2, 3),
        Rename(1, "n" * 128, 3),
        Floor(1, 2, 3),
    ],
    ids=lambda record: type(record).__name__,
)
def test_frames_behind_the_first_say_nothing_but_more_of_its_body(record):
    data = encode_record(record, 5)
    first, *more = (decode_frame(data[at : at + 64]) for at in range(0, len(data), 64))
    more = more or [dataclasses.replace(first, body=b"\xff" * 36)]
    strange = {"kind": 255, "flags": 0, "subscriber_id": U16, "reason": U16, "at_ns": -1}
    frames = [dataclasses.replace(frame, **strange) for frame in more]
    assert decode_record([first, *frames]) == record


def test_every_field_of_a_frame_comes_back():
    values = 255, 254, 255, 255, U16, U16, U64, -(2**63)
    frame = decode_frame(sealed(struct.pack("<BBBBHHQq", *values) + b"b" * 36) + b"next frame")
    assert dataclasses.astuple(frame) == (*values, b"b" * 36)
    assert decode_record([frame]) is None


def test_a_frame_may_be_read_from_a_view():
    assert decode_frame(memoryview(FRAME)) == decode_frame(FRAME)


@pytest.mark.parametrize(
    "data, error, expected, found",
    [
        (b"", TornEntry, 64, 0),
        (FRAME[:63], TornEntry, 64, 63),
        (FRAME[:60] + bytes(4), TornEntry, None, None),
        (FRAME[:60] + b"\xff" * 4, DamagedEntry, "ffffffff", f"{crc32c(FRAME[:60]):08x}"),
        (patched(FRAME, 0, "<B", 0), DamagedEntry, "1 to 255", 0),
        (patched(FRAME, 1, "<B", 1), DamagedEntry, "below 1", 1),
        (patched(FRAME, 1, "<B", 255), DamagedEntry, "below 1", 255),
        (patched(FRAME, 2, "<B", 0), DamagedEntry, "below 0", 0),
    ],
)
def test_a_bad_frame_says_what_is_wrong(data, error, expected, found):
    with pytest.raises(error) as caught:
        decode_frame(data)
    assert type(caught.value) is error
    assert (caught.value.expected, caught.value.found) == (expected, found)


@pytest.mark.parametrize(
    "name",
    ["a", "Z", "0", "9z", "a.b-c_d", "a.", "a-", "a_", "a.b.c", "n" * 128, "A" + "._-" * 42],
)
def test_a_good_name_has_no_fault(name):
    assert name_fault(name) is None
    assert decoded(encode_record(Register(1, name), 1)) == Register(1, name)


@pytest.mark.parametrize(
    "name, words",
    [
        ("", "1 to 128 characters, not 0"),
        ("n" * 129, "1 to 128 characters, not 129"),
        (".a", "starts with"),
        ("-a", "starts with"),
        ("_a", "starts with"),
        ("a..b", "has no"),
        ("a b", "letters"),
        ("a/b", "letters"),
        ("a\0", "letters"),
        ("\u00e4", "letters"),
        ("a\u0663", "letters"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name, words):
    assert words in name_fault(name)
    for record in (Register(1, name), Rename(1, name, 0)):
        with pytest.raises(InputError, match=words):
            encode_record(record, 1)


@pytest.mark.parametrize("first, count", [(3, 0), (3, -1), (U32, 2), (2**32, 1), (0, 2**32 + 1)])
@pytest.mark.parametrize("kind", [Ack, Dropped, DeadLetter])
def test_an_impossible_run_is_named(kind, first, count):
    with pytest.raises(InputError, match=f"bundles {first} to {first + count} are no run"):
        encode_record(kind(1, 2, first, count, 4), 1)


def test_a_value_that_does_not_fit_is_named_with_its_record():
    with pytest.raises(InputError, match=r"Ack\(.*does not fit into a record") as caught:
        encode_record(ACK._replace(at_ns=2**63), 1)
    assert isinstance(caught.value.__cause__, struct.error)


@pytest.mark.parametrize(
    "data, words",
    [
        (patched(FRAME, 36, "<I", 0), "bundles 2 to 2 are no run"),
        (patched(FRAME, 32, "<I", U32), f"bundles {U32} to {U32 + 5} are no run"),
        (patched(NAMED, 36, "<H", 0), "not 0"),
        (patched(NAMED, 38, "<B", 0xE4), "letters"),
        (patched(NAMED, 38, "<B", 0x2E), "starts with"),
        (patched(NAMED, 36, "<H", 3), "letters"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused_with_the_reason(data, words):
    with pytest.raises(DamagedEntry, match=words):
        decoded(data)


@pytest.mark.parametrize("name_bytes", [23, U16])
def test_a_name_longer_than_its_record_says_by_how_much(name_bytes):
    with pytest.raises(DamagedEntry, match="longer than its record") as caught:
        decoded(patched(NAMED, 36, "<H", name_bytes))
    assert (caught.value.expected, caught.value.found) == (name_bytes, 22)
