"""Subscribers who are never seen again go only if that was asked for, not by a jumping clock."""

from __future__ import annotations

import gc

import pytest
from store_kit import SLOTS, bundle

import quiver
from quiver.testing import ManualClock, MemoryDisk


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def open_store(clock: ManualClock, timeout: str) -> quiver.Store:
    config = {"subscriber": {"orphan_timeout": timeout}}
    return quiver.open(
        "s", slots=SLOTS, disk=MemoryDisk(), clock=clock, worker=False, config=config
    )


def with_lag(store: quiver.Store, *names: str) -> None:
    for name in names:
        store.subscribe(name).close()
    gc.collect()
    store.append(bundle(0))
    store.finalize()


def test_nobody_goes_unless_it_is_asked_for(clock: ManualClock) -> None:
    store = quiver.open("s", slots=SLOTS, disk=MemoryDisk(), clock=clock, worker=False)
    with_lag(store, "gone")
    for _ in range(3):
        clock.step("1000h")
        store.maintain()
    assert store.info().subscribers == ("gone",)


def test_who_is_not_seen_for_so_long_goes_and_what_it_kept_is_deleted(clock: ManualClock) -> None:
    store = open_store(clock, "1h")
    with_lag(store, "gone")
    store.maintain()
    clock.step("59m")
    store.maintain()
    assert store.info().subscribers == ("gone",)
    alive = store.subscribe("alive")
    alive.poll().ack()
    clock.step("2m")
    store.maintain()
    assert store.info().subscribers == ("alive",)
    assert store.info().segments == 0


def test_who_has_a_subscription_is_paused_or_has_nothing_open_stays(clock: ManualClock) -> None:
    store = open_store(clock, "1h")
    with_lag(store, "paused", "done")
    store.pause("paused")
    done = store.subscribe("done")
    done.poll().ack()
    done.close()
    waiting = store.subscribe("waiting")
    for _ in range(3):
        clock.step("2h")
        store.maintain()
    assert store.info().subscribers == ("done", "paused", "waiting")
    waiting.close()


def test_a_clock_of_the_wall_that_jumps_takes_nobody(clock: ManualClock) -> None:
    store = open_store(clock, "1h")
    with_lag(store, "slow")
    store.maintain()
    clock.jump_to(clock.wall_ns() + 10**9 * 3600 * 24 * 365 * 70)
    store.maintain()
    store.maintain()
    assert store.info().subscribers == ("slow",)
