"""Power cuts at every act of a run with appends, syncs, a checkpoint and a mended log."""

import pytest

from quiver.acks import Ack, AckLog, Checkpoint, Floor, Register, SubscriberState
from quiver.errors import TornEntry
from quiver.testing import MemoryDisk, crash_images

ACKS, QUARANTINE = "core_0/acks", "core_0/quarantine"
RECORDS = [
    Register(1, "a-name-of-more-than-22-characters"),
    *(Ack(1, 0, 2 * index, 1, index) for index in range(8)),
]
LAST_SEQ = [2, *range(3, 11)]
"""The number of each record's last frame; the first record has two."""
PROBE = Ack(1, 9, 0, 1, 9)


def snapshot_of(count):
    seq = LAST_SEQ[count - 1]
    return Checkpoint(seq, Floor(count, count), (SubscriberState(1, RECORDS[0].name, count),))


def workload(disk):
    """Write all records; each mark says how many of them must survive from then on."""
    log, _ = AckLog.open(disk, ACKS, QUARANTINE)
    log.append(RECORDS[:3])
    log.sync()
    disk.mark("safe", count=3)
    log.append(RECORDS[3:4])
    log.append(RECORDS[4:6])
    log.checkpoint(snapshot_of(5))
    disk.mark("safe", count=6)
    log.append(RECORDS[6:7])
    log.sync()
    disk.mark("safe", count=7)
    log.append(RECORDS[7:])
    log.checkpoint(snapshot_of(9))
    disk.mark("safe", count=9)
    log.close()


def known(replay):
    """How many records the checkpoint and the log give, without a hole between them."""
    covered = replay.checkpoint.record_seq if replay.checkpoint else 0
    count = LAST_SEQ.index(covered) + 1 if covered else 0
    assert all(record in RECORDS[count:] for record in replay.records)
    for record in replay.records:
        if count < len(RECORDS) and record == RECORDS[count]:
            count += 1
    return count


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_what_was_synced_survives_every_power_cut(model):
    disk = MemoryDisk()
    disk.make_dir("core_0")
    disk.sync_dir("")
    disk = MemoryDisk(disk.tree)
    workload(disk)
    images = 0
    for image in crash_images(disk.history, model=model, budget=4000):
        images += 1
        start = image.disk()
        log, replay = AckLog.open(start, ACKS, QUARANTINE)
        safe = max([0, *(dict(mark.facts)["count"] for mark in image.marks)])
        assert known(replay) >= safe, image.describe()
        if image.torn is None:
            assert all(isinstance(e, TornEntry) for e in replay.damage), image.describe()
        log.append([PROBE])
        log.sync()
        log.close()
        log, again = AckLog.open(start, ACKS, QUARANTINE)
        log.close()
        assert again.damage == [], image.describe()
        assert again.records == [*replay.records, PROBE], image.describe()
    assert images > 100


def test_a_power_cut_while_mending_loses_nothing_more():
    disk = MemoryDisk()
    disk.make_dir("core_0")
    disk.sync_dir("")
    log, _ = AckLog.open(disk, ACKS, QUARANTINE)
    log.append(RECORDS[:3])
    log.checkpoint(snapshot_of(3))
    log.append(RECORDS[3:6])
    log.sync()
    log.close()
    file = disk.open(f"{ACKS}/ack.log", writable=True)
    file.write(64 + 64 + 20, b"\xff")  # The second of the three records behind the checkpoint.
    file.sync()
    file.close()
    damaged = MemoryDisk(disk.tree)
    before = bytes(damaged.map(f"{ACKS}/ack.log"))
    log, replay = AckLog.open(damaged, ACKS, QUARANTINE)
    log.close()
    wanted = [RECORDS[3], RECORDS[5]]
    assert replay.records == wanted
    images = 0
    for image in crash_images(damaged.history, model="posix", budget=4000):
        images += 1
        start = image.disk()
        log, after = AckLog.open(start, ACKS, QUARANTINE)
        log.close()
        assert (after.checkpoint, after.records) == (snapshot_of(3), wanted), image.describe()
        names = [e.name for e in start.list_dir(QUARANTINE) if e.name.count(".") == 2]
        copies = [bytes(start.map(f"{QUARANTINE}/{name}")) for name in names]
        assert before in copies, image.describe()
    assert images > 10


def test_what_a_replay_gave_is_durable_although_its_writer_was_killed_before_a_sync():
    disk = MemoryDisk()
    disk.make_dir("core_0")
    disk.sync_dir("")
    killed, _ = AckLog.open(disk, ACKS, QUARANTINE)
    killed.append(RECORDS)
    log, replay = AckLog.open(disk, ACKS, QUARANTINE)
    assert replay.records == RECORDS
    end = [len(disk.history.ops)]
    for image in crash_images(disk.history, model="posix", points=end):
        again, after = AckLog.open(image.disk(), ACKS, QUARANTINE)
        again.close()
        assert (after.records, after.damage) == (RECORDS, []), image.describe()
    log.close()
    killed.close()
