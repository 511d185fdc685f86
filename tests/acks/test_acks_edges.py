"""Rare turns of ack.log: nothing new, bytes that change under it, a name that is not found."""

import struct

import pytest
from crc32c import crc32c

from quiver.acks import Ack, Checkpoint, Floor, Register, SubscriberState
from quiver.acks.copies import encode_copies
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE, encode_header, encode_record
from quiver.acks.replay import read_log
from quiver.errors import DamagedEntry, PoisonedError, StorageError

ACKS = "core_0/acks"


def ack(index):
    return Ack(1, 0, 2 * index, 1, index)


def snapshot_at(seq, floor=3):
    return Checkpoint(seq, Floor(4, 9), (SubscriberState(1, "spark", floor),))


def test_a_second_checkpoint_of_the_same_records_leaves_the_log_alone(disk):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    disk.plan.add("create:ack.log.tmp")
    log.checkpoint(snapshot_at(3, floor=4))
    disk.plan.clear()
    assert disk.read("ack.log") == encode_header(4)
    log.append([ack(2)])
    log.close()
    replay = disk.replayed()
    assert (replay.checkpoint, replay.records) == (snapshot_at(3, floor=4), [ack(2)])


def test_records_that_changed_on_the_disk_are_not_copied_to_the_next_log(disk):
    log = disk.filled()
    log.append([ack(2), ack(3)])
    start = HEADER_SIZE + 3 * FRAME_SIZE
    file = disk.open(f"{ACKS}/ack.log", writable=True)
    file.write(start + 30, b"\xff")
    file.close()
    with pytest.raises(DamagedEntry, match="checksum") as caught:
        log.checkpoint(snapshot_at(3))
    assert (caught.value.path, caught.value.offset) == (disk.locate(f"{ACKS}/ack.log"), start)
    assert log.checkpoint_bytes == 0
    log.close()
    replay = disk.replayed()
    assert replay.records == [Register(1, "spark"), ack(0), ack(1), ack(3)]
    assert [error.offset for error in replay.damage] == [start]


def test_a_log_whose_name_cannot_be_looked_up_is_poisoned(disk):
    log = disk.filled()
    opened, rename = disk.open, disk.rename

    def refuse(path, *, writable=False):
        raise StorageError(f"cannot open {path}")

    def lose_the_folder_after(source, target):
        rename(source, target)
        if target.endswith("ack.log"):
            disk.open = refuse

    disk.rename = lose_the_folder_after
    with pytest.raises(StorageError, match="cannot open"):
        log.checkpoint(snapshot_at(3))
    disk.open = opened
    with pytest.raises(PoisonedError):
        log.append([ack(2)])
    log.close()
    assert disk.replayed().checkpoint == snapshot_at(3)


def test_a_sound_frame_that_makes_no_sense_is_damage_and_costs_only_itself():
    frame = bytearray(encode_record(ack(1), 2))
    struct.pack_into("<I", frame, 36, 0)  # No bundles.
    frame[60:] = struct.pack("<I", crc32c(bytes(frame[:60])))
    parts = [encode_header(1), encode_record(ack(0), 1), bytes(frame), encode_record(ack(2), 3)]
    content = read_log(b"".join(parts))
    assert content.entries == [(1, ack(0)), (3, ack(2))]
    start = HEADER_SIZE + FRAME_SIZE
    assert [(type(e), e.offset) for e in content.faults] == [(DamagedEntry, start)]
    after = start + FRAME_SIZE
    assert content.kept == [(HEADER_SIZE, start), (after, after + FRAME_SIZE)]
    assert (content.last_seq, content.end) == (3, after + FRAME_SIZE)


def test_the_number_of_a_frame_that_makes_no_sense_is_used_up():
    frame = bytearray(encode_record(ack(0), 7))
    struct.pack_into("<I", frame, 36, 0)
    frame[60:] = struct.pack("<I", crc32c(bytes(frame[:60])))
    content = read_log(encode_header(1) + bytes(frame) + encode_record(ack(1), 7))
    assert (content.entries, content.last_seq) == ([], 7)
    assert [error.offset for error in content.faults] == [HEADER_SIZE]


def test_the_bytes_of_the_checkpoint_are_those_that_were_encoded(disk):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.close()
    assert disk.read("checkpoint") == encode_copies(snapshot_at(3))
