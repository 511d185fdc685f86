"""The borders of an inbox: each limit met exactly, each error with all that it knows."""

import dataclasses
import struct

import pytest
from crc32c import crc32c

import quiver.acks.inbox as module
from quiver.acks import DEAD_REJECTED
from quiver.acks.inbox import (
    INBOX_BYTES_MAX,
    TEXT_BYTES_MAX,
    DeadLetterState,
    Inbox,
    decode_inbox,
    encode_inbox,
)
from quiver.acks.states import NackState, SegmentState
from quiver.errors import DamagedEntry, InputError, TornEntry

U16, U32, U64, I64 = 2**16 - 1, 2**32 - 1, 2**64 - 1, 2**63 - 1
STORE = "0123456789abcdef" * 2
EMPTY = Inbox(STORE, "a", 1, 2)
SOME = Inbox(
    STORE,
    "spark",
    9,
    77,
    1,
    42,
    3,
    (SegmentState(42, 10, ((0, 3), (5, 2))),),
    (NackState(42, 4, 3, 99, 500),),
    (DeadLetterState(42, 8, 5, 2, "\u00e4"), DeadLetterState(43, 0)),
)
SEALED = encode_inbox(SOME)


def sealed(body):
    return body + struct.pack("<I", crc32c(body))


def test_the_numbers_of_the_page_are_those_of_the_code():
    assert (INBOX_BYTES_MAX, TEXT_BYTES_MAX) == (1 << 24, 200)
    assert (module.INBOX_LAYOUT.size, module.DEAD_LETTER_LAYOUT.size) == (80, 20)


def test_what_is_not_said_is_nothing():
    assert dataclasses.astuple(EMPTY) == (STORE, "a", 1, 2, 0, 0, 0, (), (), (), False)
    assert dataclasses.astuple(DeadLetterState(1, 2)) == (1, 2, 0, DEAD_REJECTED, "")


@pytest.mark.parametrize("value", [SOME, DeadLetterState(1, 2)], ids=["inbox", "dead letter"])
def test_values_neither_change_nor_gain_fields(value):
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, 3)
    assert not hasattr(value, "__dict__")


def test_an_inbox_is_laid_out_as_on_the_page():
    body = b"spark" + struct.pack("<QII", 42, 10, 2) + struct.pack("<IIII", 0, 3, 5, 2)
    body += struct.pack("<QIIqHHI", 42, 4, 3, 99, 500, 0, 0)
    body += struct.pack("<QIIHH", 42, 8, 5, 2, 2) + b"\xc3\xa4"
    body += struct.pack("<QIIHH", 43, 0, 0, 1, 0)
    size = 80 + len(body) + 4
    head = struct.pack("<8sHHHH16sI", b"QUIVER\0I", 1, 0, 5, 1, bytes.fromhex(STORE), size)
    head += struct.pack("<IIIQQqI4x", 1, 1, 2, 9, 42, 77, 3)
    assert sealed(head + body) == SEALED
    assert decode_inbox(SEALED) == SOME


def test_every_field_holds_its_greatest_and_its_least_value():
    greatest = Inbox(
        "f" * 32,
        "n" * 128,
        U64,
        I64,
        U16,
        U64,
        U32,
        (SegmentState(0, U32, ((0, U32),)), SegmentState(U64, U32, ((U32 - 1, 1),))),
        (NackState(0, 0, 0, -(2**63), 0), NackState(U64, U32, U32, I64, U16)),
        (DeadLetterState(0, 0, 0, 0, ""), DeadLetterState(U64, U32, U32, U16, "x" * 200)),
    )
    for inbox in (greatest, Inbox("0" * 32, "a", 1, -(2**63))):
        assert decode_inbox(encode_inbox(inbox)) == inbox


def test_fields_that_are_zero_today_may_have_a_meaning_later():
    for offset, layout, value in ((10, "<H", U16 - 1), (76, "<I", U32)):
        changed = bytearray(SEALED)
        struct.pack_into(layout, changed, offset, value)
        assert decode_inbox(sealed(bytes(changed[:-4]))) == SOME


