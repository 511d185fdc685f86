"""What was shipped becomes segments of a store again: all of it, each segment once."""

from __future__ import annotations

import itertools
import os

import pytest
from beside_kit import take
from crc32c import crc32c
from shipper_kit import Rig, entries, rot_stream
from store_kit import bundle

import quiver
from quiver.config import Config
from quiver.errors import (
    DamageError,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    VersionError,
)
from quiver.manifest import StoreManifest
from quiver.segment import Catalog, SegmentReader
from quiver.ship.batch import decode_batch, encode_batch
from quiver.ship.objects import MemoryBucket, own_key, root_key
from quiver.ship.queue import Batch, Item, NewEntry, Queue
from quiver.ship.shipper import Arriving, Passed, RestoreOptions, Restorer
from quiver.testing import Killed, MemoryDisk

STEP = 1 if os.environ.get("QUIVER_SHIP") == "all" else 5
"""``make crash`` asks for each act; otherwise each fifth."""


class Target:
    """A disk that a queue is restored to, and what is there then."""

    def __init__(self, rig: Rig, disk: MemoryDisk | None = None) -> None:
        self.rig, self.disk = rig, disk or MemoryDisk()
        self.told: list = []

    def restorer(self, queue: Queue | None = None, **options) -> Restorer:
        return Restorer(
            self.disk,
            queue or self.rig.queue(),
            options=RestoreOptions(**options),
            config=Config(),
            clock=self.rig.clock,
            watch=self.hear,
        )

    def hear(self, told: object) -> None:
        if not isinstance(told, Arriving):
            self.told.append(told)

    def run(self, **options):
        return self.restorer(**options).run()

    def numbers(self) -> list[int]:
        found = []
        for name in sorted(n.name for n in self.disk.list_dir("") if n.name.startswith("core_")):
            catalog, damage = Catalog.load(self.disk, f"{name}/segments")
            assert not damage
            for info in catalog:
                with SegmentReader.open(self.disk, info.path) as reader:
                    reader.verify()
                    found += [
                        reader.bundle(index)[0].column("n")[0].as_py()
                        for index in range(reader.bundle_count)
                    ]
        return found

    def staged(self) -> list[str]:
        if self.disk.stat("staging") is None:
            return []
        return [each.name for each in self.disk.list_dir("staging")]


@pytest.fixture
def target(rig) -> Target:
    return Target(rig)


def shipped(rig: Rig, *counts: int, **options) -> None:
    with rig.open() as store:
        rig.fill(store, *counts)
        rig.ship(**({"batch_bytes": 1} | options))


def test_a_store_is_made_of_what_was_shipped(rig, target) -> None:
    shipped(rig, 3, 2, 1)
    tally = target.run()
    assert target.numbers() == list(range(6))
    assert (tally.segment_count, tally.bundle_count, tally.repeated_segments) == (3, 6, 0)
    assert tally.row_count == sum(told.row_count for told in target.told)
    here, there = StoreManifest.read(target.disk), StoreManifest.read(rig.disk)
    assert here.slots == there.slots
    assert here.store_id != there.store_id
    assert len(entries(rig.bucket)) == 3
    assert rig.queue().read().epoch == 0
    assert target.staged() == []


def test_it_can_be_opened_subscribed_to_and_written_to(rig, target) -> None:
    shipped(rig, 2, 1)
    target.run()
    with quiver.open("m", disk=target.disk, clock=rig.clock, worker=False) as store:
        assert take(store.subscribe("reader")) == [0, 1, 2]
        store.append(bundle(7))
    assert target.run().repeated_segments == 2
    assert target.numbers()[-1] == 7


def test_another_run_adds_what_came_since_and_nothing_twice(rig, target) -> None:
    shipped(rig, 2, 1)
    target.run()
    for count in (1, 2):
        tally = target.run()
        assert (tally.segment_count, tally.repeated_segments) == (0, 1 + count)
        shipped(rig, 1)
        assert target.run().segment_count == 1
    assert target.numbers() == list(range(5))


def test_segments_that_come_again_by_another_queue_are_known(rig, target) -> None:
    with rig.open() as store:
        rig.fill(store, 2, 1)
        rig.ship()
        target.run()
        rig.bucket = MemoryBucket("elsewhere")
        rig.ship("again")
    assert len(entries(rig.bucket)) == 1
    assert target.run().repeated_segments == 2
    assert target.numbers() == [0, 1, 2]


def test_many_machines_and_cores_come_together(rig, target) -> None:
    other = Rig()
    other.appended, other.bucket = 100, rig.bucket
    with rig.open() as first, rig.open() as second, other.open() as third:
        rig.fill(first, 1, 1)
        rig.fill(second, 2)
        other.fill(third, 2)
        rig.ship(batch_bytes=1)
        other.ship(batch_bytes=1)
    tally = target.run(commit_bytes=1)
    assert sorted(target.numbers()) == [0, 1, 2, 3, 100, 101]
    assert tally.segment_count == 4
    assert len({(told.store_id, told.core) for told in target.told}) == 3
    assert target.run().segment_count == 0


