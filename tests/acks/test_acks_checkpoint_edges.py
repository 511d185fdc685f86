"""The borders of the checkpoint: each limit met exactly, each error with all that it knows."""

import dataclasses
import struct

import pytest
from crc32c import crc32c

import quiver.acks.checkpoint as module
from quiver.acks import Checkpoint, Floor, NackState, SegmentState, SubscriberState
from quiver.acks.checkpoint import CHECKPOINT_BYTES_MAX, decode_checkpoint, encode_checkpoint
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

U16, U32, U64, I64 = 2**16 - 1, 2**32 - 1, 2**64 - 1, 2**63 - 1
SEGMENTS = SegmentState(41, 10, ((0, 3), (5, 2))), SegmentState(42, 1, ())
NACKS = NackState(41, 4, 3, 99, 5), NackState(41, 9, 1, -1)
STATE = SubscriberState(1, "spark", 41, SEGMENTS, NACKS, 8, paused=True)
OTHER = SubscriberState(2, "b", 40, last_seen_ns=-5, dead_letter_count=6)
SOME = Checkpoint(7, Floor(42, 900), (STATE, OTHER))
EMPTY = encode_checkpoint(Checkpoint())
SEALED = encode_checkpoint(SOME)


def sealed(body):
    return body + struct.pack("<I", crc32c(body))


def patched(data, offset, layout, value):
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, value)
    return sealed(bytes(changed[:-4]))


def one(**values):
    return Checkpoint(1, Floor(), (SubscriberState(**{"subscriber_id": 1, "name": "a"} | values),))


def test_what_is_not_said_is_nothing():
    assert dataclasses.astuple(Checkpoint()) == (0, (0, 0, 0), ())
    assert NackState(1, 2, 3, 4).reason == 0
    assert dataclasses.astuple(SubscriberState(1, "a", 2)) == (1, "a", 2, (), (), 0, False, 0, 0)


@pytest.mark.parametrize(
    "value, field",
    [
        (SOME, "record_seq"),
        (STATE, "name"),
        (SEGMENTS[0], "runs"),
        (NACKS[0], "attempt"),
    ],
    ids=["checkpoint", "subscriber", "segment", "nack"],
)
def test_values_neither_change_nor_gain_fields(value, field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, 3)
    assert not hasattr(value, "__dict__")


def test_a_checkpoint_is_laid_out_as_on_the_page():
    body = struct.pack("<HHHHQQIIqQ", 1, 1, 5, 0, 41, 8, 2, 2, 0, 0) + b"spark"
    body += struct.pack("<QII", 41, 10, 2) + struct.pack("<IIII", 0, 3, 5, 2)
    body += struct.pack("<QII", 42, 1, 0)
    body += struct.pack("<QIIqHHI", 41, 4, 3, 99, 5, 0, 0)
    body += struct.pack("<QIIqHHI", 41, 9, 1, -1, 0, 0, 0)
    body += struct.pack("<HHHHQQIIqQ", 2, 0, 1, 0, 40, 0, 0, 0, -5, 6) + b"b"
    size = 64 + len(body) + 4
    head = struct.pack("<8sHHIQQQQ16x", b"QUIVER\0C", 2, 0, 2, 7, 42, 900, size)
    assert sealed(head + body) == SEALED
    assert decode_checkpoint(SEALED) == SOME


def test_every_field_holds_its_greatest_and_its_least_value():
    segments = SegmentState(0, U32, ((0, U32),)), SegmentState(U64, U32, ((U32 - 1, 1),))
    nacks = NackState(0, 0, 0, -(2**63), 0), NackState(U64, U32, U32, I64, U16)
    states = SubscriberState(U16, "n" * 128, U64, segments, nacks, U64, True, I64, U64)
    for checkpoint in (Checkpoint(U64, Floor(2**63, 2**63), (states,)), Checkpoint()):
        assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_fields_that_are_zero_today_may_have_a_meaning_later():
    for offset, layout, value in ((10, "<H", U16), (48, "<QQ", None), (66, "<H", U16)):
        values = (U64, U64) if value is None else (value,)
        changed = bytearray(SEALED)
        struct.pack_into(layout, changed, offset, *values)
        assert decode_checkpoint(sealed(bytes(changed[:-4]))) == SOME
    nack = 64 + 48 + 5 + 16 + 16 + 16
    assert decode_checkpoint(patched(SEALED, nack + 26, "<H", U16)) == SOME
    assert decode_checkpoint(patched(SEALED, nack + 28, "<I", U32)) == SOME


