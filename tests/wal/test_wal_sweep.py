"""Entries looked at many at a time are those that are found one by one, whatever is in the file."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from wal_kit import DIGEST, LIMIT

from quiver.config import SegmentConfig
from quiver.payload import EncodedBundle, Payload
from quiver.segment import OpenSegment, open_segment
from quiver.stored_run import StoredRun
from quiver.testing import MemoryDisk
from quiver.wal import Place
from quiver.wal.format import (
    BUNDLE,
    CRC,
    HEAD,
    HEADER_BYTES,
    LENGTH,
    NOTED,
    decode_bundle,
    encode_bundle,
    encode_checkpoint,
    encode_header,
)
from quiver.wal.reader import Entry, sweep, walk


def entry(seq: int, slots: tuple[int, ...], *, kind: int = 0, note: bytes | None = None) -> bytes:
    payloads = tuple(
        Payload(slot, slot, bytes([kind, slot]) * 16, 1, bytes([seq % 251]) * (seq % 7 * slot))
        for slot in slots
    )
    return encode_bundle(EncodedBundle(seq, 5, payloads, note))


def alien(seq: int) -> bytes:
    """An entry whose checksum is right and whose blocks do not fill it."""
    body = HEAD.pack(BUNDLE, 5, seq, 0b101) + bytes(60)
    return LENGTH.pack(len(body)) + body + CRC.pack(crc32c(body))


SLOTS = st.sampled_from([(0,), (0, 1, 63), (2, 5), (), (0, 1, 2, 3)])
ENTRIES = st.one_of(
    st.tuples(st.just("bundle"), SLOTS, st.integers(0, 1)),
    st.tuples(st.just("bundle"), SLOTS, st.integers(0, 1)),
    st.tuples(st.just("noted"), SLOTS, st.just(0)),
    st.tuples(st.just("alike"), st.integers(2, 9)),
    st.tuples(st.sampled_from(["checkpoint", "alien", "zeros", "junk", "gap"])),
)


def log_of(parts: list[tuple[Any, ...]]) -> bytes:
    data, seq = encode_header(DIGEST), 0
    for what, *more in parts:
        if what == "alike":
            data += b"".join(entry(number, (0,)) for number in range(seq, seq + more[0]))
            seq += more[0]
        elif what in ("bundle", "noted"):
            note = b"a note" if what == "noted" else None
            data += entry(seq, more[0], kind=more[1], note=note)
        elif what == "checkpoint":
            data += encode_checkpoint(seq - 1, Place(1, 30)) if seq else b""
        elif what == "alien":
            data += alien(seq)
        else:
            data += {"zeros": bytes(40), "junk": b"\xff\x01" * 9, "gap": b""}[what]
        seq += what in ("bundle", "noted", "alien", "gap")
    return data


def opened(data: bytes) -> Any:
    file = MemoryDisk().create("log")
    file.write(0, data)
    return file


def one_by_one(data: bytes, *, is_active: bool) -> list[Any]:
    items = walk(opened(data), HEADER_BYTES, entry_bytes_max=LIMIT, is_active=is_active)
    return [told(item) for item in items]


def told(item: Any) -> Any:
    if not isinstance(item, Entry):
        return (type(item).__name__, item.offset, item.end, str(item.error))
    frame = item.frame
    return (item.offset, item.end, frame.wal_seq, frame.entry_type, frame.checksum, frame.note)


def together(data: bytes, *, is_active: bool) -> tuple[list[Any], list[StoredRun]]:
    items = sweep(
        opened(data),
        HEADER_BYTES,
        entry_bytes_max=LIMIT,
        last_seq=-1,
        is_active=is_active,
        generation=3,
    )
    found, runs = [], []
    for item in items:
        if not isinstance(item, StoredRun):
            found.append(told(item))
            continue
        runs.append(item)
        for one in item.bundles():
            assert one.generation == 3
            end = one.offset + one.length + 8
            found.append((one.offset, end, one.wal_seq, BUNDLE, one.checksum, None))
        assert (item.offset, item.end) == (item.offsets[0], found[-1][1])
        assert item.last_seq == found[-1][2]
    return found, runs


@settings(max_examples=60)
@given(
    st.lists(ENTRIES, max_size=30),
    st.lists(st.integers(HEADER_BYTES, 3000), max_size=3),
    st.integers(0, 40),
    st.sampled_from([64, 300, 1 << 20]),
    st.sampled_from([2, 3, 32]),
)
def test_what_is_found_together_is_what_is_found_one_by_one(
    parts: list[tuple[Any, ...]], flips: list[int], cut: int, window: int, stretch: int
) -> None:
    data = bytearray(log_of(parts))
    for place in flips:
        if place < len(data):
            data[place] ^= 0x21
    whole = bytes(data[: max(len(data) - cut, HEADER_BYTES)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quiver.disk.window.WINDOW_BYTES", window)
        patch.setattr("quiver.disk.window.PASSING_BYTES", window)
        patch.setattr("quiver.wal.sweep._MANY", 5 if window == 300 else 100)
        patch.setattr("quiver.wal.sweep._STRETCH", stretch)
        for is_active in (True, False):
            found, runs = together(whole, is_active=is_active)
            assert found == one_by_one(whole, is_active=is_active)
            for run in runs:
                assert_columns(whole, run)


def assert_columns(data: bytes, run: StoredRun) -> None:
    """Hold the columns of a run, and of a part of it, against its entries."""
    for start in (0, run.bundle_count // 2):
        part = run.part(start, run.bundle_count)
        bundles = [
            decode_bundle(item.frame)
            for item in walk(opened(data), part.offset, entry_bytes_max=LIMIT)
            if isinstance(item, Entry)
        ][: part.bundle_count]
        assert part.payload_counts.tolist() == [len(b.payloads) for b in bundles]
        assert part.payload_bytes.tolist() == [b.payload_bytes for b in bundles]
        expected = {(p.slot_id, p.fingerprint) for b in bundles for p in b.payloads}
        assert {key for _, key in part.streams()} == expected


def test_many_good_entries_are_one_run_up_to_the_first_bad_one() -> None:
    data = bytearray(encode_header(DIGEST))
    starts = []
    for seq in range(40):
        starts.append(len(data))
        data += entry(seq, (0, 4))
    data[starts[30] + 20] ^= 1
    found, (first, second) = together(bytes(data), is_active=True)
    assert (first.bundle_count, second.first_seq, second.bundle_count) == (30, 31, 9)
    assert found[30][0] == "BadRegion"


def two_faced(seq: int) -> bytes:
    """A good entry with a note, of which the same bytes would be a good bundle without one."""
    body = struct.pack("<I34xI42xI", 42, 46, 0)
    body = HEAD.pack(NOTED, 5, seq, 1) + body
    return LENGTH.pack(len(body)) + body + CRC.pack(crc32c(body))


@pytest.mark.parametrize("place", [0, 1, 31, 32, 33, 40, 78, 79])
@pytest.mark.parametrize("fault", ["checksum", "length", "kind", "gap", "back", "cut", "none"])
def test_entries_of_one_length_end_where_one_is_not_as_it_should_be(place: int, fault: str) -> None:
    """More than are gone through one by one before those that are alike are taken at once."""
    count, data = 80, bytearray(encode_header(DIGEST))
    payload = Payload(0, 0, bytes(32), 1, bytes(46))
    for seq in range(count):
        number = (
            seq + 5 * (fault == "gap" and seq >= place) - 2 * (fault == "back" and seq == place)
        )
        data += encode_bundle(EncodedBundle(max(number, 0), 5, (payload,)))
    size = (len(data) - HEADER_BYTES) // count
    at = HEADER_BYTES + place * size
    if fault == "checksum":
        data[at + size - 1] ^= 1
    elif fault == "length":
        data[at] ^= 1
    elif fault == "kind":
        assert len(two_faced(place)) == size
        data[at : at + size] = two_faced(place)
    elif fault == "cut":
        del data[at + size // 2 :]
    for is_active in (True, False):
        found, runs = together(bytes(data), is_active=is_active)
        assert found == one_by_one(bytes(data), is_active=is_active)
        if fault == "none":
            assert [run.bundle_count for run in runs] == [count]


@pytest.mark.parametrize("length", [17, 18, 19, 20, 21, 24, 25])
@pytest.mark.parametrize("behind", range(5))
def test_entries_that_are_shorter_than_any_are_no_run(length: int, behind: int) -> None:
    """Their checksums are right and their numbers rise: only who would harm writes such."""
    data = encode_header(DIGEST)
    for seq in range(80):
        body = HEAD.pack(BUNDLE, 5, seq, 0)[:length]
        data += LENGTH.pack(len(body)) + body + CRC.pack(crc32c(body))
    data += bytes(behind)
    found, _ = together(data, is_active=True)
    assert found == one_by_one(data, is_active=True)


@pytest.mark.parametrize("every", [33, 34, 35, 65, 100, 129])
def test_what_is_looked_at_in_vain_is_no_more_than_what_was_found(
    monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Else one wrong entry in each few would have the rest of the file checked each time."""
    data = bytearray(encode_header(DIGEST))
    for seq in range(3000):
        data += entry(seq, (0,))
        data[-1] ^= seq % every == every - 1
    checked = []

    def count(view: bytes) -> int:
        checked.append(len(view))
        return crc32c(view)

    monkeypatch.setattr("quiver.wal.sweep.crc32c", count)
    found, _ = together(bytes(data), is_active=True)
    assert found == one_by_one(bytes(data), is_active=True)
    assert sum(checked) < 3 * len(data)


