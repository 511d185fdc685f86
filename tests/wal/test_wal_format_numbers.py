"""A number above the greatest makes an entry damaged; which of them have numbers a reader knows."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from quiver.errors import DamagedEntry
from quiver.payload import SEQ_MAX, EncodedBundle
from quiver.wal.format import (
    BUNDLE,
    CHECKPOINT,
    HEAD,
    LENGTH,
    NOTED,
    Place,
    decode_stored,
    encode_bundle,
    encode_checkpoint,
    frame_at,
    frame_with_damaged_length,
)

LIMIT = 1 << 20
TOO_GREAT = [SEQ_MAX + 1, SEQ_MAX + 2, 2**64 - 2, 2**64 - 1]
KINDS = ["bundle", "noted", "checkpoint"]


def entry(kind: str, seq: int) -> bytes:
    if kind == "checkpoint":
        return encode_checkpoint(seq, Place(1, 30))
    return encode_bundle(EncodedBundle(seq, 5, (), b"note" if kind == "noted" else None))


def test_the_greatest_number_is_what_the_page_says() -> None:
    assert SEQ_MAX == 2**63 - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seq", TOO_GREAT)
def test_an_entry_with_a_number_that_is_too_great_is_damaged(kind: str, seq: int) -> None:
    data = entry(kind, seq)
    with pytest.raises(DamagedEntry, match="number of an entry is impossible") as caught:
        frame_at(memoryview(b"xx" + data), 2, LIMIT)
    error = caught.value
    assert (error.offset, error.expected, error.found) == (2, f"at most {SEQ_MAX}", seq)
    with pytest.raises(DamagedEntry, match="impossible"):
        decode_stored(data[4:-4], crc32c(data[4:-4]))
    wrong_length = b"\xff" + data[1:]
    assert frame_with_damaged_length(memoryview(wrong_length), 0, LIMIT) is None


@pytest.mark.parametrize("kind", KINDS)
def test_one_with_the_greatest_number_is_not(kind: str) -> None:
    data = entry(kind, SEQ_MAX)
    assert frame_at(memoryview(data), 0, LIMIT).wal_seq == SEQ_MAX
    wrong_length = memoryview(b"\xff" + data[1:])
    found = frame_with_damaged_length(wrong_length, 0, LIMIT)
    assert (found is None) == (kind == "checkpoint")


def test_an_entry_that_only_a_later_quiver_knows_may_say_what_it_likes() -> None:
    head = HEAD.pack(NOTED + 1, 5, 2**64 - 1, 0) + b"news"
    data = LENGTH.pack(len(head)) + head + LENGTH.pack(crc32c(head))
    assert frame_at(memoryview(data), 0, LIMIT).wal_seq == 2**64 - 1
    assert {BUNDLE, CHECKPOINT, NOTED} == set(range(NOTED + 1))
