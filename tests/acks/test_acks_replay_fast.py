"""Reading all frames together finds what reading them one by one finds, whatever the bytes."""

import random
import struct

import exact_acks
import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from merged_acks import meaning

import quiver.acks.replay as module
from quiver.acks import (
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
    sums,
)
from quiver.acks.format import (
    FRAME_LAYOUT,
    FRAME_SIZE,
    HEADER_SIZE,
    OUTCOME_LAYOUT,
    encode_header,
    encode_record,
)
from quiver.acks.merging import Runs, as_entries, joined, united
from quiver.acks.replay import read_log
from quiver.acks.sums import frame_sums

LONG = "a-name-of-more-than-22-characters"
SMALL = st.integers(0, 3)
ACKS = st.builds(
    Ack,
    st.integers(1, 2),
    st.integers(0, 1),
    st.integers(0, 12),
    st.integers(1, 3),
    SMALL,
    st.integers(0, 1),
)
OTHERS = st.one_of(
    st.builds(Nack, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL),
    st.builds(Dropped, SMALL, SMALL, SMALL, st.integers(1, 3), SMALL),
    st.builds(DeadLetter, SMALL, SMALL, SMALL, st.integers(1, 3), SMALL),
    st.builds(Register, SMALL, st.sampled_from(["a", LONG])),
    st.builds(Rename, SMALL, st.sampled_from(["a", LONG]), SMALL),
    st.builds(Unregister, SMALL),
    st.builds(Floor, SMALL, SMALL),
    st.builds(Lease, SMALL, SMALL, SMALL),
    st.builds(Pause, SMALL, SMALL, st.booleans()),
)
RECORDS = st.lists(st.one_of(ACKS, ACKS, ACKS, OTHERS), max_size=40)
DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["flip", "blank", "cut", "drop", "copy", "reseal", "unfinished"]),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
    ),
    max_size=4,
)


def log_of(records, base=1):
    parts, seq = [encode_header(base)], base
    for record in records:
        parts.append(encode_record(record, seq))
        seq += len(parts[-1]) // FRAME_SIZE
    return b"".join(parts)


def resealed(frame):
    return frame[:-4] + struct.pack("<I", crc32c(frame[:-4]))


def damaged(data, kind, place, value):
    """Do something bad to a log."""
    data = bytearray(data)
    if kind == "cut":
        return bytes(data[: place % (len(data) + 1)])
    count = (len(data) - HEADER_SIZE) // FRAME_SIZE
    if count < 1:
        return bytes(data)
    start = HEADER_SIZE + place % count * FRAME_SIZE
    stop = start + FRAME_SIZE
    if kind == "flip":
        data[start + value % FRAME_SIZE] ^= 1 + value % 255
    elif kind == "blank":
        data[start:stop] = bytes(FRAME_SIZE)
    elif kind == "unfinished":
        data[stop - 4 : stop] = bytes(4)
    elif kind == "drop":
        del data[start:stop]
    elif kind == "copy":
        data += data[start:stop]
    elif value % 3 == 0:
        # Wrong in itself, under a checksum that is right.
        data[start + value % 3] ^= 1 + value % 3
        data[start:stop] = resealed(bytes(data[start:stop]))
    else:
        at = value % (FRAME_SIZE - 4)
        data[start + at] = value % 256
        data[start:stop] = resealed(bytes(data[start:stop]))
    return bytes(data)


def assert_as_exact(data, covered=0):
    exact, content = exact_acks.read_log(data), read_log(data, covered=covered)
    for name in ("base_seq", "kept", "end", "last_seq"):
        assert getattr(content, name) == getattr(exact, name), name
    assert [told(error) for error in content.faults] == [told(error) for error in exact.faults]
    wanted = [(seq, record) for seq, record in exact.entries if seq > covered]
    assert meaning(content.entries) == meaning(wanted)
    assert content.record_count == len(wanted)
    assert [seq for seq, _ in content.entries] == sorted({seq for seq, _ in content.entries})
    return content


def told(error):
    return type(error), error.message, error.offset, error.expected, error.found


@settings(max_examples=200, deadline=None)
@given(RECORDS, DAMAGE, st.integers(0, 45), st.integers(1, 7))
def test_what_is_found_is_what_the_exact_reader_finds(records, damage, covered, piece):
    data = log_of(records)
    for kind, place, value in damage:
        data = damaged(data, kind, place, value)
    before = module._PIECE
    module._PIECE = piece
    try:
        assert_as_exact(data, covered)
    finally:
        module._PIECE = before


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_read_as_the_exact_reader_reads_them(data, with_header):
    assert_as_exact((encode_header(1) if with_header else b"") + data)


@given(st.lists(st.binary(min_size=60, max_size=60), max_size=8))
def test_any_frames_of_sound_sums_are_read_as_the_exact_reader_reads_them(frames):
    assert_as_exact(encode_header(1) + b"".join(resealed(frame + bytes(4)) for frame in frames))


