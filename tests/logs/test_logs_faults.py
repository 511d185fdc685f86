"""What goes wrong, and what is mended, is told: once when it begins, as LOGS.md says."""

from __future__ import annotations

from typing import Any

import pytest
from beside_kit import FOLDER, Beside
from store_kit import SLOTS, abandon, bundle, on_memory

import quiver
from quiver.errors import CapacityError, PoisonedError, QuiverError, StorageError
from quiver.testing import ManualClock, MemoryDisk

WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}
LOG = "core_0/wal/quiver.wal"


def is_write(act: Any, path_end: str) -> bool:
    return type(act).__name__ == "Write" and act.path.endswith(path_end)


def flip(disk: MemoryDisk, path: str, place: int) -> None:
    file = disk.open(path, writable=True)
    at = place if place >= 0 else file.size() + place
    file.write(at, bytes([file.read(at, 1)[0] ^ 1]))
    file.close()


def segment(number: int) -> str:
    return f"core_0/segments/{number:016d}.qseg"


def test_what_lasts_is_told_when_it_begins_and_again_only_after_it_was_over(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    for _ in range(2):
        fault = disk.fail(lambda act: "segments/" in act.path, error="ENOSPC", sticky=True)
        store.append(bundle(0))
        for _ in range(3):
            with pytest.raises(CapacityError):
                store.finalize()
        assert fault.hits >= 3
        disk.heal()
        store.finalize()
    assert heard.names.count("segment.finalize_failed") == 2
    assert "No space left" in heard.of("segment.finalize_failed")[0]["error"]


def test_what_the_disk_refused_that_was_not_waited_for_is_told(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    store._core.outgoing.enabled = True  # As it is where there is a worker.
    for n in range(3):
        store.append(bundle(n), wait=False)
    disk.fail(lambda act: is_write(act, LOG), error="ENOSPC", sticky=True)
    with pytest.raises(CapacityError):
        store.flush()
    disk.heal()
    [fields] = heard.of("wal.refused")
    assert fields["bundle_count"] == 3
    assert "No space left" in fields["error"]


def test_a_checkpoint_of_acks_is_told_and_so_is_one_that_fails(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, acks={"max_size": 1000})
    reader = store.subscribe("reader")
    fault = disk.fail(lambda act: "acks/checkpoint" in act.path, error="ENOSPC", sticky=True)
    for n in range(30):
        store.append(bundle(n))
    store.finalize()
    for _ in range(20):
        reader.poll().ack()
    store.append(bundle(0))
    assert fault.hits > 1
    assert heard.names.count("acks.checkpoint_failed") == 1
    assert "acks.checkpoint" not in heard.names
    disk.heal()
    reader.poll().ack()
    store.append(bundle(0))
    fields = heard.of("acks.checkpoint")[0]
    assert fields["subscriber_count"] == 1
    assert fields["record_seq"] > 20


def test_progress_that_cannot_be_saved_is_told_once(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    follower = store.follow("in")
    disk.fail(lambda act: "core_0/progress" in act.path, error="ENOSPC", sticky=True)
    for n in range(3):
        store.append(bundle(n), progress=follower.at({"split": str(n)}))
        store.finalize()
    assert heard.names.count("progress.save_failed") == 1
    assert "No space left" in heard.of("progress.save_failed")[0]["error"]
    disk.heal()
    store.maintain()
    disk.fail(lambda act: "core_0/progress" in act.path, error="ENOSPC", sticky=True)
    store.append(bundle(3), progress=follower.at({"split": "3"}))
    store.finalize()
    assert heard.names.count("progress.save_failed") == 2


def test_progress_that_is_lost_is_told_by_the_opening_that_finds_it(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, wal={"reclaim_size": 1})
    done, follower = store.subscribe("done"), store.follow("in")
    store.append(bundle(0), progress=follower.at({"split": "0"}))
    store.finalize()
    done.poll().ack()
    store.close()
    for place in (0, disk.stat("core_0/progress").size // 2):
        flip(disk, "core_0/progress", place)
    for _ in range(2):
        on_memory(disk, segment=WAITING).close()
    (fields,) = heard.of("progress.lost")
    assert "core_0/progress" in fields["path"]
    assert "has no magic" in fields["error"]


def test_what_a_recovery_finds_and_mends_is_told(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    store.subscribe("reader")
    for n in range(5):
        store.append(bundle(n))
        if n == 2:
            store.finalize()
    abandon(store)
    flip(disk, segment(0), -20)
    file = disk.open(LOG, writable=True)
    end = file.size()
    file.write(end, b"\x40\0\0\0")
    file.close()
    store = on_memory(disk, segment=WAITING)
    report = store.recovery
    assert (report.rebuilt_segments, report.torn_tail is None, len(report.damage)) == (1, False, 1)
    assert heard.of("recovery.segments_rebuilt") == [{"segment_count": 1}]
    assert heard.of("recovery.tail_repaired") == [{"path": report.torn_tail.path, "offset": end}]
    (damage,) = report.damage
    assert heard.of("recovery.damage") == [
        {"path": damage.path, "offset": damage.offset, "error": str(damage)}
    ]
    assert heard.of("store.opened")[-1]["replayed_bundle_count"] == 2
    assert heard.of("store.opened")[-1]["damage_count"] == 1


def test_numbers_that_damage_may_have_had_are_told(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    for n in range(3):
        store.append(bundle(n))
    abandon(store)
    flip(disk, LOG, -40)
    store = on_memory(disk, segment=WAITING)
    first, behind = store.recovery.lost_wal_seqs
    assert heard.of("recovery.numbers_lost") == [
        {"wal_seq_first": first, "wal_seq_last": behind - 1}
    ]
    assert first == 2


def test_an_opening_that_fails_tells_what_it_set_aside_since_the_next_will_not_find_it(
    heard,
) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    store.subscribe("reader")
    store.append(bundle(0))
    abandon(store)
    flip(disk, "core_0/acks/ack.log", 64 + 9)
    disk.fail(lambda act: act.path == LOG and type(act).__name__ == "Sync", error="EIO")
    with pytest.raises(StorageError):
        on_memory(disk, segment=WAITING)
    (fields,) = heard.of("recovery.damage")
    assert fields["path"].endswith("acks/ack.log")
    assert heard.names.count("store.opened") == 1
    store = on_memory(disk, segment=WAITING)
    assert store.recovery.damage == []
    assert len(heard.of("recovery.damage")) == 1


def test_recovered_bundles_that_rot_are_told_when_they_become_a_segment(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    for n in range(3):
        store.append(bundle(n))
    abandon(store)
    store = on_memory(disk, segment=WAITING)
    assert heard.of("recovery.damage") == []
    flip(disk, LOG, -40)
    store.finalize()
    (fields,) = heard.of("recovery.damage")
    assert fields["error"] == str(store.recovery.damage[-1])
    store.close()
    assert len(heard.of("recovery.damage")) == 1


def test_a_segment_that_is_gone_or_damaged_is_told_once(heard) -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store = quiver.open("m", slots=SLOTS, disk=disk, clock=clock, worker=False)
    reader = store.subscribe("reader")
    for n in range(6):
        store.append(bundle(n))
        if n % 3 == 2:
            store.finalize()
    disk.rename(segment(0), "core_0/elsewhere")
    flip(disk, segment(1), 200)
    assert reader.poll() is None
    store.maintain()
    (gone,) = heard.of("segment.missing")
    assert gone["segment_seq"] == 0
    (damaged,) = heard.of("segment.damaged")
    assert (damaged["segment_seq"], damaged["path"]) == (1, disk.locate(segment(1)))
    assert damaged["error"] == str(store.recovery.damage[-1])


def test_a_dead_letter_without_room_is_told_once(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, subscriber={"max_attempts": 1})
    reader = store.subscribe("reader")
    for n in range(3):
        store.append(bundle(n))
    store.finalize()
    disk.fail(lambda act: "dead_letters" in act.path, error="ENOSPC", sticky=True)
    for _ in range(3):
        reader.poll().nack(retry_after=0)
    assert heard.names.count("subscriber.dead_letter_failed") == 1


def test_an_opening_that_cannot_take_over_what_others_did_says_so(heard) -> None:
    beside = Beside()
    store = beside.open()
    beside.fill(store, 2)
    with beside.subscribe("far") as far:
        far.poll().ack()
    beside.die(store)
    beside.disk.fail(lambda act: is_write(act, "ack.log"), error="ENOSPC", sticky=True)
    store = beside.open()
    (fields,) = heard.of("subscriber.fold_failed")
    assert "No space left" in fields["error"]
    beside.disk.heal()
    store.maintain()
    assert heard.names[-1] == "subscriber.taken_over"


def test_a_poisoned_store_says_so_once_as_an_error(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    disk.fail(lambda act: act.path == LOG and type(act).__name__ == "Sync", error="EIO")
    with pytest.raises(QuiverError):
        store.append(bundle(0))
    for _ in range(3):
        with pytest.raises(PoisonedError):
            store.append(bundle(0))
    (error,) = [record for record in heard.records if record[0] == "error"]
    assert error[1] == "store.poisoned"
    assert "Input/output error" in error[2]["error"]
    store.close()
    assert heard.names[-1] == "store.closed"


def test_a_worker_that_fails_says_so_once_in_a_row(heard) -> None:
    disk = MemoryDisk()
    store = quiver.open("m", slots=SLOTS, disk=disk, config={"acks": {"max_size": 100}})
    fault = disk.fail(lambda act: "acks/checkpoint" in act.path, error="ENOSPC", sticky=True)
    store.subscribe("reader")
    heard.wait_for("worker.tick_failed")
    heard.records.clear()
    failed = fault.hits
    while fault.hits < failed + 2:
        store.append(bundle(0))
    disk.heal()
    store.close()
    assert "worker.tick_failed" not in heard.names


def test_a_callback_that_raises_is_told_without_its_words(heard) -> None:
    store = quiver.open("m", slots=SLOTS, disk=MemoryDisk())

    def fail(_: object) -> None:
        raise ValueError("customer 4711 is unknown")

    store.on_finalize(fail)
    store.append(bundle(0))
    store.finalize()
    heard.wait_for("worker.job_failed")
    store.close()
    assert heard.of("worker.job_failed") == [{"error": "ValueError"}]


def test_what_a_receipt_calls_and_raises_is_told_without_its_words(heard) -> None:
    with quiver.open("m", slots=SLOTS, disk=MemoryDisk(), worker=False) as store:
        for number in range(2):
            store.append(bundle(number), wait=False).call(lambda _: {}["customer 4711"])
    assert heard.of("receipt.call_failed") == [{"error": "KeyError"}]


def test_a_consumer_that_cannot_commit_says_so(heard) -> None:
    beside = Beside()
    store = beside.open()
    beside.fill(store, 2)
    with beside.subscribe("far", worker=True, commit_interval="1ms") as far:
        beside.disk.fail(lambda act: FOLDER in act.path, error="ENOSPC", sticky=True)
        far.poll().ack()
        heard.wait_for("consumer.keeping_failed")
        beside.disk.heal()
    (fields,) = heard.of("consumer.keeping_failed")
    assert "No space left" in fields["error"]
