"""Stores of one folder below one cap: what idle and dead ones hold goes to who needs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quiver
from quiver.engine.neighbours import Neighbours
from quiver.engine.numbers import core_bytes, core_numbers
from quiver.testing import ManualClock, MemoryDisk

KIB = 1 << 10
TARGET = 64 * KIB
CAP = 1024 * KIB
BUNDLE = 16 * KIB


def options(**retention: Any) -> dict[str, Any]:
    return {
        "wal": {"max_size": 128 * KIB, "rotate_size": 32 * KIB, "reclaim_size": 1},
        "limits": {"entry_bytes": 32 * KIB},
        "segment": {"target_size": TARGET},
        "retention": {"size_cap": CAP, "coordination": "shared", **retention},
    }


class Shared:
    """Stores on one disk, without threads."""

    def __init__(self) -> None:
        self.disk, self.clock = MemoryDisk(), ManualClock()
        noise = np.random.default_rng(1).integers(0, 1 << 62, BUNDLE // 8)
        self.bundle = {"events": pa.record_batch({"n": pa.array(noise)})}

    def open(self, core: int | None = None, **retention: Any) -> quiver.Store:
        return quiver.open(
            "memory",
            slots=["events"],
            config=options(**retention),
            core=core,
            disk=self.disk,
            clock=self.clock,
            worker=False,
        )

    def fill(self, store: quiver.Store, count: int = 1000) -> int:
        """Append until it is refused; give how many bundles that were."""
        for number in range(count):
            try:
                store.append(self.bundle)
            except quiver.CapacityError:
                self.check()
                return number
        self.check()
        return count

    def used(self) -> int:
        return sum(core_bytes(self.disk, number) for number in core_numbers(self.disk))

    def check(self) -> None:
        """A segment more for each core that finalizes is what may be too much."""
        assert self.used() <= CAP + len(core_numbers(self.disk)) * (TARGET + TARGET // 4)

    def drain(self, store: quiver.Store, name: str = "reader") -> int:
        subscription, count = store.subscribe(name), 0
        while (handle := subscription.poll()) is not None:
            handle.ack()
            count += 1
        return count


def dropped(store: quiver.Store) -> int:
    found = store.metrics().items()
    return sum(count for (name, _), count in found if name == "quiver.segment.dropped")


@pytest.fixture
def shared() -> Shared:
    return Shared()


def test_a_hot_core_gets_nearly_all_of_the_cap(shared: Shared) -> None:
    hot, *idle = [shared.open() for _ in range(4)]
    for store in idle:
        store.maintain()
    shared.fill(hot)
    assert core_bytes(shared.disk, 0) > CAP // 2
    assert shared.used() > 0.9 * CAP
    assert [shared.fill(store) for store in idle] == [0, 0, 0]


def test_what_all_have_on_an_idle_core_goes_for_a_hot_one(shared: Shared) -> None:
    idle, hot = (shared.open(steady_state_headroom=CAP) for _ in range(2))
    idle.subscribe("reader")
    assert shared.fill(idle, 24) == 24
    idle.finalize()
    shared.drain(idle)
    assert idle.maintain() == 0
    hot.maintain()
    before = shared.fill(hot)
    assert before > 0
    assert idle.maintain() > 0
    hot.maintain()
    assert shared.fill(hot) > 12


def test_the_oldest_is_dropped_only_after_others_were_asked(shared: Shared) -> None:
    idle = shared.open(steady_state_headroom=CAP)
    hot = shared.open(size_cap_policy="drop_oldest")
    idle.subscribe("reader")
    shared.fill(idle, 24)
    idle.finalize()
    shared.drain(idle)
    idle.maintain()
    hot.maintain()
    shared.fill(hot)
    assert dropped(hot) == 0
    idle.maintain()
    hot.maintain()
    assert shared.fill(hot, 12) == 12
    assert dropped(hot) == 0
    for _ in range(8):
        shared.fill(hot, 20)
        hot.maintain()
        idle.maintain()
    assert dropped(hot) > 0
    assert shared.fill(hot, 50) == 50


def test_a_dead_core_is_adopted_for_its_room(shared: Shared) -> None:
    dead = shared.open()
    dead.subscribe("reader")
    shared.fill(dead, 24)
    dead.finalize()
    consumer = quiver.subscribe(
        "memory", "reader", disk=shared.disk, clock=shared.clock, worker=False
    )
    while (handle := consumer.poll()) is not None:
        handle.ack()
    consumer.close()
    dead.maintain()
    dead._core.held.release()
    dead._closed = True
    hot = shared.open(1)
    shared.drain(hot)
    hot.maintain()
    taken = shared.fill(hot)
    neighbours = Neighbours(hot._core)
    for _ in range(3):
        hot.maintain()
        neighbours.look()
        neighbours._thread.join(20) if neighbours._thread else None
        shared.fill(hot, 0)
    hot.maintain()
    assert core_bytes(shared.disk, 0) < 4 * TARGET
    assert taken + shared.fill(hot) > 24


def test_all_go_on_in_turn_while_subscribers_take(shared: Shared) -> None:
    stores = [shared.open() for _ in range(4)]
    for store in stores:
        store.subscribe("reader")
    taken, appended = [0] * 4, [0] * 4
    for turn in range(60):
        for number, store in enumerate(stores):
            appended[number] += shared.fill(store, 1 + (turn + number) % 9)
            store.finalize()
            taken[number] += shared.drain(store)
            store.maintain()
    assert taken == appended
    assert min(appended) > 100


def test_who_tends_a_core_without_a_cap_tells_the_others_what_is_left(shared: Shared) -> None:
    dead = shared.open(core=1)
    shared.fill(dead, 40)
    dead.finalize()
    dead.maintain()
    dead._core.held.release()  # As kill -9 does.
    dead._closed = True
    tended = quiver.open("memory", core=1, disk=shared.disk, clock=shared.clock, worker=False)
    assert shared.drain(tended) == 40
    tended.maintain()
    tended.close()
    hot = shared.open(core=0, size_cap_policy="drop_oldest")
    assert shared.fill(hot, 40) == 40
    hot.finalize()
    assert shared.drain(hot, "late") == 40
