"""Entries with a note: the same bytes without one, found again, and gone with their bundle."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from quiver.errors import DamagedEntry, TornEntry
from quiver.payload import EncodedBundle, Payload
from quiver.wal import format as wal

LIMIT = 1 << 20
PAYLOADS = (Payload(0, 0, b"f" * 32, 3, b"first"), Payload(9, 9, b"g" * 32, 1, b"second"))
PLAIN = EncodedBundle(7, 5, PAYLOADS)
NOTED = PLAIN._replace(note=b"how far")


def frame(data: bytes) -> wal.Frame:
    return wal.frame_at(memoryview(data), 0, LIMIT)


def resealed(data: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    changed[-4:] = struct.pack("<I", crc32c(changed[4:-4]))
    return bytes(changed)


def test_an_entry_with_a_note_is_the_one_without_and_the_note_behind_its_head() -> None:
    plain, noted = wal.encode_bundle(PLAIN), wal.encode_bundle(NOTED)
    body = b"\2" + plain[5:29] + struct.pack("<I", 7) + b"how far" + plain[29:-4]
    assert noted == struct.pack("<I", len(body)) + body + struct.pack("<I", crc32c(body))
    assert len(noted) == wal.entry_bytes(NOTED.payloads, NOTED.note)
    assert len(noted) == wal.entry_bytes(PLAIN.payloads) + 11
    assert plain[4] == 0


@pytest.mark.parametrize("bundle", [PLAIN, NOTED], ids=["plain", "noted"])
def test_an_entry_has_two_parts_for_each_payload_and_one_behind_all(bundle: EncodedBundle) -> None:
    parts = wal.entry_parts(bundle)
    assert len(parts) == 2 * len(PAYLOADS) + 1
    assert all(parts[2 * n + 1] is payload.data for n, payload in enumerate(PAYLOADS))
    assert b"".join(parts) == wal.encode_bundle(bundle)
    assert len(wal.entry_parts(bundle._replace(payloads=()))) == 2


@pytest.mark.parametrize("note", [b"", b"n", b"x" * 5000])
@pytest.mark.parametrize("payloads", [(), PAYLOADS[:1], PAYLOADS])
def test_it_comes_back_as_a_bundle(note: bytes, payloads: tuple[Payload, ...]) -> None:
    bundle = EncodedBundle(7, 5, payloads, note)
    data = wal.encode_bundle(bundle)
    found = frame(data)
    assert (found.entry_type, found.wal_seq, found.end) == (wal.BUNDLE, 7, len(data))
    assert wal.decode_bundle(found) == bundle
    assert wal.decode_stored(bytes(found.body), found.checksum) == bundle
    assert wal.decode_bundle(frame(wal.encode_bundle(PLAIN))).note is None


def test_a_damaged_length_is_found_by_adding_up_the_note_too() -> None:
    data = b"\xff\xff\xff\x7f" + wal.encode_bundle(NOTED)[4:]
    found = wal.frame_with_damaged_length(memoryview(data + b"more"), 0, LIMIT)
    assert found is not None
    assert wal.decode_bundle(found) == NOTED
    for end in range(len(data)):
        assert wal.frame_with_damaged_length(memoryview(data[:end]), 0, LIMIT) is None
    bare = b"\0\0\0\0" + wal.encode_bundle(EncodedBundle(7, 5, (), b"note"))[4:]
    assert wal.frame_with_damaged_length(memoryview(bare), 0, LIMIT) is not None
    assert wal.frame_with_damaged_length(memoryview(bare), 0, 32) is None


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (6, "do not add up"),
        (8, "do not add up"),
        (len(wal.encode_bundle(NOTED)), "ends behind it"),
        (0xFFFFFFFF, "ends behind it"),
    ],
)
def test_a_note_of_another_length_is_damage(length: int, words: str) -> None:
    data = resealed(wal.encode_bundle(NOTED), 29, "<I", length)
    with pytest.raises(DamagedEntry, match=words) as caught:
        frame(data)
    assert caught.value.offset == 0


def test_an_entry_that_ends_inside_the_length_of_its_note_is_damage() -> None:
    for rest in range(4):
        body = wal.HEAD.pack(wal.NOTED, 5, 7, 0) + bytes(rest)
        data = struct.pack("<I", len(body)) + body + struct.pack("<I", crc32c(body))
        with pytest.raises(DamagedEntry, match="ends behind it"):
            frame(data)


def test_every_flip_and_every_cut_of_it_is_noticed() -> None:
    data = wal.encode_bundle(NOTED)
    for at in range(4, len(data)):
        with pytest.raises(DamagedEntry):
            frame(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    for end in range(len(data)):
        with pytest.raises(TornEntry):
            frame(data[:end])
