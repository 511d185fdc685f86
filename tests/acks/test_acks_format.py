"""The bytes of ack.log and its checkpoint, one damaged field at a time."""

import dataclasses
import re
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import quiver.acks.checkpoint as checkpoint_format
import quiver.acks.format as log_format
import quiver.acks.states as states_format
from quiver.acks import (
    DROPPED_AGE,
    Ack,
    Checkpoint,
    DeadLetter,
    Dropped,
    Floor,
    Lease,
    Nack,
    NackState,
    Pause,
    Register,
    Rename,
    SegmentState,
    SubscriberState,
    Unregister,
)
from quiver.acks.checkpoint import decode_checkpoint, encode_checkpoint
from quiver.acks.format import (
    FRAME_SIZE,
    HEADER_SIZE,
    decode_frame,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
)
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFF_FFFF)
U64 = st.integers(0, 0xFFFF_FFFF_FFFF_FFFF)
NEXT = st.integers(0, 1 << 63)
I64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9]([._-]?[A-Za-z0-9]){0,63}", fullmatch=True)
RUNS = st.tuples(U32, st.integers(1, 1 << 31)).filter(lambda run: sum(run) <= 1 << 32)
RECORDS = st.one_of(
    st.builds(lambda i, s, r, t, g: Ack(i, s, *r, t, g), U16, U64, RUNS, I64, U64),
    st.builds(lambda i, s, r, t, w: Dropped(i, s, *r, t, w), U16, U64, RUNS, I64, U16),
    st.builds(Nack, U16, U64, U32, U32, I64, I64, U16, U64),
    st.builds(Register, U16, NAMES, I64, U64, U32),
    st.builds(Unregister, U16, I64),
    st.builds(
        lambda i, s, r, t, *o: DeadLetter(i, s, *r, t, *o), U16, U64, RUNS, I64, U32, U16, U64
    ),
    st.builds(Pause, U16, I64, st.booleans()),
    st.builds(Lease, U16, U64, I64),
    st.builds(Rename, U16, NAMES, I64),
    st.builds(Floor, NEXT, NEXT, I64),
)

ACK = Ack(1, 42, 2, 5, 7)
CHECKPOINT = Checkpoint(
    7,
    Floor(42, 900),
    (
        SubscriberState(1, "spark", 41, (SegmentState(41, 10, ((0, 3), (5, 2))),)),
        SubscriberState(2, "parquet", 40, (), (NackState(41, 4, 3, 99, 5),)),
    ),
)


def reseal(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def patched(data: bytes, offset: int, layout: str, value: object) -> bytes:
    packed = struct.pack("<" + layout, value)
    return reseal(data[:offset] + packed + data[offset + len(packed) :])


def frames_of(data: bytes):
    return [decode_frame(data[i : i + FRAME_SIZE]) for i in range(0, len(data), FRAME_SIZE)]


def test_every_size_is_the_one_in_the_format():
    assert (HEADER_SIZE, FRAME_SIZE, log_format.BODY_SIZE) == (64, 64, 36)
    bodies = log_format.OUTCOME_LAYOUT, log_format.REGISTER_LAYOUT, log_format.FLOOR_LAYOUT
    assert [layout.size for layout in bodies] == [36, 36, 36]
    assert checkpoint_format.CHECKPOINT_LAYOUT.size == 64
    assert checkpoint_format.SUBSCRIBER_LAYOUT.size == 48
    assert checkpoint_format.SUBSCRIBER_LAYOUT_1.size == 32
    assert states_format.SEGMENT_LAYOUT.size == 16
    assert states_format.RUN_LAYOUT.size == 8
    assert states_format.NACK_LAYOUT.size == 32


@pytest.mark.parametrize(
    "title, layout",
    [
        ("Header of ack.log", log_format.HEADER_LAYOUT),
        ("Frame", log_format.FRAME_LAYOUT),
        ("Outcome body", log_format.OUTCOME_LAYOUT),
        ("Register body", log_format.REGISTER_LAYOUT),
        ("Floor body", log_format.FLOOR_LAYOUT),
        ("Checkpoint", checkpoint_format.CHECKPOINT_LAYOUT),
        ("Subscriber in a checkpoint", checkpoint_format.SUBSCRIBER_LAYOUT),
        ("Segment in a checkpoint", states_format.SEGMENT_LAYOUT),
        ("Run in a checkpoint", states_format.RUN_LAYOUT),
        ("Nack in a checkpoint", states_format.NACK_LAYOUT),
    ],
)
def test_the_tables_of_the_format_page_are_the_structs(title, layout):
    page = (Path(log_format.__file__).parent / "FORMAT.md").read_text()
    section = page.split(f"### {title}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", section, re.MULTILINE)
    codes = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}
    wanted, at = "<", 0
    for offset, size, kind in rows:
        assert int(offset) == at
        code = codes.get(kind) or f"{size}{'s' if kind == 'bytes' else 'x'}"
        assert struct.calcsize("<" + code) == int(size)
        wanted, at = wanted + code, at + int(size)
    assert wanted == layout.format


