"""What deletion and waiting for room add to the counters, and why."""

from __future__ import annotations

from typing import Any

import pytest
from store_kit import SLOTS, bundle, numbers, on_memory

import quiver
from quiver.testing import ManualClock, MemoryDisk
from quiver.units import SECOND

KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
    "acks": {"max_size": 8192},
}


def full(policy: str) -> dict[str, Any]:
    return {**KNOBS, "retention": {"size_cap": 300_000, "size_cap_policy": policy}}


def told(store: quiver.Store, room: str) -> dict[tuple[str, str], int]:
    """Give the counters of a room that are not 0, by the rest of their names and their label."""
    return {
        (name.removeprefix(f"quiver.{room}."), label): count
        for (name, label), count in store.metrics().items()
        if name.startswith(f"quiver.{room}.") and count
    }


def test_what_everybody_has_is_evicted_with_its_bytes() -> None:
    store = on_memory(MemoryDisk())
    store.subscribe("reader")
    for number in range(4):
        store.append(bundle(number))
        if number % 2:
            store.finalize()
    size = store.info().segment_bytes
    numbers(store)
    assert store.maintain() == 2
    assert told(store, "retention") == {
        ("evicted_segments", "steady"): 2,
        ("evicted_bytes", "steady"): size,
    }


@pytest.mark.parametrize("subscribers", [(), ("a",), ("a", "b")])
def test_what_is_dropped_for_room_is_counted_once_whoever_lost_it(subscribers) -> None:
    store = on_memory(MemoryDisk(), **full("drop_oldest"))
    for name in subscribers:
        store.subscribe(name)
    for number in range(900):
        store.append(bundle(number))
    store.finalize()
    found = told(store, "segment")
    assert found["dropped", "size"] > 3
    assert found["dropped_bytes", "size"] > 3 * 1000
    lost = found["dropped_bundles", "size"]
    for name in subscribers:
        assert store.metrics()["quiver.subscriber.dropped_bundles", name] == lost
    left = numbers(store, "late") if not subscribers else numbers(store, "a")
    assert left == list(range(lost, 900))


def test_bundles_that_one_acked_and_another_lost_count_as_dropped() -> None:
    store = on_memory(MemoryDisk(), **full("drop_oldest"))
    store.subscribe("slow")
    quick = store.subscribe("quick")
    for number in range(900):
        store.append(bundle(number))
        while (handle := quick.poll()) is not None:
            handle.ack()
    lost = told(store, "segment")["dropped_bundles", "size"]
    assert store.metrics()["quiver.subscriber.dropped_bundles", "slow"] == lost > 0
    assert store.metrics().get(("quiver.subscriber.dropped_bundles", "quick"), 0) < lost


def test_what_is_too_old_is_expired_and_only_what_was_needed_is_dropped() -> None:
    clock = ManualClock()
    options = {"max_retain_after_ingestion_hours": 2, "steady_state_headroom": "1GiB"}
    store = quiver.open(
        "memory",
        slots=SLOTS,
        disk=MemoryDisk(),
        clock=clock,
        worker=False,
        config={"retention": options, "segment": {"max_open_duration": "1000h"}},
    )
    subscription = store.subscribe("reader")
    for number in range(6):
        store.append(bundle(number))
        if number % 3 == 2:
            store.finalize()
    for _ in range(4):
        subscription.poll().ack()
    size = store.info().segment_bytes // 2
    for _ in range(16):
        clock.step("15m")
        store.maintain()
    assert store.info().segments == 0
    assert told(store, "retention") == {("expired_segments", ""): 2, ("expired_bundles", ""): 6}
    dropped = {name: count for name, count in told(store, "segment").items() if name[1]}
    assert dropped.pop(("dropped_bytes", "age")) == pytest.approx(size, rel=0.2)
    assert dropped == {("dropped", "age"): 1, ("dropped_bundles", "age"): 2}


def test_a_full_store_is_an_emergency_and_waiting_is_timed() -> None:
    clock = ManualClock()
    store = quiver.open(
        "memory",
        slots=SLOTS,
        disk=MemoryDisk(),
        clock=clock,
        worker=False,
        config=full("backpressure"),
    )
    store.subscribe("reader")
    with pytest.raises(quiver.CapacityError):
        for number in range(2000):
            store.append(bundle(number))
    assert told(store, "retention") == {("size_emergencies", "backpressure"): 1}
    assert store.metrics()["quiver.wal.throttled_appends", ""] == 1
    core = store._core
    honest = core.changed.wait

    def wait(timeout: float) -> bool:
        clock.step(timeout)
        return honest(0)

    core.changed.wait = wait
    with pytest.raises(quiver.CapacityError):
        store.append(bundle(0), timeout="3s")
    assert store.metrics()["quiver.wal.throttled", ""] == 3 * SECOND
    assert store.metrics()["quiver.wal.throttled_appends", ""] == 2
