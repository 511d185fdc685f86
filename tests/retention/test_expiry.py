"""``retention.max_retain_after_ingestion_hours``: what is too old goes, and nothing else, ever."""

from __future__ import annotations

from typing import Any

import pytest
from store_kit import SLOTS, bundle, numbers

import quiver
from quiver.testing import ManualClock, MemoryDisk
from quiver.units import SECOND

HOUR = 3600 * SECOND
Y2099 = 4_070_908_800 * SECOND
LIMIT_HOURS = 64


def opened(disk: MemoryDisk, clock: ManualClock, **retention: Any) -> quiver.Store:
    options = {"max_retain_after_ingestion_hours": LIMIT_HOURS, **retention}
    return quiver.open(
        "memory",
        slots=SLOTS,
        disk=disk,
        clock=clock,
        worker=False,
        config={"retention": options, "segment": {"max_open_duration": "1000h"}},
    )


def filled(store: quiver.Store, clock: ManualClock, *, hours: int, first: int = 0) -> None:
    """Write a segment each hour."""
    for number in range(first, first + hours):
        store.append(bundle(number))
        store.finalize()
        clock.step("1h")
        store.maintain()


def rest(store: quiver.Store, clock: ManualClock, hours: int) -> None:
    """Let time pass, with a tick each quarter of an hour."""
    for _ in range(hours * 4):
        clock.step("15m")
        store.maintain()


def test_what_is_too_old_goes_and_what_is_younger_stays():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        store.subscribe("reader")
        filled(store, clock, hours=10)
        rest(store, clock, LIMIT_HOURS - 10 - 1)
        assert store.info().segments == 10
        rest(store, clock, 6)
        left = numbers(store)
        assert 3 <= len(left) <= 6
        assert left == list(range(10 - len(left), 10))
        metrics = store.metrics()
        assert metrics["quiver.retention.expired_segments", ""] == 10 - len(left)
        assert metrics["quiver.subscriber.dropped_bundles", "reader"] == 10 - len(left)
        rest(store, clock, 20)
        assert store.info().segments == 0


def test_nothing_is_too_old_without_the_option():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock, max_retain_after_ingestion_hours=0) as store:
        filled(store, clock, hours=2)
        rest(store, clock, 200)
        assert store.info().segments == 2
    assert disk.stat("core_0/ages") is None