@given(RECORDS, st.integers(1, 2**63))
def test_a_record_comes_back_as_it_was(record, seq):
    frames = frames_of(encode_record(record, seq))
    assert decode_record(frames) == record
    assert [frame.record_seq for frame in frames] == list(range(seq, seq + len(frames)))


@pytest.mark.parametrize("length, frames", [(1, 1), (22, 1), (23, 2), (58, 2), (59, 3), (128, 4)])
def test_a_long_name_takes_more_frames(length, frames):
    for record in (Register(1, "n" * length), Rename(1, "n" * length, 7)):
        data = encode_record(record, 5)
        assert len(data) == frames * FRAME_SIZE
        assert decode_record(frames_of(data)) == record


def test_a_record_of_an_unknown_kind_is_skipped():
    data = patched(encode_record(ACK, 5), 0, "B", 200)
    assert decode_record(frames_of(data)) is None


def test_fields_that_are_zero_today_may_have_a_meaning_later():
    data = patched(encode_record(Unregister(3, 9), 5), 24, "36s", b"x" * 36)
    assert decode_record(frames_of(patched(data, 3, "B", 255))) == Unregister(3, 9)


@pytest.mark.parametrize(
    "record",
    [
        ACK._replace(bundle_count=0),
        ACK._replace(bundle_first=1 << 32),
        ACK._replace(bundle_first=0xFFFF_FFFF, bundle_count=2),
        ACK._replace(segment_seq=-1),
        ACK._replace(subscriber_id=1 << 16),
        Dropped(1, 2, 3, 0, 4, DROPPED_AGE),
        Nack(1, 2, 3, -1, 4, 5),
        DeadLetter(1, 2, 3, 0, 4),
        DeadLetter(1, 2, 3, 1, 4, attempt=1 << 32),
        Lease(1, 1 << 64, 0),
        Lease(1, -1, 0),
        Pause(1 << 16, 0, paused=True),
        Rename(1, "a/b", 0),
        Register(1, ""),
        Register(1, "n" * 129),
        Register(1, "sp\u00e4rk"),
        Register(1, "a..b"),
        Register(1, ".a"),
        Register(1, "a/b"),
        Register(1, "a\n"),
        Floor(1 << 64, 0),
        Floor(0, 2**63 + 1),
    ],
)
def test_a_record_that_could_not_be_read_back_is_not_written(record):
    with pytest.raises(InputError):
        encode_record(record, 1)


FRAME = encode_record(ACK, 5)


