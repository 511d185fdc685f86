"""An observer of the folder against the store that writes it, in every state."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from beside_kit import Beside
from store_kit import bundle

import quiver
from quiver.engine import CoreStats
from quiver.errors import MissingError
from quiver.observe import Observer
from quiver.testing import MemoryDisk

KIB = 1024
UNLIKE = ("wal_bytes", "cap_bytes", "is_stopped", "at_ns", "open_age_ns", "subscribers")
"""What the two sides count in their own ways, or do not both know; looked at apart."""


@pytest.fixture
def beside() -> Beside:
    return Beside()


def observer(beside: Beside, **options) -> Observer:
    return Observer("memory", disk=beside.disk, clock=beside.clock, **options)


def alike(stats: CoreStats) -> dict[str, object]:
    found = {name: getattr(stats, name) for name in CoreStats.__slots__ if name not in UNLIKE}
    for one in stats.subscribers:
        lag = replace(one.lag, claimed_count=0, last_seen_ns=0)  # A store knows of polls, too,
        if not lag.segment_count:
            lag = replace(lag, high_water_mark=None)  # and of segments that are gone.
        found[one.name] = lag, one.gap_count, one.is_registered
    return found


def test_what_the_folder_tells_is_what_the_store_says(beside) -> None:
    store, watch = beside.open(), observer(beside)
    assert alike(watch.look().cores[0]) == alike(store.stats())
    subscription = store.subscribe("reader")
    beside.fill(store, 3, 2)
    subscription.poll().ack()
    subscription.poll().nack(retry_after=60)
    store.append(bundle(5))
    store.maintain()
    found = watch.look()
    assert alike(found.cores[0]) == alike(store.stats())
    (core,) = found.cores
    assert (core.next_wal_seq, core.open_bundles, core.segments) == (6, 1, 2)
    (reader,) = core.subscribers
    assert (reader.lag.bundle_count, reader.lag.waiting_count, reader.gap_count) == (4, 1, 2)
    assert found.store_id == store.info().store_id
    assert found.passed_over == ()


def test_ages_are_by_the_clock_of_who_looks(beside) -> None:
    store, watch = beside.open(), observer(beside)
    store.subscribe("reader")
    beside.fill(store, 1)
    beside.clock.step("40s")
    store.append(bundle(1))
    beside.clock.step("2s")
    (core,) = watch.look().cores
    assert core.open_age_ns == 2 * 10**9 == store.stats().open_age_ns
    assert core.subscribers[0].lag.oldest_age_ns == 42 * 10**9
    beside.clock.jump_to(0)
    assert watch.look().cores[0].open_age_ns == 0


def test_the_cap_is_told_by_who_looks_and_shared_by_the_cores(beside) -> None:
    with beside.open() as one, quiver.open("memory", disk=beside.disk, core=3, worker=False) as two:
        for store in (one, two):
            store.append(bundle(0))
        assert [core.cap_bytes for core in observer(beside).look().cores] == [None, None]
        found = observer(beside, size_cap=1001).look()
        assert [(core.core, core.cap_bytes) for core in found.cores] == [(0, 500), (3, 500)]
    with beside.open(retention={"size_cap": "4GiB"}) as store:
        assert store.stats().cap_bytes == 2 * KIB**3


def test_cores_that_come_and_go_are_followed(beside) -> None:
    beside.open().close()
    watch = observer(beside)
    assert [core.core for core in watch.look().cores] == [0]
    with quiver.open("memory", disk=beside.disk, core=1, worker=False) as store:
        store.append(bundle(0))
        assert [core.open_bundles for core in watch.look().cores] == [0, 1]


def test_a_subscriber_that_only_its_inbox_knows_is_told_with_what_it_did(beside) -> None:
    store, watch = beside.open(), observer(beside)
    beside.fill(store, 4)
    with beside.subscribe("far") as consumer:
        consumer.poll().ack()
        consumer.poll().ack()
        consumer.commit()
        (far,) = watch.look().cores[0].subscribers
        assert (far.name, far.is_registered, far.unfolded_count) == ("far", False, 2)
    store.maintain()
    (far,) = watch.look().cores[0].subscribers
    assert (far.is_registered, far.unfolded_count, far.lag.bundle_count) == (True, 0, 2)


def test_what_is_damaged_is_passed_over_and_told(beside) -> None:
    store, watch = beside.open(), observer(beside)
    store.subscribe("reader")
    beside.fill(store, 1, 1)
    watch.look()
    path = "core_0/segments/0000000000000000.qseg"
    size = beside.disk.stat(path).size
    beside.disk.unlink(path)
    with_damage = beside.disk.create(path)
    with_damage.write(0, bytes(size + 1))
    beside.disk.make_dir("core_0/acks/inbox")
    beside.put("far", b"rubbish")
    found = watch.look()
    assert found.cores[0].segments == 1
    damaged, refused = found.passed_over
    assert damaged.startswith(f"passed over memory:/{path}: ")
    assert refused.startswith("passed over memory:/core_0/acks/inbox/far: ")


def test_quarantine_and_dead_letters_are_counted(beside) -> None:
    store, watch = beside.open(), observer(beside)
    subscription = store.subscribe("reader")
    beside.fill(store, 1)
    subscription.poll().reject("no use")
    (core,) = watch.look().cores
    assert core.dead_letter_bytes == store.stats().dead_letter_bytes > 0
    assert core.quarantine_bytes == 0
    assert core.used_bytes >= core.dead_letter_bytes + core.segment_disk_bytes
    assert core.subscribers[0].lag.dead_letter_count == 1


def test_a_folder_that_is_no_store_is_refused() -> None:
    with pytest.raises(MissingError):
        Observer("memory", disk=MemoryDisk())
    with pytest.raises(MissingError):
        Observer("/nowhere/at/all")


def test_a_store_that_gave_up_says_so(beside, monkeypatch) -> None:
    store = beside.open()
    assert store.stats().is_stopped is False
    store._core.fault = OSError("a failed sync")
    assert store.stats().is_stopped is True
    store._core.fault = None
    store.close()
    with pytest.raises(quiver.ClosedError):
        store.stats()


LOGS = [
    {"rotate_size": 4 * KIB, "reclaim_size": 4 * KIB},
    {"rotate_size": 64 * KIB, "reclaim_size": 4 * KIB},
    {"rotate_size": 64 * KIB, "reclaim_size": 4 * KIB, "reclaim": "copy"},
    {"rotate_size": 64 * KIB, "reclaim_size": 4 * KIB, "reclaim": "recycle"},
]


@pytest.mark.parametrize("log", LOGS, ids=["rotating", "punching", "copying", "reusing"])
@pytest.mark.parametrize("seed", range(6))
def test_looking_again_and_again_finds_what_a_first_look_finds(beside, log, seed) -> None:
    chance = random.Random(seed)
    config = {"wal": log, "segment": {"target_size": 16 * KIB, "max_open_duration": "1h"}}
    store = beside.open(**config)
    subscription = store.subscribe("reader")
    watch, number = observer(beside), 0
    for _ in range(60):
        act = chance.choice(["append", "append", "append", "finalize", "ack", "tick", "die"])
        if act == "append":
            for _ in range(chance.randint(1, 12)):
                store.append(bundle(number))
                number += 1
        elif act == "finalize":
            store.finalize()
        elif act == "ack":
            for _ in range(chance.randint(1, 20)):
                if (handle := subscription.poll()) is not None:
                    handle.ack() if chance.random() < 0.8 else handle.nack(retry_after=0)
        elif act == "tick":
            store.maintain()
        elif chance.random() < 0.3:
            store.flush()
            beside.die(store)
            store = beside.open(**config)
            subscription = store.subscribe("reader")
        beside.clock.step("1s")
        (again,) = watch.look().cores
        (first,) = observer(beside).look().cores
        assert again == first
        assert alike(again) == alike(store.stats())
    assert number > 50


def rewrite(disk: MemoryDisk, path: str, data: bytes) -> None:
    disk.unlink(path)
    disk.create(path).write(0, data)


def read(disk: MemoryDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def test_a_log_whose_end_was_lost_and_written_anew_is_walked_again(beside) -> None:
    store, watch = beside.open(), observer(beside)
    for number in range(3):
        store.append(bundle(number))
    short = read(beside.disk, "core_0/wal/quiver.wal")
    for number in range(3, 9):
        store.append(bundle(number))
    assert watch.look().cores[0].open_bundles == 9
    beside.die(store)
    rewrite(beside.disk, "core_0/wal/quiver.wal", short)  # As after a power cut without syncs.
    store = beside.open()
    for _ in range(20):
        store.append({"notes": bundle(0)["notes"]})  # Of another length than what was there.
    found = watch.look().cores[0]
    assert (found.open_bundles, found.next_wal_seq) == (23, 23)
    assert alike(found) == alike(store.stats())


def test_an_append_that_is_not_finished_is_counted_when_it_is(beside) -> None:
    store, watch = beside.open(), observer(beside)
    store.append(bundle(0))
    before = read(beside.disk, "core_0/wal/quiver.wal")
    store.append(bundle(1))
    whole = read(beside.disk, "core_0/wal/quiver.wal")
    rewrite(beside.disk, "core_0/wal/quiver.wal", whole[: len(before) + 50])
    assert watch.look().cores[0].open_bundles == 1
    assert watch.look().cores[0].open_bundles == 1
    rewrite(beside.disk, "core_0/wal/quiver.wal", whole)
    assert watch.look().cores[0].open_bundles == 2


def test_what_was_looked_at_is_not_read_again(beside, monkeypatch) -> None:
    store, watch = beside.open(), observer(beside)
    for number in range(200):
        store.append(bundle(number))
    watch.look()
    read_bytes = []
    honest = type(beside.disk.open("core_0/wal/quiver.wal")).read

    def counting(self, offset: int, length: int) -> bytes:
        data = honest(self, offset, length)
        if self.path.endswith("quiver.wal"):
            read_bytes.append(len(data))
        return data

    monkeypatch.setattr(type(beside.disk.open("core_0/wal/quiver.wal")), "read", counting)
    store.append(bundle(200))
    assert watch.look().cores[0].open_bundles == 201
    assert 0 < sum(read_bytes) < 8 * KIB < beside.disk.stat("core_0/wal/quiver.wal").size


def test_a_core_that_is_about_to_be_made_is_empty(beside) -> None:
    store, watch = beside.open(), observer(beside)
    beside.disk.make_dir("core_5")
    first, made = watch.look().cores
    assert (first.core, made.core) == (0, 5)
    assert (made.used_bytes, made.next_wal_seq, made.subscribers) == (0, 0, ())
    store.close()
