"""A store at its cap, and one on a disk that is full: nothing is lost, and it goes on by itself."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.acks import Dropped
from quiver.engine.core import RecoveryReport
from quiver.engine.dropping import drop_open
from quiver.engine.outcomes import open_outcomes
from quiver.engine.reserve import reserve_bytes
from quiver.segment import parse_segment_name
from quiver.testing import ManualClock, MemoryDisk
from quiver.testing.acts import Write

CAP = 200_000
KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
    "acks": {"max_size": 8192},
}


def knobs(policy: str = "backpressure", *, cap: int = CAP, **retention: Any) -> dict[str, Any]:
    return {**KNOBS, "retention": {"size_cap": cap, "size_cap_policy": policy, **retention}}


def fill(store: quiver.Store, *, first: int = 0, most: int = 2000) -> int:
    """Append until the store refuses, and give how many it took."""
    for number in range(first, first + most):
        try:
            store.append(bundle(number))
        except quiver.CapacityError:
            return number
    raise AssertionError(f"{most} bundles fit")


def waste(disk: MemoryDisk, path: str, size: int) -> None:
    file = disk.create(path)
    file.write(0, bytes(size))
    file.close()


@pytest.mark.parametrize("reclaim", ["punch", "copy", "recycle"])
def test_at_no_act_does_the_disk_hold_more_than_the_cap_and_a_segment(reclaim: str) -> None:
    disk = MemoryDisk(punch_supported=reclaim != "copy")
    config = knobs()
    config["wal"] = {**config["wal"], "reclaim": reclaim}
    store = on_memory(disk, **config)
    most = 0
    segment = reserve_bytes(store._core.config)
    taken = 0
    for round_ in range(6):
        store.subscribe("reader")
        for number in range(taken, taken + 2000):
            try:
                store.append(bundle(number))
            except quiver.CapacityError:
                break
            taken += 1
            most = max(most, disk.used())
        if round_ % 2:
            numbers(store)
        else:
            subscription = store.subscribe("reader")
            for _ in range(40):
                handle = subscription.poll()
                if handle is not None:
                    handle.ack()
        store.maintain()
        most = max(most, disk.used())
    assert taken > 100
    assert CAP // 2 < most <= CAP + segment, (most, segment)
    store.close()


def test_a_full_store_takes_appends_again_when_there_is_room() -> None:
    store = on_memory(MemoryDisk(), **knobs())
    store.subscribe("reader")
    taken = fill(store)
    assert store.metrics()["quiver.retention.size_emergencies", "backpressure"] == 1
    with pytest.raises(quiver.CapacityError, match="the store is full"):
        store.append(bundle(taken))
    assert store.metrics()["quiver.wal.throttled_appends", ""] == 2
    assert store.metrics()["quiver.retention.size_emergencies", "backpressure"] == 1
    assert numbers(store)[0] == 0
    store.maintain()
    more = fill(store, first=taken)
    assert more > taken
    store.close()


@pytest.mark.parametrize("upkeep", ["worker", "nobody"])
def test_an_append_that_may_wait_gets_in_when_somebody_acks(tmp_path, upkeep: str) -> None:
    config, worker = knobs(block_timeout="60s"), upkeep == "worker"
    with quiver.open(tmp_path / "s", slots=SLOTS, config=config, worker=worker) as store:
        subscription = store.subscribe("reader")
        for number in range(2000):
            try:
                store.append(bundle(number), timeout=0)
            except quiver.CapacityError:
                break
        waiting = threading.Thread(target=store.append, args=(bundle(number),))
        waiting.start()
        got = []
        while len(got) <= number:
            handle = subscription.poll()
            if handle is not None:
                got.append(handle["events"].column("n")[0].as_py())
                handle.ack()
            elif not waiting.is_alive():
                store.finalize()
        waiting.join()
        assert got == list(range(number + 1))


def test_who_waits_in_vain_is_told_and_nothing_was_taken(tmp_path) -> None:
    with quiver.open(tmp_path / "s", slots=SLOTS, config=knobs(), worker=False) as store:
        store.subscribe("reader")
        taken = fill(store)
        before = store.info().next_wal_seq
        with pytest.raises(quiver.CapacityError):
            store.append(bundle(taken), timeout="20ms")
        assert store.info().next_wal_seq == before


def test_closing_wakes_who_waits_for_room(tmp_path) -> None:
    store = quiver.open(tmp_path / "s", slots=SLOTS, config=knobs())
    store.subscribe("reader")
    taken = fill(store)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            store.append(bundle(taken), timeout=600)
        except quiver.QuiverError as error:
            caught.append(error)

    before = store.metrics()["quiver.wal.throttled_appends", ""]
    waiting = threading.Thread(target=wait)
    waiting.start()
    while store.metrics()["quiver.wal.throttled_appends", ""] == before:
        pass
    store.close()
    waiting.join()
    assert isinstance(caught[0], quiver.ClosedError)


@pytest.mark.parametrize("subscribers", [(), ("a", "b")])
def test_drop_oldest_counts_for_each_subscriber_what_it_lost(subscribers) -> None:
    store = on_memory(MemoryDisk(), **knobs("drop_oldest"))
    for name in subscribers:
        store.subscribe(name)
    for number in range(600):
        store.append(bundle(number))
    store.finalize()
    metrics = store.metrics()
    assert metrics["quiver.segment.dropped", "size"] > 3
    for name in subscribers:
        lost = metrics["quiver.subscriber.dropped_bundles", name]
        assert numbers(store, name) == list(range(lost, 600))
    store.close()


@pytest.mark.parametrize("by", ["size", "age"])
def test_each_loss_is_durably_written_down_before_the_segment_goes(by: str) -> None:
    disk, clock = MemoryDisk(), ManualClock()
    limit = {"max_retain_after_ingestion_hours": 1}
    config = knobs("drop_oldest") if by == "size" else {**KNOBS, "retention": limit}
    store = quiver.open("memory", slots=SLOTS, disk=disk, clock=clock, worker=False, config=config)
    core = store._core
    ids = {}
    for name in ("a", "b"):
        store.subscribe(name)
        ids[name] = core.registry.ids[name]
    honest, told = disk.unlink, set()

    def unlink(path: str) -> None:
        if path.endswith(".qseg"):
            assert not core.acks_unsynced
            segment_seq = parse_segment_name(path.rsplit("/", 1)[-1])
            _, _, replay = open_outcomes(
                disk, "core_0", has_segments=True, report=RecoveryReport(), strict=True
            )
            lost = {
                record.subscriber_id: record.bundle_count
                for record in replay.records
                if isinstance(record, Dropped) and record.segment_seq == segment_seq
            }
            count = core.catalog.get(segment_seq).bundle_count
            assert lost == dict.fromkeys(ids.values(), count)
            told.add(segment_seq)
        honest(path)

    with mock.patch.object(disk, "unlink", unlink):
        for number in range(300):
            store.append(bundle(number))
            clock.step("1m")
            if number % 10 == 0:
                store.maintain()
    assert len(told) > 2


def test_what_is_open_is_dropped_when_nothing_else_is_left(caplog) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs("drop_oldest"))
    store.subscribe("reader")
    for number in range(10):
        store.append(bundle(number))
    store.finalize()
    for number in range(10, 15):
        store.append(bundle(number))
    disk.make_dir("core_0/quarantine")
    waste(disk, "core_0/quarantine/x", CAP - 92_000)
    store.maintain()
    for number in range(15, 100):
        store.append(bundle(number))
    lost = store.metrics()["quiver.subscriber.dropped_bundles", "reader"]
    assert lost >= 15
    store.finalize()
    assert numbers(store) == list(range(lost, 100))
    store.close()
    assert "retention.dropped_open" in [record.message for record in caplog.records]


def test_what_was_dropped_while_open_does_not_come_back_with_a_restart() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs("drop_oldest"))
    store.subscribe("reader")
    for number in range(5):
        store.append(bundle(number))
    with store._core.lock:
        drop_open(store._core)
    abandon(store)
    store = on_memory(disk)
    assert store.info().next_wal_seq == 5
    assert store.info().open_bundles == 0
    assert numbers(store) == []
    store.append(bundle(5))
    assert store.finalize().segment_seq == 1
    assert numbers(store) == [5]


def test_what_everybody_has_stays_in_the_headroom_until_room_is_needed() -> None:
    store = on_memory(MemoryDisk(), **knobs(steady_state_headroom=100_000))
    for number in range(60):
        store.append(bundle(number))
    store.finalize()
    assert len(numbers(store)) == 60
    assert store.maintain() == 0
    there = store.info().segments
    assert there > 0
    store.subscribe("reader")
    taken = fill(store, first=60)
    assert taken > 150
    assert numbers(store) == list(range(60, taken))


def test_a_full_disk_lets_segments_and_acks_be_written() -> None:
    disk = MemoryDisk(capacity=400_000)
    store = on_memory(disk, **knobs())
    subscription = store.subscribe("reader")
    for number in range(20):
        store.append(bundle(number))
    waste(disk, "other", 1)
    other = disk.open("other", writable=True)
    with pytest.raises(quiver.CapacityError):
        other.write(0, bytes(400_000))
    assert store.finalize() is not None
    assert store._core.reserve.is_short
    with pytest.raises(quiver.CapacityError, match="the disk is full"):
        store.append(bundle(20))
    got = 0
    while (handle := subscription.poll()) is not None:
        handle.ack()
        got += 1
    store.maintain()
    assert got == 20
    assert store.info().segments == 0
    other.truncate(0)
    other.close()
    store.maintain()
    assert not store._core.reserve.is_short
    store.append(bundle(20))
    store.close()


def test_acks_go_into_the_reserve_of_a_full_disk() -> None:
    disk = MemoryDisk(capacity=400_000)
    store = on_memory(disk, **knobs())
    subscription = store.subscribe("reader")
    for number in range(20):
        store.append(bundle(number))
    store.finalize()
    disk.fail(lambda act: isinstance(act, Write) and "ack.log" in act.path, error="ENOSPC")
    while (handle := subscription.poll()) is not None:
        handle.ack()
    assert store._core.reserve.is_short
    store.maintain()
    assert not store._core.reserve.is_short
    assert store.info().segments == 0


def test_a_reserve_with_holes_is_written_anew_and_one_that_nobody_needs_is_removed() -> None:
    disk = MemoryDisk()
    on_memory(disk, **knobs()).close()
    size = reserve_bytes(quiver.Config.of(knobs()))
    assert disk.stat("core_0/reserve").allocated == size
    file = disk.open("core_0/reserve", writable=True)
    file.punch(0, size)
    file.close()
    on_memory(disk, **knobs()).close()
    assert disk.stat("core_0/reserve").allocated == size
    on_memory(disk).close()
    assert disk.stat("core_0/reserve") is None


def test_holes_in_the_log_do_not_count_after_a_restart() -> None:
    disk = MemoryDisk()
    config = {**knobs(), "wal": {**KNOBS["wal"], "rotate_size": 1 << 20}}
    store = on_memory(disk, **config)
    for _ in range(30):
        for number in range(20):
            store.append(bundle(number))
        store.finalize()
        numbers(store)
        store.maintain()
    before = store._core.log.disk_bytes
    store.close()
    again = on_memory(disk, **config)
    assert again._core.log.disk_bytes <= before + 8192
    for number in range(20):
        again.append(bundle(number))


def test_a_large_bundle_into_an_almost_full_store_is_refused_whole() -> None:
    store = on_memory(MemoryDisk(), **knobs())
    store.subscribe("reader")
    taken = fill(store)
    large = {"events": pa.record_batch({"n": pa.array(range(1000), pa.int64())})}
    with pytest.raises(quiver.CapacityError):
        store.append(large)
    assert store.info().next_wal_seq == taken
