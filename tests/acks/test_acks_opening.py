"""An acks folder at a start: what is torn, damaged, missing or newer, and what becomes of it."""

import pytest
from crc32c import crc32c

from quiver.acks import Ack, Checkpoint, Floor, Register, SubscriberState
from quiver.acks.checkpoint import encode_checkpoint
from quiver.acks.copies import encode_copies, read_copies
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE, encode_record
from quiver.errors import DamagedEntry, StorageError, TornEntry, VersionError

ACKS, QUARANTINE = "core_0/acks", "core_0/quarantine"
LONG = Register(2, "a-name-of-more-than-22-characters")


def ack(index):
    return Ack(1, 0, 2 * index, 1, index)


def snapshot_at(seq):
    return Checkpoint(seq, Floor(4, 9), (SubscriberState(1, "spark", 3),))


def test_a_torn_tail_is_cut_before_the_next_append(disk):
    disk.filled().close()
    data = disk.read("ack.log")
    for tail in (bytes(1), bytes(500), encode_record(LONG, 4)[:-1], encode_record(LONG, 4)[:64]):
        disk.put("ack.log", data + tail)
        log, replay = disk.start()
        assert (replay.damage, replay.torn_bytes, len(replay.records)) == ([], len(tail), 3)
        assert disk.read("ack.log") == data
        log.append([ack(2)])
        log.close()
        assert disk.replayed().records[3:] == [ack(2)]
    assert disk.names(QUARANTINE) == []


def test_damage_in_the_middle_costs_its_record_and_is_told_once(disk):
    disk.filled().close()
    data = bytearray(disk.read("ack.log"))
    data[HEADER_SIZE + FRAME_SIZE + 30] ^= 4
    disk.put("ack.log", data)
    log, replay = disk.start()
    assert replay.records == [Register(1, "spark"), ack(1)]
    (error,) = replay.damage
    assert isinstance(error, DamagedEntry)
    assert error.path == disk.locate(f"{ACKS}/ack.log")
    assert error.offset == HEADER_SIZE + FRAME_SIZE
    log.append([ack(2)])
    assert log.record_seq == 4
    log.close()

    copy, reason = disk.names(QUARANTINE)
    assert reason == copy + ".reason"
    file = disk.open(f"{QUARANTINE}/{copy}")
    assert file.read(0, len(data)) == bytes(data)
    file.close()
    again = disk.replayed()
    assert (again.damage, again.records) == ([], [Register(1, "spark"), ack(1), ack(2)])
    assert disk.names(QUARANTINE) == [copy, reason]


def test_nothing_is_changed_before_the_copy_is_durable(disk):
    disk.filled().close()
    data = bytearray(disk.read("ack.log"))
    data[HEADER_SIZE + 30] ^= 4
    disk.put("ack.log", data)
    disk.plan.add("sync")
    with pytest.raises(StorageError):
        disk.start()
    disk.plan.clear()
    assert disk.read("ack.log") == bytes(data)
    assert len(disk.replayed().damage) == 1


@pytest.mark.parametrize("step", ["rename:checkpoint", "rename:ack.log"])
def test_a_crash_while_mending_is_mended_the_next_time(disk, step):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.append([ack(2), ack(3)])
    log.close()
    disk.put("checkpoint", b"\0" + disk.read("checkpoint")[1:])
    data = bytearray(disk.read("ack.log"))
    data[HEADER_SIZE + 30] ^= 4
    disk.put("ack.log", data)
    disk.plan.add(step)
    with pytest.raises(StorageError):
        disk.start()
    disk.plan.clear()
    log, replay = disk.start()
    assert replay.records == [ack(3)]
    assert log.record_seq == 5
    assert replay.damage
    log.close()
    assert disk.replayed().damage == []
    copies = [name for name in disk.names(QUARANTINE) if not name.endswith(".reason")]
    assert len(copies) == 2


def test_a_damaged_header_costs_nothing_but_itself(disk):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.append([ack(2)])
    log.close()
    disk.put("ack.log", bytes(HEADER_SIZE) + disk.read("ack.log")[HEADER_SIZE:])
    log, replay = disk.start()
    assert [error.offset for error in replay.damage] == [0]
    assert (replay.checkpoint, replay.records) == (snapshot_at(3), [ack(2)])
    assert log.record_seq == 4
    log.close()
    assert disk.replayed().damage == []