def test_subscribers_go_on_with_what_is_left_after_a_restart():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        store.subscribe("reader")
        filled(store, clock, hours=4)
    clock.step(f"{LIMIT_HOURS // 2 - 1}h")
    store = opened(disk, clock)
    filled(store, clock, hours=1, first=4)
    rest(store, clock, LIMIT_HOURS // 2)
    assert numbers(store) == [4]
    store.close()


def test_a_restart_finds_what_grew_too_old_meanwhile():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        store.subscribe("reader")
        filled(store, clock, hours=1)
        rest(store, clock, LIMIT_HOURS - 12)
    clock.step("20h")
    with opened(disk, clock) as store:
        store.maintain()
        assert store.info().segments == 0
        assert store.subscribe("reader").poll() is None


def test_a_file_of_ages_that_is_lost_or_damaged_costs_nothing():
    for harm in ("unlink", "garbage"):
        clock, disk = ManualClock(), MemoryDisk()
        with opened(disk, clock) as store:
            filled(store, clock, hours=2)
            rest(store, clock, 20)
        assert disk.stat("core_0/ages") is not None
        if harm == "unlink":
            disk.unlink("core_0/ages")
        else:
            file = disk.open("core_0/ages", writable=True)
            file.write(0, b"\xff" * 40)
            file.close()
        with opened(disk, clock) as store:
            store.maintain()
            assert store.info().segments == 2
            rest(store, clock, LIMIT_HOURS + 4)
            assert store.info().segments == 0


def test_a_link_in_the_place_of_the_ages_is_neither_followed_nor_in_the_way(tmp_path):
    config = {"retention": {"max_retain_after_ingestion_hours": LIMIT_HOURS}}
    path, other = tmp_path / "store", tmp_path / "other"
    quiver.open(path, slots=SLOTS, config=config, worker=False).close()
    other.write_bytes(b"mine")
    ages = path / "core_0/ages"
    ages.unlink(missing_ok=True)
    ages.symlink_to(other)
    quiver.open(path, config=config, worker=False).close()
    assert other.read_bytes() == b"mine"
    assert not ages.is_symlink()


@pytest.mark.parametrize("wall_ns", [0, HOUR, Y2099, 1_700_000_000 * SECOND - HOUR])
def test_a_clock_that_is_stepped_while_open_deletes_nothing_young(wall_ns: int):
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        filled(store, clock, hours=2)
        clock.jump_to(wall_ns)
        rest(store, clock, 40)
        filled(store, clock, hours=2, first=2)
        assert store.info().segments == 4
        assert numbers(store) == [0, 1, 2, 3]


@pytest.mark.parametrize("wall_ns", [0, Y2099])
def test_a_clock_that_is_wrong_at_an_opening_deletes_nothing(wall_ns: int):
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        filled(store, clock, hours=2)
    right = clock.wall_ns()
    clock.jump_to(wall_ns)
    with opened(disk, clock) as store:
        for _ in range(30):
            clock.step("1m")
            store.maintain()
        clock.jump_to(right + HOUR)
        rest(store, clock, 20)
        assert numbers(store) == [0, 1]


def test_a_clock_that_stays_in_2099_over_restarts_deletes_nothing_young():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        filled(store, clock, hours=2)
        clock.jump_to(Y2099)
        filled(store, clock, hours=2, first=2)
    for _ in range(3):
        with opened(disk, clock) as store:
            rest(store, clock, 4)
    with opened(disk, clock) as store:
        assert store.info().segments == 4


def test_a_bundle_that_is_claimed_in_a_segment_that_is_too_old_is_acked_to_no_effect():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        subscription = store.subscribe("reader")
        filled(store, clock, hours=1)
        held = subscription.poll()
        assert held is not None
        rest(store, clock, LIMIT_HOURS + 4)
        assert store.info().segments == 0
        held.ack()
        assert subscription.poll() is None
        assert store.metrics()["quiver.subscriber.dropped_bundles", "reader"] == 1


def test_what_everybody_has_is_evicted_and_not_counted_as_too_old():
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        filled(store, clock, hours=1)
        assert numbers(store) == [0]
        rest(store, clock, LIMIT_HOURS + 4)
        assert ("quiver.retention.expired_segments", "") not in store.metrics()


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_a_segment_that_is_of_no_use_any_more_expires_like_others(harm: str):
    clock, disk = ManualClock(), MemoryDisk()
    with opened(disk, clock) as store:
        store.subscribe("reader")
        store.subscribe("other")
        filled(store, clock, hours=2)
        path = next(iter(store._core.catalog)).path
        if harm == "gone":
            disk.unlink(path)
        else:
            file = disk.open(path, writable=True)
            file.write(0, b"\xff" * 200)
            file.close()
        rest(store, clock, LIMIT_HOURS + 4)
        assert store.info().segments == 0
        for name in ("reader", "other"):
            assert store.metrics()["quiver.subscriber.dropped_bundles", name] == 2
        filled(store, clock, hours=1, first=2)
        assert numbers(store) == [2]
        assert numbers(store, "other") == [2]


def test_what_is_only_ever_opened_for_a_moment_grows_old_as_well():
    clock, disk = ManualClock(), MemoryDisk()
    for number in range(8):
        store = opened(disk, clock)
        store.append(bundle(number))
        store.close()  # No tick: nothing of it was marked while it was open.
        clock.step("20h")
    store = opened(disk, clock)
    store.maintain()
    left = [info.segment_seq for info in store._core.catalog]
    assert left == [5, 6, 7]
    store.close()
