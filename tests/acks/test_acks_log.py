"""The ack.log on a disk: appends that fail, checkpoints that are cut off at each step."""

import pytest

from quiver.acks import Ack, Checkpoint, Floor, Register, SubscriberState
from quiver.acks.copies import encode_copies
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE, encode_header, encode_record
from quiver.acks.replay import read_log
from quiver.errors import CapacityError, ClosedError, InputError, PoisonedError, StorageError

ACKS = "core_0/acks"
LONG = Register(2, "a-name-of-more-than-22-characters")


def ack(index):
    return Ack(1, 0, 2 * index, 1, index)


def snapshot_at(seq):
    return Checkpoint(seq, Floor(4, 9), (SubscriberState(1, "spark", 3),))


def test_a_new_folder_gives_an_empty_log(disk):
    log, replay = disk.start()
    assert (replay.checkpoint, replay.records, replay.damage) == (None, [], [])
    assert (log.record_seq, log.file_bytes, log.checkpoint_bytes) == (0, HEADER_SIZE, 0)
    log.close()


def test_appended_records_come_back_in_order(disk):
    records = [Register(1, "spark"), LONG, ack(0), ack(1)]
    log = disk.filled(records)
    assert (log.record_seq, log.file_bytes) == (5, HEADER_SIZE + 5 * FRAME_SIZE)
    log.close()
    assert disk.replayed().records == records


def test_an_append_of_nothing_writes_nothing(disk):
    log = disk.filled()
    log.append([])
    assert log.record_seq == 3
    log.close()


def test_numbers_go_on_after_a_restart_and_after_a_checkpoint(disk):
    disk.filled().close()
    log, _ = disk.start()
    log.append([ack(2)])
    log.checkpoint(snapshot_at(4))
    log.close()
    log, replay = disk.start()
    assert (log.record_seq, replay.records) == (4, [])
    log.append([ack(3)])
    assert log.record_seq == 5
    log.close()
    assert disk.replayed().records == [ack(3)]


def test_an_append_that_fails_leaves_nothing_and_the_next_one_works(disk):
    log = disk.filled()
    disk.plan.add("write")
    with pytest.raises(CapacityError):
        log.append([ack(i) for i in range(2, 12)])
    assert len(disk.read("ack.log")) == log.file_bytes
    disk.plan.clear()
    log.append([ack(2)])
    log.close()
    assert disk.replayed().records[2:] == [ack(1), ack(2)]


def test_a_record_that_does_not_fit_keeps_the_whole_append_out(disk):
    log = disk.filled()
    with pytest.raises(InputError):
        log.append([ack(2), Ack(1, 0, 0, 0, 0)])
    log.close()
    assert len(disk.replayed().records) == 3


@pytest.mark.parametrize("also", ["truncate", "sync"])
def test_an_append_that_cannot_be_taken_back_poisons_the_log(disk, also):
    log = disk.filled()
    disk.plan |= {"write", also}
    with pytest.raises(CapacityError):
        log.append([ack(2), ack(3)])
    disk.plan.clear()
    for call in (log.sync, lambda: log.append([ack(2)]), lambda: log.checkpoint(snapshot_at(3))):
        with pytest.raises(PoisonedError):
            call()
    log.close()
    replay = disk.replayed()
    assert replay.damage == []
    assert replay.records[:3] == [Register(1, "spark"), ack(0), ack(1)]


def test_a_failed_sync_poisons_the_log(disk):
    log = disk.filled()
    log.append([ack(2)])
    disk.plan.add("sync")
    with pytest.raises(StorageError):
        log.sync()
    disk.plan.clear()
    with pytest.raises(PoisonedError) as caught:
        log.sync()
    assert "cannot sync" in str(caught.value.__cause__)
    log.close()


def test_a_sync_with_nothing_new_asks_the_disk_for_nothing(disk):
    log = disk.filled()
    disk.plan.add("sync")
    log.sync()
    log.close()


def test_a_closed_log_refuses(disk):
    log = disk.filled()
    log.close()
    log.close()
    with pytest.raises(ClosedError):
        log.append([ack(2)])


def test_a_checkpoint_starts_the_log_afresh(disk):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    assert log.file_bytes == HEADER_SIZE
    assert log.checkpoint_bytes == len(encode_copies(snapshot_at(3)))
    log.append([ack(2)])
    log.close()
    replay = disk.replayed()
    assert (replay.checkpoint, replay.records) == (snapshot_at(3), [ack(2)])