def test_parts_of_segments_and_slots_are_restored_as_they_are(rig, target) -> None:
    shipped(rig, 4, slots=("events",))
    tally = target.run()
    assert target.numbers() == [0, 1, 2, 3]
    assert tally.row_count == 8


def test_what_is_consumed_leaves_the_queue_behind_its_segments(rig, target) -> None:
    shipped(rig, 2, 1, 1)
    tally = target.run(consume=True, commit_bytes=1)
    assert entries(rig.bucket) == []
    assert tally.dequeued_entries == 3
    assert target.numbers() == [0, 1, 2, 3]
    shipped(rig, 1)
    assert rig.queue().read().epoch == 1
    assert target.run(consume=True).segment_count == 1
    assert target.numbers() == [0, 1, 2, 3, 4]


def test_who_takes_over_the_queue_fences_a_restore_that_consumes(rig, target) -> None:
    shipped(rig, 2, 1)
    restorer = target.restorer(consume=True, commit_bytes=1)
    restorer._watch = lambda _: rig.queue().start()
    with pytest.raises(FencedError):
        restorer.run()
    assert len(entries(rig.bucket)) == 2
    target.run(consume=True)
    assert target.numbers() == [0, 1, 2]


def test_another_slot_table_is_refused_with_both(rig, target) -> None:
    shipped(rig, 1)
    with quiver.open("m", slots=["logs"], disk=target.disk, clock=rig.clock, worker=False):
        pass
    with pytest.raises(VersionError, match="asked for: notes"):
        target.run()
    assert target.staged() == []


def test_a_store_is_not_restored_into_itself(rig) -> None:
    shipped(rig, 2)
    target = Target(rig, rig.disk)
    with pytest.raises(InputError, match="this very store"):
        target.run()


def test_one_restore_at_a_time(rig, target, monkeypatch) -> None:
    shipped(rig, 1, 1)
    target.run()
    monkeypatch.setattr("quiver.ship.shipper.restore._LOCK_SECONDS", 0.0)
    held = target.disk.lock("sinks/_restore.lock")
    with pytest.raises(LockedError):
        target.run()
    held.release()
    assert target.run().repeated_segments == 2


def put_entry(rig: Rig, records: list[bytes], items: list[Item]) -> str:
    rig.bucket.put("foreign.batch", encode_batch(records).parts)
    location = root_key(rig.bucket, "foreign.batch")
    rig.queue().append(NewEntry(location, items))
    return location


def test_what_others_put_into_the_queue_is_left_to_others(rig, target) -> None:
    put_entry(rig, [b"a", b"b"], [Item(0, 1, b"mine"), Item(1, 2, b"")])
    shipped(rig, 2)
    tally = target.run()
    assert (tally.foreign_calls, tally.segment_count) == (2, 1)
    with pytest.raises(InputError, match="--consume"):
        target.run(consume=True)
    assert len(entries(rig.bucket)) == 2


@pytest.mark.parametrize("items", [[Item(0, 1, b"mine")], []])
def test_nobody_is_fenced_for_a_queue_that_may_not_be_consumed(rig, target, items) -> None:
    epoch = rig.queue().start().epoch
    put_entry(rig, [b"a"], items)
    for disk in (target.disk, rig.disk):
        with pytest.raises(InputError):
            Target(rig, disk).run(consume=True)
    shipped(rig, 1)
    rig.queue().dequeue(0, epoch=epoch)
    with pytest.raises(InputError, match="this very store"):
        Target(rig, rig.disk).run(consume=True)
    assert rig.queue().read().epoch == epoch
    assert len(entries(rig.bucket)) == 1


def test_what_comes_in_between_and_is_nobodys_call_is_not_consumed(rig, target, monkeypatch):
    shipped(rig, 1)
    monkeypatch.setattr(Restorer, "_check_before_fencing", lambda _: None)
    put_entry(rig, [b"a"], [])
    with pytest.raises(InputError, match="--consume"):
        target.run(consume=True)
    assert [entry.sequence for entry in entries(rig.bucket)] == [1]


def test_a_second_record_of_a_segment_is_damage(rig, target) -> None:
    shipped(rig, 1)
    (entry,) = entries(rig.bucket)
    (record,) = decode_batch(rig.bucket.get(own_key(rig.bucket, entry.location)).data)
    put_entry(rig, [record, b"more"], list(entry.items))
    with pytest.raises(DamageError, match="is one record"):
        target.run()


def test_an_empty_queue_makes_no_store(rig, target) -> None:
    assert target.run().segment_count == 0
    assert target.disk.list_dir("") == []


