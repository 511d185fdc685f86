"""The bytes of records, pages and amended blocks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from record_kit import begun, rolled

from quiver.chain.record import (
    Amended,
    Block,
    Open,
    PageRef,
    Record,
    decode_amended,
    decode_page,
    decode_record,
    encode_amended,
    encode_page,
    encode_record,
)
from quiver.errors import DamageError, InputError, TornEntry, VersionError

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "record"
BLOCK = Block(3, 2, -5, 7, 100, 41, 2, ("a", "ö"), rows=12, digest=bytes(range(32)))
LATER = Block(5, 4, 7, 9, 1, 41, 16, ("b",), continues=True)
LOST = Block(6, 4, 9, 9, 0, 41, 1, (), is_abandoned=True)
RECORD = Record(
    change=9,
    epoch=5,
    next_number=9,
    purged_below=2,
    end=11,
    last_seq=50,
    rf=3,
    is_rising=False,
    writer="loader 1",
    sealing_by="straße",
    open=Open(8, 11, ("a", "b")),
    recent=(BLOCK, LATER, LOST),
    pages=(PageRef(0, 2, -9, -5, 3, bytes(range(16))),),
)


def repaired(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def test_golden_bytes_are_read_and_written_as_ever():
    record, page = (GOLDEN / "record").read_bytes(), (GOLDEN / "page").read_bytes()
    amended = (GOLDEN / "amended").read_bytes()
    assert decode_record(record) == RECORD
    assert encode_record(RECORD) == record
    assert decode_page(page) == (BLOCK, LATER, LOST)
    assert encode_page((BLOCK, LATER, LOST)) == page
    assert decode_amended(amended) == Amended(3, BLOCK)
    assert encode_amended(Amended(3, BLOCK)) == amended


def test_what_was_never_opened_is_small():
    assert decode_record(encode_record(Record())) == Record()
    assert len(encode_record(Record())) == 78


@settings(max_examples=30)
@given(st.integers(0, 6), st.booleans(), st.text(max_size=60))
def test_any_record_comes_back(rolls, is_rising, name):
    record = begun(is_rising=is_rising)._replace(writer=name, sealing_by=name[::-1])
    for _ in range(rolls):
        record = rolled(record._replace(writer="", sealing_by=""))
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "data", [encode_record(RECORD), encode_page((BLOCK, LATER)), encode_amended(Amended(1, BLOCK))]
)
def test_any_byte_that_changes_or_is_missing_is_found(data):
    decode = {b"R": decode_record, b"B": decode_page, b"A": decode_amended}[data[7:8]]
    for at in range(len(data)):
        with pytest.raises(DamageError):
            decode(data[:at])
        with pytest.raises(DamageError):
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(TornEntry):
        decode(data + b"\0")
    newer = bytearray(data)
    newer[8] = 2
    with pytest.raises(VersionError, match="version 2"):
        decode(repaired(bytes(newer)))


IMPOSSIBLE = {
    "no change": {"change": 0},
    "rf": {"rf": 0},
    "rf too large": {"rf": 17},
    "purged what is not there": {"purged_below": 10},
    "purged a page": {"purged_below": 3},
    "purged a block": {"purged_below": 4, "pages": ()},
    "a number that was used": {"next_number": 8},
    "an end before the last block": {"end": 8},
    "an epoch before the last block": {"epoch": 3},
    "a sequence before the last block": {"last_seq": 40},
    "a sequence below -1": {"last_seq": -2, "recent": (), "pages": (), "open": None},
    "an open block in the midst": {"open": Open(6, 11, ("a",))},
    "an open block before the end": {"open": Open(8, 10, ("a",))},
    "an open block of nobody": {"open": Open(8, 11, ())},
    "one location twice": {"open": Open(8, 11, ("a", "a"))},
    "a location without a name": {"open": Open(8, 11, ("",))},
    "too many locations": {"open": Open(8, 11, tuple("abcdefghijklmnopq"))},
    "blocks out of order": {"recent": (LATER, BLOCK)},
    "one block twice": {"recent": (BLOCK, BLOCK)},
    "times that overlap": {"recent": (BLOCK, LATER._replace(start=6))},
    "times before the page's": {"recent": (BLOCK._replace(start=-6),)},
    "sequences that go back": {"recent": (BLOCK, LATER._replace(last_seq=40))},
    "a block without entries": {"recent": (BLOCK._replace(length=0),)},
    "a block of nobody": {"recent": (BLOCK._replace(locations=()),)},
    "a block that was abandoned and is not": {"recent": (LOST._replace(locations=("a",)),)},
    "an end before the start": {"recent": (BLOCK._replace(end=-6),)},
    "a short digest": {"recent": (BLOCK._replace(digest=b"1"),)},
    "rows below 0": {"recent": (BLOCK._replace(rows=-1),)},
    "a page in disorder": {"pages": (PageRef(1, 0, -9, -5, 3, bytes(16)),)},
    "a page of nothing": {"pages": (PageRef(0, 2, -9, -5, 0, bytes(16)),)},
    "a page behind the blocks": {"pages": (PageRef(0, 3, -9, -5, 3, bytes(16)),)},
    "a text too long": {"writer": "x" * 256},
    "a text that is none": {"writer": "\ud800"},
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_may_not_be_is_not_written(change):
    with pytest.raises(InputError):
        encode_record(RECORD._replace(**change))


def test_what_may_not_be_is_not_read():
    data = bytearray(encode_record(RECORD))
    data[16:24] = bytes(8)
    with pytest.raises(DamageError, match="a record is impossible"):
        decode_record(repaired(bytes(data)))
    for place, byte in ((65, 0xFF), (12, 1)):
        data = bytearray(encode_record(RECORD))
        data[place] = byte
        with pytest.raises(DamageError):
            decode_record(repaired(bytes(data)))


def test_pages_and_amended_blocks_have_their_limits():
    with pytest.raises(InputError, match="0 blocks"):
        encode_page(())
    with pytest.raises(InputError, match="257 blocks"):
        encode_page([BLOCK] * 257)
    with pytest.raises(InputError, match="out of order"):
        encode_page([BLOCK, BLOCK])
    with pytest.raises(InputError, match="change 0"):
        encode_amended(Amended(0, BLOCK))
    with pytest.raises(InputError, match="nobody has it"):
        encode_amended(Amended(1, BLOCK._replace(locations=())))