def test_records_after_the_snapshot_stay_in_the_log(disk):
    log = disk.filled()
    log.append([LONG, ack(2)])
    log.checkpoint(snapshot_at(3))
    assert log.record_seq == 6
    log.append([ack(3)])
    log.checkpoint(snapshot_at(6))
    log.close()
    replay = disk.replayed()
    assert (replay.checkpoint, replay.records) == (snapshot_at(6), [ack(3)])


@pytest.mark.parametrize("seq", [1, 2, 6])
def test_a_snapshot_of_another_time_is_refused(disk, seq):
    disk.filled().close()
    log, _ = disk.start()
    log.append([LONG])
    with pytest.raises(InputError):
        log.checkpoint(snapshot_at(seq))
    log.close()


def test_a_snapshot_from_within_a_record_is_refused(disk):
    log = disk.filled()
    log.append([LONG])
    with pytest.raises(InputError, match="inside a record"):
        log.checkpoint(snapshot_at(4))
    log.close()


STATES = {
    "old checkpoint, old log": (1, 1),
    "new checkpoint, old log": (2, 1),
    "new checkpoint, new log": (2, 2),
}


@pytest.mark.parametrize("litter", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_a_crash_at_any_step_of_a_checkpoint_is_harmless(disk, state, litter):
    log = disk.filled()
    log.checkpoint(snapshot_at(3))
    log.append([ack(2), ack(3)])
    before = {name: disk.read(name) for name in ("checkpoint", "ack.log")}
    log.checkpoint(snapshot_at(5))
    log.close()
    after = {name: disk.read(name) for name in ("checkpoint", "ack.log")}
    wanted, log_state = STATES[state]
    disk.put("checkpoint", (before if wanted == 1 else after)["checkpoint"])
    disk.put("ack.log", (before if log_state == 1 else after)["ack.log"])
    if litter:
        disk.put("checkpoint.tmp", after["checkpoint"][:50])
        disk.put("ack.log.tmp", b"")
    for _ in range(2):
        log, replay = disk.start()
        assert replay.damage == []
        assert replay.checkpoint == snapshot_at(3 if wanted == 1 else 5)
        assert replay.records == ([ack(2), ack(3)] if wanted == 1 else [])
        assert log.record_seq == 5
        log.close()
    assert disk.names(ACKS) == ["ack.log", "checkpoint"]


@pytest.mark.parametrize(
    "fails",
    [
        "create:checkpoint.tmp",
        "rename:checkpoint",
        "create:ack.log.tmp",
        "rename:ack.log",
        "sync",
        "sync_dir",
    ],
)
def test_a_checkpoint_that_fails_leaves_the_log_usable(disk, fails):
    log = disk.filled()
    disk.plan.add(fails)
    with pytest.raises(StorageError):
        log.checkpoint(snapshot_at(3))
    disk.plan.clear()
    log.append([ack(2)])
    log.sync()
    log.close()
    replay = disk.replayed()
    records = [Register(1, "spark"), ack(0), ack(1), ack(2)]
    assert replay.damage == []
    assert replay.records == (records if replay.checkpoint is None else [ack(2)])


def test_a_log_that_may_have_lost_its_name_is_poisoned(disk):
    log = disk.filled()
    rename = disk.rename

    def spoil_the_folder_after(source, target):
        rename(source, target)
        if target.endswith("ack.log"):
            disk.plan.add("sync_dir")

    disk.rename = spoil_the_folder_after
    with pytest.raises(StorageError):
        log.checkpoint(snapshot_at(3))
    disk.plan.clear()
    with pytest.raises(PoisonedError):
        log.append([ack(2)])
    log.close()
    assert disk.replayed().checkpoint == snapshot_at(3)


def test_a_log_at_its_limit_asks_for_a_checkpoint(disk, monkeypatch):
    log = disk.filled()
    monkeypatch.setattr("quiver.acks.log.LOG_BYTES_MAX", log.file_bytes + FRAME_SIZE)
    log.append([ack(2)])
    with pytest.raises(CapacityError, match="checkpoint"):
        log.append([ack(3)])
    log.checkpoint(snapshot_at(4))
    log.append([ack(3)])
    log.close()


def test_the_log_on_disk_is_what_the_format_says(disk):
    disk.filled().close()
    data = disk.read("ack.log")
    assert data[:HEADER_SIZE] == encode_header(1)
    assert data[HEADER_SIZE:][:FRAME_SIZE] == encode_record(Register(1, "spark"), 1)
    assert read_log(data).entries[-1] == (3, ack(1))