@pytest.mark.parametrize("length", [0, 1, 63])
def test_a_log_shorter_than_its_header_starts_with_what_the_checkpoint_says(disk, length):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.close()
    disk.put("ack.log", disk.read("ack.log")[:length])
    log, replay = disk.start()
    assert [type(error) for error in replay.damage] == [TornEntry]
    assert (replay.checkpoint, log.record_seq) == (snapshot_at(3), 3)
    log.close()
    assert disk.replayed().damage == []


def test_a_missing_log_beside_a_checkpoint_is_damage(disk):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.close()
    disk.unlink(f"{ACKS}/ack.log")
    log, replay = disk.start()
    assert [error.path for error in replay.damage] == [disk.locate(f"{ACKS}/ack.log")]
    assert log.record_seq == 3
    log.close()
    assert disk.replayed().damage == []


BROKEN = {
    "missing": None,
    "empty": b"",
    "short": encode_copies(snapshot_at(3))[:80],
    "zero bytes": bytes(200),
    "garbage": bytes(range(256)),
    "flipped twice": 2 * (encode_checkpoint(snapshot_at(3))[:-1] + b"\0"),
    "huge count": bytes(12) + b"\xff" * 4 + bytes(100),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_lost_checkpoint_is_told_once_and_numbers_go_on(disk, kind):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.append([ack(2)])
    log.close()
    disk.unlink(f"{ACKS}/checkpoint")
    if BROKEN[kind] is not None:
        disk.put("checkpoint", BROKEN[kind])
    log, replay = disk.start()
    assert (replay.checkpoint, replay.records, log.record_seq) == (None, [ack(2)], 4)
    assert {error.path for error in replay.damage} == {disk.locate(f"{ACKS}/checkpoint")}
    assert replay.damage[-1].expected == "all up to 3"
    log.close()
    again = disk.replayed()
    assert (again.checkpoint, again.damage) == (Checkpoint(3), [])
    assert len(disk.names(QUARANTINE)) == (0 if kind == "missing" else 2)


def test_a_damaged_checkpoint_that_the_log_does_not_need_loses_nothing(disk):
    disk.filled().close()
    disk.put("checkpoint", b"garbage")
    replay = disk.replayed()
    assert len(replay.records) == 3
    assert len(replay.damage) == 1
    assert disk.replayed().damage == []


def test_a_checkpoint_older_than_the_log_needs_is_used_and_told(disk):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    old = disk.read("checkpoint")
    log.append([ack(2), ack(3)])
    log.checkpoint(snapshot_at(5))
    log.append([ack(4)])
    log.close()
    disk.put("checkpoint", old)
    log, replay = disk.start()
    assert (replay.checkpoint, replay.records) == (snapshot_at(3), [ack(4)])
    assert [error.found for error in replay.damage] == ["up to 3"]
    log.close()
    assert disk.replayed().damage == []
    assert read_copies(disk.read("checkpoint")) == (snapshot_at(5), [])


@pytest.mark.parametrize("name", ["ack.log", "checkpoint"])
def test_a_newer_format_is_refused_and_nothing_is_changed(disk, name):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.close()
    newer = bytearray(disk.read(name))
    newer[8] = 3
    if name == "checkpoint":
        del newer[len(newer) // 2 :]
    newer[-4:] = crc32c(bytes(newer[:-4])).to_bytes(4, "little")
    disk.put(name, newer * 2 if name == "checkpoint" else newer)
    before = disk.read("ack.log"), disk.read("checkpoint")
    with pytest.raises(VersionError):
        disk.start()
    assert (disk.read("ack.log"), disk.read("checkpoint")) == before


def test_a_file_too_large_to_be_ours_is_refused_unread(disk):
    disk.filled().close()
    file = disk.open(f"{ACKS}/ack.log", writable=True)
    file.truncate((1 << 28) + 1)
    file.close()
    with pytest.raises(DamagedEntry, match="larger than any"):
        disk.start()


def test_what_is_not_a_file_of_the_log_is_left_alone(disk):
    disk.filled().close()
    disk.make_dir(f"{ACKS}/inbox")
    disk.make_dir(f"{ACKS}/folder.tmp")
    disk.put("note", b"x")
    disk.replayed()
    assert disk.names(ACKS) == ["ack.log", "folder.tmp", "inbox", "note"]