@pytest.mark.parametrize(
    "data, error, expected",
    [
        pytest.param(b"", TornEntry, 64, id="empty"),
        pytest.param(FRAME[:63], TornEntry, 64, id="short"),
        pytest.param(bytes(64), TornEntry, None, id="blank"),
        pytest.param(FRAME[:40] + bytes(24), TornEntry, None, id="never filled in"),
        pytest.param(b"\xff" + FRAME[1:], DamagedEntry, f"{crc32c(FRAME[:60]):08x}", id="checksum"),
        pytest.param(patched(FRAME, 0, "B", 0), DamagedEntry, "1 to 255", id="kind"),
        pytest.param(patched(FRAME, 1, "B", 1), DamagedEntry, "below 1", id="part"),
        pytest.param(patched(FRAME, 2, "B", 0), DamagedEntry, "below 0", id="part_count"),
    ],
)
def test_a_bad_frame_is_named(data, error, expected):
    with pytest.raises(error) as caught:
        decode_frame(data)
    assert type(caught.value) is error
    assert caught.value.expected == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(patched(FRAME, 36, "I", 0), id="no bundles"),
        pytest.param(patched(FRAME, 32, "I", 0xFFFF_FFFF), id="bundles beyond the last"),
        pytest.param(patched(encode_record(Register(1, "ab"), 5), 36, "H", 0), id="no name"),
        pytest.param(patched(encode_record(Register(1, "ab"), 5), 36, "H", 23), id="name too long"),
        pytest.param(patched(encode_record(Register(1, "ab"), 5), 38, "B", 0), id="NUL in a name"),
        pytest.param(patched(encode_record(Register(1, "ab"), 5), 38, "B", 0xE4), id="not ASCII"),
    ],
)
def test_a_record_that_makes_no_sense_is_damage_whatever_its_checksum(data):
    with pytest.raises(DamagedEntry):
        decode_record(frames_of(data))


HEADER = encode_header(8)


@pytest.mark.parametrize(
    "data, error",
    [
        pytest.param(HEADER[:63], TornEntry, id="short"),
        pytest.param(bytes(64), DamagedEntry, id="blank"),
        pytest.param(b"QUIVER\0X" + HEADER[8:], DamagedEntry, id="magic"),
        pytest.param(HEADER[:16] + b"\1" + HEADER[17:], DamagedEntry, id="base_seq"),
        pytest.param(HEADER[:8] + b"\2" + HEADER[9:], DamagedEntry, id="version, not resealed"),
        pytest.param(patched(HEADER, 8, "H", 2), VersionError, id="version"),
        pytest.param(patched(HEADER, 8, "H", 0), VersionError, id="version 0"),
    ],
)
def test_a_bad_header_is_named(data, error):
    assert decode_header(HEADER) == 8
    with pytest.raises(error):
        decode_header(data)


@st.composite
def checkpoints(draw):
    states = []
    ids = draw(st.lists(st.integers(1, 0xFFFF), unique=True, max_size=4))
    names = draw(st.lists(NAMES, unique=True, min_size=len(ids), max_size=len(ids)))
    for number, name in zip(sorted(ids), names, strict=True):
        segments = []
        for seq in sorted(draw(st.sets(U64, max_size=3))):
            cuts = sorted(draw(st.sets(st.integers(0, 0xFFFF), max_size=12)))
            pairs = zip(cuts[::2], cuts[1::2], strict=False)
            segments.append(SegmentState(seq, 0xFFFF, tuple((a, b - a) for a, b in pairs)))
        places = sorted(draw(st.sets(st.tuples(U64, U32), max_size=3)))
        nacks = tuple(NackState(*place, draw(U32), draw(I64), draw(U16)) for place in places)
        state = SubscriberState(number, name, draw(U64), tuple(segments), nacks, draw(U64))
        seen = draw(st.booleans()), draw(I64), draw(U64)
        state = dataclasses.replace(
            state, paused=seen[0], last_seen_ns=seen[1], dead_letter_count=seen[2]
        )
        states.append(state)
    return Checkpoint(draw(U64), Floor(draw(NEXT), draw(NEXT)), tuple(states))


@given(checkpoints())
def test_a_checkpoint_comes_back_as_it_was(checkpoint):
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


SEALED = encode_checkpoint(CHECKPOINT)
# Where things are: subscriber 1 at 64, its name at 112, its segment at 117, its runs at 133.