def test_a_checkpoint_may_be_as_large_as_the_limit_and_no_larger(monkeypatch):
    assert CHECKPOINT_BYTES_MAX == 1 << 28
    monkeypatch.setattr(module, "CHECKPOINT_BYTES_MAX", len(SEALED))
    assert encode_checkpoint(SOME) == SEALED
    monkeypatch.setattr(module, "CHECKPOINT_BYTES_MAX", len(SEALED) - 1)
    size = len(SEALED)
    with pytest.raises(InputError, match=f"have {size} bytes, more than {size - 1}") as caught:
        encode_checkpoint(SOME)
    assert "gaps" in caught.value.hint


@pytest.mark.parametrize(
    "data, error, words, expected, found",
    [
        (EMPTY[:67], TornEntry, "short", 68, 67),
        (b"PARQUET1" + EMPTY[8:], DamagedEntry, "magic", b"QUIVER\0C", b"PARQUET1"),
        (EMPTY[:64] + b"\xff" * 4, DamagedEntry, "sum", "ffffffff", f"{crc32c(EMPTY[:64]):08x}"),
        (patched(EMPTY, 40, "<Q", 67), DamagedEntry, "another size", 67, 68),
        (patched(EMPTY, 40, "<Q", U64), DamagedEntry, "another size", U64, 68),
        (patched(EMPTY, 12, "<I", 1), DamagedEntry, "fewer bytes", 48, 0),
        (patched(SEALED, 12, "<I", 1), DamagedEntry, "goes on", None, 49),
        (patched(SEALED, 68, "<H", U16), DamagedEntry, "fewer bytes", U16, len(SEALED) - 116),
        (patched(SEALED, 129, "<I", U32), DamagedEntry, "fewer", 8 * U32, len(SEALED) - 137),
        (patched(SEALED, 92, "<I", U32), DamagedEntry, "fewer", 32 * U32, len(SEALED) - 169),
    ],
)
def test_a_bad_checkpoint_says_what_is_wrong(data, error, words, expected, found):
    with pytest.raises(error, match=words) as caught:
        decode_checkpoint(data)
    assert type(caught.value) is error
    assert (caught.value.expected, caught.value.found) == (expected, found)


def test_bytes_that_are_missing_or_left_over_are_located():
    for count, offset in ((1, len(SEALED) - 53), (3, len(SEALED) - 4)):
        with pytest.raises(DamagedEntry) as caught:
            decode_checkpoint(patched(SEALED, 12, "<I", count))
        assert caught.value.offset == offset


def test_a_checksum_that_fails_is_a_tear_only_if_bytes_are_missing():
    for data, kind in ((SEALED[:-1], TornEntry), (SEALED + b"\0", DamagedEntry)):
        with pytest.raises(kind, match="checksum") as caught:
            decode_checkpoint(data)
        assert type(caught.value) is kind
    with pytest.raises(DamagedEntry, match="checksum") as caught:
        decode_checkpoint(SEALED[:-1] + bytes([SEALED[-1] ^ 1]))
    assert type(caught.value) is DamagedEntry


@pytest.mark.parametrize("version", [0, 3, U16])
def test_another_version_is_named(version):
    with pytest.raises(VersionError, match=f"format {version}, this program reads 1 to 2"):
        decode_checkpoint(patched(EMPTY, 8, "<H", version))