def test_one_bit_says_that_the_subscriber_is_paused():
    changed = bytearray(SEALED)
    struct.pack_into("<H", changed, 10, 1)
    paused = dataclasses.replace(SOME, paused=True)
    assert sealed(bytes(changed[:-4])) == encode_inbox(paused)
    assert decode_inbox(encode_inbox(paused)) == paused


def test_an_inbox_that_ends_where_its_name_would_begin_is_damaged_and_not_torn():
    head = struct.pack("<8sHHHH16sI", b"QUIVER\0I", 1, 0, 0, 1, bytes.fromhex(STORE), 84)
    with pytest.raises(DamagedEntry, match="a name has 1 to 128 characters, not 0"):
        decode_inbox(sealed(head + struct.pack("<IIIQQqI4x", 0, 0, 0, 9, 0, 77, 0)))


def test_an_inbox_may_be_as_large_as_the_limit_and_no_larger(monkeypatch):
    monkeypatch.setattr(module, "INBOX_BYTES_MAX", len(SEALED))
    assert encode_inbox(SOME) == SEALED
    assert decode_inbox(SEALED) == SOME
    size = len(SEALED)
    monkeypatch.setattr(module, "INBOX_BYTES_MAX", size - 1)
    with pytest.raises(InputError, match=f"have {size} bytes, more than {size - 1}") as caught:
        encode_inbox(SOME)
    assert "gaps" in caught.value.hint
    with pytest.raises(DamagedEntry, match="another size"):
        decode_inbox(SEALED)


@pytest.mark.parametrize(
    "data, error, words, expected, found",
    [
        (SEALED[:83], TornEntry, "short", 84, 83),
        (b"PARQUET1" + SEALED[8:], DamagedEntry, "magic", b"QUIVER\0I", b"PARQUET1"),
        (
            SEALED[:-4] + b"\xff" * 4,
            DamagedEntry,
            "checksum",
            "ffffffff",
            f"{crc32c(SEALED[:-4]):08x}",
        ),
        (sealed(SEALED[:-4] + b"\0"), DamagedEntry, "another size", len(SEALED), len(SEALED) + 1),
    ],
)
def test_a_bad_inbox_says_what_is_wrong(data, error, words, expected, found):
    with pytest.raises(error, match=words) as caught:
        decode_inbox(data)
    assert (caught.value.expected, caught.value.found) == (expected, found)


def test_what_is_wrong_inside_is_located():
    def changed(offset, layout, value):
        data = bytearray(SEALED)
        struct.pack_into(layout, data, offset, value)
        return sealed(bytes(data[:-4]))

    for data, offset, found in (
        (changed(44, "<I", 3), len(SEALED) - 4, 0),
        (changed(44, "<I", 1), len(SEALED) - 24, 20),
        (changed(169, "<B", 0xFF), 149, None),
    ):
        with pytest.raises(DamagedEntry) as caught:
            decode_inbox(data)
        assert (caught.value.offset, caught.value.found) == (offset, found)


def test_a_checksum_that_fails_is_a_tear_only_if_bytes_are_missing():
    for data, kind in ((SEALED[:-1], TornEntry), (SEALED + b"\0", DamagedEntry)):
        with pytest.raises(kind, match="checksum") as caught:
            decode_inbox(data)
        assert type(caught.value) is kind


def test_a_value_that_does_not_fit_is_told_with_its_cause():
    with pytest.raises(InputError, match="does not fit its format") as caught:
        encode_inbox(dataclasses.replace(SOME, at_ns=2**63))
    assert isinstance(caught.value.__cause__, struct.error)


@pytest.mark.parametrize("store_id", ["", "0" * 30, "0" * 34, "G" * 32, "A" * 32, "0 " * 16])
def test_what_is_no_id_of_a_store_is_named(store_id):
    with pytest.raises(InputError, match=f"{store_id!r} is not the id of a store"):
        encode_inbox(dataclasses.replace(SOME, store_id=store_id))
