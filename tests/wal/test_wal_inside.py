"""Logs inside of payloads, as whoever stores logs has them, are never taken for entries."""

from __future__ import annotations

import pytest
from wal_kit import DIGEST, LIMIT

from quiver.payload import EncodedBundle, Payload
from quiver.testing import MemoryDisk
from quiver.wal.format import BUNDLE, HEADER_BYTES, encode_bundle, encode_header
from quiver.wal.reader import Entry, walk


def entry(seq: int, *payloads: bytes, note: bytes | None = None) -> bytes:
    return encode_bundle(
        EncodedBundle(
            seq,
            5,
            tuple(Payload(n, n, bytes(32), 1, data) for n, data in enumerate(payloads)),
            note,
        )
    )


STRANGE = encode_header(DIGEST) + b"".join(entry(seq, b"somebody else's") for seq in range(1, 9))
FIRST = encode_header(DIGEST) + entry(0, b"ours")
SHAPES = {
    "alone": ((STRANGE,), None),
    "noted": ((STRANGE,), b"a note"),
    "one of several": ((b"before", STRANGE, b"behind"), None),
    "in a note": ((b"ours too",), STRANGE),
}


def found(data: bytes, *, is_active: bool) -> list[int]:
    file = MemoryDisk().create("log")
    file.write(0, data)
    items = walk(file, HEADER_BYTES, entry_bytes_max=LIMIT, is_active=is_active)
    return [
        item.frame.wal_seq
        for item in items
        if isinstance(item, Entry) and item.frame.entry_type == BUNDLE
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_active", [True, False])
def test_an_entry_that_was_cut_anywhere_gives_nothing_of_what_is_in_it(
    *, shape: str, is_active: bool
) -> None:
    payloads, note = SHAPES[shape]
    last = entry(1, *payloads, note=note)
    for size in range(len(last)):
        assert found(FIRST + last[:size], is_active=is_active) == [0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("is_active", [True, False])
def test_a_wrong_byte_in_a_payload_gives_nothing_of_what_is_beside_it(
    *, shape: str, is_last: bool, is_active: bool
) -> None:
    payloads, note = SHAPES[shape]
    whole = entry(1, *payloads, note=note)
    behind = b"" if is_last else entry(2, b"ours again")
    begin = whole.index(STRANGE)
    for place in (begin, begin + 1, begin + len(STRANGE) // 2, begin + len(STRANGE) - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        kept = [0] if is_last else [0, 2]
        assert found(FIRST + damaged + behind, is_active=is_active) == kept


def test_two_wrong_entries_behind_each_other_give_nothing_of_what_is_in_them() -> None:
    damaged = bytearray()
    for seq in (1, 2):
        one = bytearray(entry(seq, STRANGE))
        one[-1] ^= 1
        damaged += one
    assert found(FIRST + bytes(damaged), is_active=False) == [0]
    assert found(FIRST + bytes(damaged) + entry(3, b"ours"), is_active=False) == [0, 3]


def test_behind_an_entry_whose_length_leads_nowhere_others_are_found() -> None:
    damaged = bytearray(entry(1, b"x" * 100))
    damaged[1] ^= 1
    damaged[60] ^= 1
    assert found(FIRST + bytes(damaged) + entry(2, b"ours"), is_active=True) == [0, 2]