def spoil(rig: Rig, sequence: int) -> str:
    location = entries(rig.bucket)[sequence].location
    key = own_key(rig.bucket, location)
    data = bytearray(rig.bucket.get(key).data)
    data[len(data) // 2] ^= 1
    rig.bucket.put(key, bytes(data))
    return key


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_record_that_was_damaged_before_it_went_out_blocks_no_others(rig, target, place) -> None:
    """Checksums of batch and entry are right, as after a fault of the memory there."""
    shipped(rig, 2, 1, 1)
    first = entries(rig.bucket)[1]
    (record,) = decode_batch(rig.bucket.get(own_key(rig.bucket, first.location)).data)
    rotten = bytearray(record)
    rotten[int(len(rotten) * place)] ^= 1
    rig.bucket.put(own_key(rig.bucket, first.location), encode_batch([rotten]).parts)
    data = rig.bucket.get(own_key(rig.bucket, first.location)).data
    batch = Batch(len(data), crc32c(data))
    other = Target(rig)
    bucket = MemoryBucket("other")
    for entry in entries(rig.bucket):
        bucket.put("/" + entry.location, rig.bucket.get("/" + entry.location).data)
        mine = batch if entry.sequence == 1 else entry.batch
        Queue(bucket).append(NewEntry(entry.location, entry.items, mine))
    with pytest.raises(DamageError) as caught:
        other.restorer(Queue(bucket)).run()
    assert "--damaged skip" in caught.value.hint
    assert other.numbers() == [0, 1]
    tally = other.restorer(Queue(bucket), damaged="skip").run()
    assert tally.damaged_batches == 1
    assert other.numbers() == [0, 1, 3]


@pytest.mark.parametrize("missing", [False, True], ids=["damaged", "missing"])
def test_a_bad_batch_blocks_behind_what_is_sound(rig, target, missing) -> None:
    shipped(rig, 2, 1, 1)
    key = spoil(rig, 1)
    if missing:
        rig.bucket.delete([key])
    with pytest.raises((DamageError, MissingError)) as caught:
        target.run()
    assert "--damaged skip" in caught.value.hint
    assert target.numbers() == [0, 1]
    tally = target.run(damaged="skip")
    assert tally.damaged_batches == 1
    assert target.numbers() == [0, 1, 3]
    assert any(isinstance(told, Passed) and told.sequence == 1 for told in target.told)
    assert len(entries(rig.bucket)) == 3


def test_a_bad_batch_that_is_consumed_becomes_a_dead_letter(rig, target) -> None:
    shipped(rig, 2, 1, 1)
    spoil(rig, 1)
    target.run(damaged="skip", consume=True)
    assert entries(rig.bucket) == []
    assert [each.key for each in rig.bucket.list("dead/")]


def test_a_batch_that_was_dequeued_meanwhile_is_not_missed(rig, target) -> None:
    shipped(rig, 2, 1)
    restorer = target.restorer(fetches=1)
    queue = rig.queue()
    view = restorer._queue.read()
    restorer._queue = type("Old", (), {"read": lambda self, epoch=None: next(views)})()
    views = iter([view])
    location = entries(rig.bucket)[0].location
    queue.dequeue(0, epoch=0)
    rig.bucket.delete([own_key(rig.bucket, location)])
    views = itertools.chain([view], itertools.repeat(queue.read()))
    tally = restorer.run()
    assert tally.dequeued_batches == 1
    assert target.numbers() == [2]


def test_a_record_of_another_segment_than_its_payload_names_is_damage(rig, target) -> None:
    shipped(rig, 2, 1)
    first, second = entries(rig.bucket)
    data = rig.bucket.get(own_key(rig.bucket, second.location)).data
    rig.bucket.put("swapped.batch", data)
    other = Queue(MemoryBucket("other"))
    other.bucket.put("swapped.batch", data)
    other.append(NewEntry(root_key(other.bucket, "swapped.batch"), first.items))
    with pytest.raises(DamageError, match="payload names"):
        target.restorer(queue=other).run()


@pytest.mark.parametrize("commit_bytes", [1, 1 << 20])
def test_killed_at_any_act_and_run_again_it_adds_nothing_twice(rig, commit_bytes) -> None:
    shipped(rig, 2, 1)
    for at in itertools.count(commit_bytes % STEP, STEP):
        assert at < 600
        target = Target(rig)
        target.disk.fail(at, error="kill", sticky=True)
        try:
            target.run(commit_bytes=1)
        except Killed:
            target.disk.heal()
            target.disk.forget_locks()
        else:
            assert at > 40
            break
        target.run(commit_bytes=commit_bytes)
        assert target.numbers() == [0, 1, 2]
        assert target.staged() == []


def test_a_restore_that_was_stopped_keeps_what_it_has(rig, target) -> None:
    shipped(rig, 1, 1, 1)
    restorer = target.restorer(commit_bytes=1)
    restorer._watch = lambda _: restorer.stop()
    assert restorer.run().is_cut_short
    assert target.numbers() == [0]
    target.run()
    assert target.numbers() == [0, 1, 2]


def test_a_damaged_segment_was_never_shipped_so_restores_are_sound(rig, target) -> None:
    with rig.open() as store:
        rig.fill(store, 2, 2, 1)
    rot_stream(rig, 1, 1)
    rig.ship()
    target.run()
    assert target.numbers() == [0, 1, 3, 4]


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"damaged": "no"}, {"fetches": 0}, {"memory_bytes": 0}, {"commit_bytes": 0}):
        with pytest.raises(InputError):
            RestoreOptions(**options)
