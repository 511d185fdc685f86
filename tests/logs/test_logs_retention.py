"""What retention does to data, and to appends, is told: once when it begins, once for a segment."""

from __future__ import annotations

from typing import Any

import pytest
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.ledger import LEDGER_NAME
from quiver.testing import ManualClock, MemoryDisk

CAP = 200_000
KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
    "acks": {"max_size": 8192},
}


def capped(disk: MemoryDisk, policy: str, **retention: Any) -> quiver.Store:
    sizes = {"size_cap": CAP, "size_cap_policy": policy, **retention}
    return on_memory(disk, **KNOBS, retention=sizes)


def test_a_full_store_says_so_once_and_again_when_there_is_room(heard) -> None:
    store = capped(MemoryDisk(), "backpressure")
    store.subscribe("reader")
    for round_ in (1, 2):
        with pytest.raises(quiver.CapacityError):
            for number in range(2000):
                store.append(bundle(number))
        assert heard.names.count("retention.throttled") == round_
        for _ in range(5):
            with pytest.raises(quiver.CapacityError):
                store.append(bundle(0))
        assert heard.names.count("retention.throttled") == round_
        assert numbers(store)
        store.maintain()
        store.append(bundle(0))
        assert heard.names.count("retention.resumed") == round_
    levels = {(level, name) for level, name, _ in heard.records if name.startswith("retention")}
    assert levels == {("warning", "retention.throttled"), ("info", "retention.resumed")}


def test_each_segment_that_is_dropped_is_told_with_what_everybody_lost(heard) -> None:
    store = capped(MemoryDisk(), "drop_oldest")
    for name in ("one", "two"):
        store.subscribe(name)
    for number in range(600):
        store.append(bundle(number))
    metrics = store.metrics()
    dropped = heard.of("retention.dropped")
    assert len(dropped) == metrics["quiver.segment.dropped", "size"] > 1
    assert [fields["segment_seq"] for fields in dropped] == list(range(len(dropped)))
    for name in ("one", "two"):
        lost = sum(fields["lost"][name] for fields in dropped)
        assert lost == metrics["quiver.subscriber.dropped_bundles", name]
    assert all(0 < fields["bundle_count"] < fields["file_bytes"] for fields in dropped)


def test_what_is_dropped_while_it_is_open_is_told(heard) -> None:
    disk = MemoryDisk()
    store = capped(disk, "drop_oldest")
    store.subscribe("reader")
    store.append(bundle(0))
    disk.make_dir("core_0/quarantine")
    waste = disk.create("core_0/quarantine/x")
    waste.write(0, bytes(CAP - 92_000))
    waste.close()
    store.maintain()
    for number in range(1, 100):
        store.append(bundle(number))
    dropped = heard.of("retention.dropped_open")
    lost = store.metrics()["quiver.subscriber.dropped_bundles", "reader"]
    told = dropped + heard.of("retention.dropped")
    assert sum(fields["bundle_count"] for fields in told) == lost > 0
    assert dropped[0]["payload_bytes"] > 0
    assert dropped[0]["segment_seq"] >= 0


def aged(disk: MemoryDisk, clock: ManualClock) -> quiver.Store:
    config = {"retention": {"max_retain_after_ingestion_hours": 2}}
    return quiver.open("m", slots=SLOTS, disk=disk, clock=clock, worker=False, config=config)


def test_a_segment_that_is_too_old_is_told_and_so_are_ages_that_cannot_be_believed(heard) -> None:
    disk, clock = MemoryDisk(), ManualClock()
    with aged(disk, clock) as store:
        store.subscribe("reader")
        store.append(bundle(0))
        store.finalize()
        for _ in range(16):
            clock.step("15m")
            store.maintain()
        (fields,) = heard.of("retention.expired")
        assert (fields["segment_seq"], fields["bundle_count"]) == (0, 1)
        assert fields["lost"] == {"reader": 1}
        assert "retention.dropped" not in heard.names
    file = disk.open("core_0/ages", writable=True)
    file.write(20, bytes([file.read(20, 1)[0] ^ 1]))
    file.close()
    with aged(disk, clock):
        (fields,) = heard.of("retention.ages_refused")
        assert fields["error"]


def test_ages_that_find_no_room_are_told_once_and_fail_no_close(heard) -> None:
    disk, clock = MemoryDisk(), ManualClock()
    store, honest = aged(disk, clock), disk.rename

    def refuse(source: str, target: str) -> None:
        if target.endswith("/ages"):
            raise quiver.CapacityError("the disk is full")
        honest(source, target)

    disk.rename = refuse  # type: ignore[method-assign]
    store.append(bundle(0))
    for _ in range(3):
        store.finalize()
        store.maintain()
        clock.step("10m")
    store.close()
    (fields,) = heard.of("retention.ages_failed")
    assert "full" in fields["error"]


def test_a_ledger_of_no_use_is_told_once_in_a_row(heard) -> None:
    disk = MemoryDisk()
    store = capped(disk, "backpressure", coordination="shared")
    store.append(bundle(0))
    store.maintain()
    disk.unlink(LEDGER_NAME)
    disk.make_dir(LEDGER_NAME)
    for _ in range(3):
        store.maintain()
    (fields,) = heard.of("retention.ledger_failed")
    assert LEDGER_NAME in fields["error"]


def test_a_new_core_that_cannot_read_another_ones_subscribers_says_so(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.subscribe("reader")
    abandon(store)
    path = "core_0/acks/ack.log"
    disk.rename(path, "core_0/acks/elsewhere")
    disk.make_dir(path)
    other = quiver.open("m", slots=SLOTS, disk=disk, clock=ManualClock(), worker=False, core=1)
    (fields,) = heard.of("subscriber.inherit_failed")
    assert fields["other_core"] == 0
    assert "ack.log" in fields["error"]
    assert {f["core"] for _, name, f in heard.records if name == "subscriber.inherit_failed"} == {1}
    other.close()