@pytest.mark.parametrize(
    "checkpoint, words",
    [
        (one(floor_segment_seq=0, name=""), "subscriber 1: a name has"),
        (one(floor_segment_seq=0, name="a b"), "subscriber 1: a name is"),
        (one(floor_segment_seq=0, segments=(SEGMENTS[1], SEGMENTS[0])), "segments do not ascend"),
        (one(floor_segment_seq=0, segments=(SEGMENTS[0],) * 2), "segments do not ascend"),
        (one(floor_segment_seq=0, nacks=(NACKS[1], NACKS[0])), "nacks do not ascend"),
        (one(floor_segment_seq=0, nacks=(NACKS[0],) * 2), "nacks do not ascend"),
        (Checkpoint(1, Floor(), (STATE, STATE)), "ids do not ascend"),
        (
            Checkpoint(1, Floor(), (STATE, dataclasses.replace(STATE, subscriber_id=2))),
            "share a name",
        ),
    ],
)
def test_a_state_that_makes_no_sense_is_not_written(checkpoint, words):
    with pytest.raises(InputError, match=words):
        encode_checkpoint(checkpoint)


@pytest.mark.parametrize(
    "runs, words",
    [
        (((-1, 1),), "segment 3 has no run -1 to 0"),
        (((0, 0),), "segment 3 has no run 0 to 0"),
        (((2, 3),), "segment 3 has no run 2 to 5"),
        (((0, 5),), "segment 3 has no run 0 to 5"),
        (((0, 1), (1, 1)), "segment 3 has no run 1 to 2"),
        (((2, 1), (0, 1)), "segment 3 has no run 0 to 1"),
    ],
)
def test_a_run_that_cannot_be_is_named(runs, words):
    with pytest.raises(InputError, match=words):
        encode_checkpoint(one(floor_segment_seq=0, segments=(SegmentState(3, 4, runs),)))


@pytest.mark.parametrize("runs", [(), ((0, 4),), ((3, 1),), ((0, 1), (2, 1)), ((1, 1), (3, 1))])
def test_runs_may_begin_and_end_with_the_segment_and_stand_one_apart(runs):
    checkpoint = one(floor_segment_seq=0, segments=(SegmentState(3, 4, runs),))
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_nacks_are_in_order_of_segment_and_then_of_bundle():
    nacks = NackState(1, 9, 1, 0), NackState(2, 0, 1, 0), NackState(2, 1, 1, 0)
    checkpoint = one(floor_segment_seq=0, nacks=nacks)
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def test_a_value_that_does_not_fit_is_told_with_its_cause():
    with pytest.raises(InputError, match="does not fit its format") as caught:
        encode_checkpoint(Checkpoint(2**64))
    assert isinstance(caught.value.__cause__, struct.error)


def test_a_sound_checksum_does_not_make_sense_of_a_state():
    with pytest.raises(DamagedEntry, match="makes no sense: subscriber 1: segment 41 has no run"):
        decode_checkpoint(patched(SEALED, 125, "<I", 6))


def first_version(flags=0):
    """SOME as version 1 wrote it, without what version 2 added."""
    body = struct.pack("<HHHHQQII", 1, flags, 5, 0, 41, 8, 2, 2) + b"spark"
    body += SEALED[64 + 48 + 5 : -4 - 49] + struct.pack("<HHHHQQII", 2, flags, 1, 0, 40, 0, 0, 0)
    size = 64 + len(body) + 5
    head = struct.pack("<8sHHIQQQQ16x", b"QUIVER\0C", 1, 0, 2, 7, 42, 900, size)
    return sealed(head + body + b"b")


def test_a_checkpoint_of_version_1_is_read_without_what_came_later():
    states = (
        dataclasses.replace(STATE, paused=False),
        dataclasses.replace(OTHER, last_seen_ns=0, dead_letter_count=0),
    )
    for flags in (0, 1, U16):
        assert decode_checkpoint(first_version(flags)) == dataclasses.replace(
            SOME, subscribers=states
        )


def test_every_prefix_and_every_flipped_bit_of_version_1_is_noticed():
    data = first_version()
    for length in range(len(data)):
        with pytest.raises(TornEntry):
            decode_checkpoint(data[:length])
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((DamagedEntry, TornEntry)):
            decode_checkpoint(bytes(flipped))


def test_only_the_lowest_flag_of_a_subscriber_has_a_meaning():
    for flags, paused in ((0, False), (1, True), (U16 - 1, False), (U16, True)):
        state = decode_checkpoint(patched(SEALED, 66, "<H", flags)).subscribers[0]
        assert state.paused is paused
