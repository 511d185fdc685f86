"""A checkpoint is in its file twice: damage to one copy is told and costs nothing."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from quiver.acks import Ack, Checkpoint, Floor, SegmentState, SubscriberState
from quiver.acks.checkpoint import CHECKPOINT_LAYOUT, encode_checkpoint
from quiver.acks.copies import encode_copies, read_copies
from quiver.errors import TornEntry, VersionError

STATE = Checkpoint(
    7, Floor(3, 40), (SubscriberState(1, "spark", 2, (SegmentState(2, 9, ((0, 3), (5, 1))),)),)
)
ONE = encode_checkpoint(STATE)
BOTH = encode_copies(STATE)
HALF = len(ONE)

ACKS, QUARANTINE = "core_0/acks", "core_0/quarantine"


def ack(index: int) -> Ack:
    return Ack(1, 0, 2 * index, 1, index)


def snapshot_at(seq: int) -> Checkpoint:
    return Checkpoint(seq, Floor(4, 9), (SubscriberState(1, "spark", 3),))


def test_a_file_is_the_checkpoint_twice() -> None:
    assert BOTH == ONE + ONE
    assert read_copies(BOTH) == (STATE, [])


@pytest.mark.parametrize("place", range(len(BOTH)))
def test_a_wrong_byte_anywhere_is_told_and_costs_nothing(place: int) -> None:
    data = bytearray(BOTH)
    data[place] ^= 0xFF
    state, damage = read_copies(bytes(data))
    assert state == STATE
    (error,) = damage
    assert error.offset == place if place >= HALF else error.offset < HALF


@pytest.mark.parametrize("length", range(len(BOTH)))
def test_a_file_that_is_cut_is_as_good_as_its_first_copy(length: int) -> None:
    state, damage = read_copies(BOTH[:length])
    assert state == (STATE if length >= HALF else None)
    assert len(damage) == 1


def test_a_first_copy_that_says_it_is_shorter_is_not_taken() -> None:
    state, damage = read_copies(BOTH[: CHECKPOINT_LAYOUT.size - 1])
    assert state is None
    assert isinstance(damage[0], TornEntry)


def test_a_longer_second_copy_is_a_difference() -> None:
    state, (error,) = read_copies(BOTH + b"x")
    assert state == STATE
    assert error.offset == 2 * HALF


def test_two_sound_copies_of_different_states_give_the_first() -> None:
    other = encode_checkpoint(Checkpoint(8, STATE.floor, STATE.subscribers))
    state, (error,) = read_copies(ONE + other)
    assert state == STATE
    assert error.offset == HALF + 16


def test_a_newer_format_is_no_damage() -> None:
    head = bytearray(encode_checkpoint(Checkpoint()))
    head[8] = 3
    newer = bytes(head[:-4]) + crc32c(bytes(head[:-4])).to_bytes(4, "little")
    with pytest.raises(VersionError):
        read_copies(2 * newer)


@pytest.mark.parametrize("copy", [0, 1])
def test_an_opening_mends_the_damaged_copy_and_tells_it_once(disk, copy: int) -> None:
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.append([ack(2)])
    log.close()
    sound = disk.read("checkpoint")
    damaged = bytearray(sound)
    damaged[copy * len(sound) // 2 + 20] ^= 1
    disk.put("checkpoint", bytes(damaged))
    replay = disk.replayed()
    assert (replay.checkpoint, replay.records) == (snapshot_at(3), [ack(2)])
    assert [error.path for error in replay.damage] == [disk.locate(f"{ACKS}/checkpoint")]
    assert disk.read("checkpoint") == sound
    assert len(disk.names(QUARANTINE)) == 2
    again = disk.replayed()
    assert (again.checkpoint, again.records, again.damage) == (snapshot_at(3), [ack(2)], [])


def test_a_damaged_copy_of_a_checkpoint_that_the_log_has_not_followed_yet_is_mended(disk) -> None:
    log = disk.filled()
    before = disk.read("ack.log")
    log.checkpoint(snapshot_at(3))
    log.close()
    disk.put("ack.log", before)
    damaged = bytearray(disk.read("checkpoint"))
    damaged[20] ^= 1
    disk.put("checkpoint", bytes(damaged))
    for found in (1, 0):
        replay = disk.replayed()
        assert (replay.checkpoint, replay.records) == (snapshot_at(3), [])
        assert len(replay.damage) == found