def test_an_entry_that_says_it_is_longer_than_the_file_is_left_alone() -> None:
    data = encode_header(DIGEST) + entry(0, (0,)) + entry(1, (0,)) + struct.pack("<I", LIMIT)
    found, (run,) = together(data + bytes(200), is_active=True)
    assert run.bundle_count == 2
    assert found[2][0] == "Tail"


@pytest.mark.parametrize("limit", ["size", "streams", "payloads", "bundles", "nothing"])
def test_bundles_join_an_open_segment_together_as_they_do_alone(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(open_segment, "_PAYLOADS_MAX", 33 if limit == "payloads" else 10**6)
    monkeypatch.setattr(open_segment, "BUNDLES_MAX", 21 if limit == "bundles" else 10**6)
    config = SegmentConfig(
        target_size=100 if limit == "size" else 1 << 20, max_streams=5 if limit == "streams" else 64
    )
    data = encode_header(DIGEST)
    for seq in range(50):
        data += entry(seq, ((0,), (1, 3), ())[seq % 3], kind=seq // 20)
    _, (run,) = together(data, is_active=True)
    items = walk(opened(data), HEADER_BYTES, entry_bytes_max=LIMIT)
    alone = OpenSegment(config)
    stored = run.bundles()
    for item in items:
        if not isinstance(item, Entry) or alone.due(0) is not None:
            break
        alone.add(decode_bundle(item.frame), 0, stored=next(stored))
    joined = OpenSegment(config)
    taken = joined.add_run(run, 0)
    assert taken == alone.bundle_count
    assert (limit == "nothing") == (taken == 50)
    for name in ("bundles", "payload_bytes", "stream_count", "stored_count", "_payload_count"):
        assert getattr(joined, name) == getattr(alone, name)
    if taken < 50:
        assert joined.due(0) == alone.due(0) is not None
        assert joined.add_run(run.part(taken, 50), 0) == 50 - taken
        assert joined.bundle_count == 50


@pytest.mark.parametrize("is_active", [True, False])
def test_entries_alike_whose_blocks_do_not_fit_are_found_as_one_by_one(*, is_active: bool) -> None:
    short = HEAD.pack(BUNDLE, 5, 0, 1)
    tiny = LENGTH.pack(len(short)) + short + CRC.pack(crc32c(short))
    logs = [
        log_of([("alien",)] * 5),
        encode_header(DIGEST) + alien(0) + alien(1) + alien(2),
        encode_header(DIGEST) + tiny,
    ]
    for data in logs:
        assert together(data, is_active=is_active)[0] == one_by_one(data, is_active=is_active)


def test_a_file_that_ends_before_a_block_could_has_no_run() -> None:
    body = HEAD.pack(BUNDLE, 5, 0, 1)
    file = opened(LENGTH.pack(len(body)) + body + CRC.pack(crc32c(body)))
    rules: Any = {"entry_bytes_max": LIMIT, "last_seq": -1, "is_active": True, "generation": 3}
    found = list(sweep(file, 0, **rules))
    assert not [item for item in found if isinstance(item, StoredRun)]