@pytest.mark.parametrize("few", [0, 10**9])
def test_a_large_log_with_damage_is_read_as_by_the_exact_reader(monkeypatch, few):
    monkeypatch.setattr(sums, "_FEW", few)
    rng = random.Random(few)
    records = [
        Nack(1, 2, 3, 4, 5, 6)
        if rng.random() < 0.02
        else Ack(rng.randrange(1, 4), n // 900, n % 900, 1, n, rng.random() < 0.01)
        for n in range(20_000)
    ]
    data = log_of(records)
    for _ in range(30):
        kind = rng.choice(["flip", "blank", "drop", "copy", "unfinished"])
        data = damaged(data, kind, rng.randrange(10**6), rng.randrange(10**6))
    content = assert_as_exact(data, covered=5000)
    assert len(content.entries) < content.record_count


@given(st.lists(st.binary(min_size=64, max_size=64), max_size=12), st.booleans())
def test_sums_of_many_frames_are_those_of_each(frames, few):
    data = b"before" + b"".join(frames)
    before = sums._FEW
    sums._FEW = 100 if few else 0
    try:
        found = frame_sums(data, start=6, count=len(frames)) if frames else np.empty(0, np.uint32)
    finally:
        sums._FEW = before
    assert found.tolist() == [crc32c(frame[:60]) for frame in frames]


@pytest.mark.parametrize("place", range(60))
def test_the_sum_of_a_frame_knows_each_of_its_bytes(monkeypatch, place):
    monkeypatch.setattr(sums, "_FEW", 0)
    frame = bytes(range(64))
    others = [frame[:place] + bytes([value]) + frame[place + 1 :] for value in range(256)]
    found = frame_sums(b"".join([frame, *others]), start=0, count=257)
    assert found.tolist() == [crc32c(one[:60]) for one in [frame, *others]]


def entries_of(*records):
    return read_log(log_of(records)).entries


def test_acks_next_to_each_other_are_one():
    acks = [Ack(1, 7, index, 1, 10 + index) for index in (3, 4, 5)]
    assert entries_of(*acks) == [(3, Ack(1, 7, 3, 3, 15))]
    assert entries_of(*reversed(acks)) == [(3, Ack(1, 7, 3, 3, 15))]
    assert entries_of(acks[0], Ack(1, 7, 2, 3, 9), acks[2]) == [(3, Ack(1, 7, 2, 4, 15))]


def test_acks_of_others_in_between_keep_none_apart():
    acks = [Ack(number, 7, index, 1, 5) for index in range(50) for number in (2, 1)]
    assert entries_of(*acks) == [(99, Ack(2, 7, 0, 50, 5)), (100, Ack(1, 7, 0, 50, 5))]


@pytest.mark.parametrize(
    "second",
    [
        Ack(2, 7, 1, 1, 5),
        Ack(1, 8, 1, 1, 5),
        Ack(1, 7, 2, 1, 5),
        Ack(1, 7, 1, 1, 5, lease=1),
    ],
)
def test_acks_of_different_things_are_not_one(second):
    assert entries_of(Ack(1, 7, 0, 1, 5), second) == [(1, Ack(1, 7, 0, 1, 5)), (2, second)]


@pytest.mark.parametrize(
    "between",
    [
        Nack(1, 7, 1, 1, 0, 0),
        Dropped(1, 7, 9, 1, 0),
        DeadLetter(1, 7, 9, 1, 0),
        Register(2, LONG),
        Register(1, "a"),
        Unregister(1),
        Lease(1, 2, 3),
        Pause(1, 2, paused=True),
        Rename(1, "b", 3),
        Floor(1, 2),
    ],
    ids=repr,
)
def test_a_record_of_another_kind_stays_between_acks(between):
    first, second = Ack(1, 7, 0, 1, 5), Ack(1, 7, 1, 1, 5)
    found = [record for _, record in entries_of(first, between, second)]
    assert found == [first, between, second]


def test_what_a_checkpoint_covers_is_not_joined_to_what_it_does_not():
    data = log_of([Ack(1, 7, index, 1, 5) for index in range(10)])
    assert read_log(data, covered=4).entries == [(10, Ack(1, 7, 4, 6, 5))]
    assert read_log(data, covered=4).record_count == 6
    assert (read_log(data, covered=10).entries, read_log(data, covered=10).last_seq) == ([], 10)


def test_an_ack_in_two_frames_is_one_record():
    body = OUTCOME_LAYOUT.pack(7, 1, 1, 0, 0, 0)
    frames = [FRAME_LAYOUT.pack(1, part, 2, 0, 1, 0, 2 + part, 5, body, 0) for part in (0, 1)]
    data = log_of([Ack(1, 7, 0, 1, 5)]) + b"".join(map(resealed, frames))
    content = assert_as_exact(data)
    assert content.entries == [(1, Ack(1, 7, 0, 1, 5)), (3, Ack(1, 7, 1, 1, 5))]


def test_a_record_of_an_unknown_kind_in_two_frames_is_kept_and_skipped():
    frames = [FRAME_LAYOUT.pack(99, part, 2, 0, 1, 0, 1 + part, 5, b"", 0) for part in (0, 1)]
    data = encode_header(1) + b"".join(map(resealed, frames))
    content = assert_as_exact(data)
    assert (content.entries, content.kept) == ([], [(HEADER_SIZE, len(data))])


def test_a_run_of_all_bundles_there_can_be_is_one():
    acks = Ack(1, 7, 0, 2**32 - 1, 5), Ack(1, 7, 2**32 - 1, 1, 6)
    assert entries_of(*acks) == [(2, Ack(1, 7, 0, 2**32, 6))]


def test_numbers_as_high_as_they_can_be_are_read():
    top = 2**64 - 1
    acks = [Ack(0xFFFF, top, 2**32 - 1, 1, -(2**63), top)]
    assert_as_exact(log_of(acks, base=top))
    assert read_log(log_of(acks, base=top)).entries == [(top, acks[0])]
    assert read_log(log_of(acks, base=top), covered=top).entries == []


def test_no_runs_are_none():
    empty = np.empty(0, np.int64)
    runs = Runs(*(empty,) * 8)
    assert as_entries(united(joined([runs, runs]))) == []