@pytest.mark.parametrize(
    "data, error",
    [
        pytest.param(b"", TornEntry, id="empty"),
        pytest.param(SEALED[:67], TornEntry, id="shorter than a header"),
        pytest.param(SEALED[:-1], TornEntry, id="one byte short"),
        pytest.param(SEALED + b"\0", DamagedEntry, id="one byte long"),
        pytest.param(patched(SEALED, 0, "B", 0), DamagedEntry, id="magic"),
        pytest.param(patched(SEALED, 8, "H", 3), VersionError, id="version"),
        pytest.param(patched(SEALED, 40, "Q", 1 << 60), DamagedEntry, id="file_bytes"),
        pytest.param(patched(SEALED, 12, "I", 0xFFFF_FFFF), DamagedEntry, id="subscriber_count"),
        pytest.param(patched(SEALED, 12, "I", 1), DamagedEntry, id="subscriber_count too low"),
        pytest.param(patched(SEALED, 68, "H", 0xFFFF), DamagedEntry, id="name_bytes"),
        pytest.param(patched(SEALED, 88, "I", 0xFFFF_FFFF), DamagedEntry, id="segment_count"),
        pytest.param(patched(SEALED, 92, "I", 0xFFFF_FFFF), DamagedEntry, id="nack_count"),
        pytest.param(patched(SEALED, 129, "I", 0xFFFF_FFFF), DamagedEntry, id="run_count"),
        pytest.param(patched(SEALED, 64, "H", 2), DamagedEntry, id="subscriber_id twice"),
        pytest.param(patched(SEALED, 112, "5s", b"sp/rk"), DamagedEntry, id="name"),
        pytest.param(patched(SEALED, 125, "I", 6), DamagedEntry, id="run beyond the segment"),
        pytest.param(patched(SEALED, 137, "I", 0), DamagedEntry, id="empty run"),
        pytest.param(patched(SEALED, 141, "I", 3), DamagedEntry, id="runs that touch"),
        pytest.param(SEALED[:-4] + bytes(4), DamagedEntry, id="checksum"),
    ],
)
def test_a_bad_checkpoint_is_named(data, error):
    with pytest.raises(error) as caught:
        decode_checkpoint(data)
    assert type(caught.value) is error


def test_every_prefix_of_a_checkpoint_is_torn():
    for length in range(len(SEALED)):
        with pytest.raises(TornEntry):
            decode_checkpoint(SEALED[:length])


def test_every_single_bit_flip_of_a_checkpoint_is_noticed():
    for bit in range(len(SEALED) * 8):
        flipped = bytearray(SEALED)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((DamagedEntry, TornEntry)):
            decode_checkpoint(bytes(flipped))


@pytest.mark.parametrize(
    "state",
    [
        SubscriberState(1, "a", 0, (SegmentState(1, 4, ((2, 3),)),)),
        SubscriberState(1, "a", 0, (SegmentState(1, 4, ((2, 1), (0, 1))),)),
        SubscriberState(1, "a", 0, (SegmentState(2, 4, ()), SegmentState(1, 4, ()))),
        SubscriberState(1, "a", 0, (), (NackState(1, 1, 1, 0), NackState(1, 0, 1, 0))),
        SubscriberState(1 << 16, "a", 0),
        SubscriberState(1, "a b", 0),
        SubscriberState(1, "a", 0, last_seen_ns=1 << 63),
        SubscriberState(1, "a", 0, dead_letter_count=-1),
    ],
)
def test_a_checkpoint_that_could_not_be_read_back_is_not_written(state):
    with pytest.raises(InputError):
        encode_checkpoint(Checkpoint(1, Floor(), (state,)))


def test_two_subscribers_of_one_name_are_not_written():
    states = SubscriberState(1, "a", 0), SubscriberState(2, "a", 0)
    with pytest.raises(InputError, match="share a name"):
        encode_checkpoint(Checkpoint(1, Floor(), states))


def test_more_than_65536_bundles_keep_their_progress():
    every_other = tuple((first, 1) for first in range(0, 140_000, 2))
    segment = SegmentState(3, 140_000, every_other)
    checkpoint = Checkpoint(1, Floor(), (SubscriberState(1, "a", 3, (segment,)),))
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint
