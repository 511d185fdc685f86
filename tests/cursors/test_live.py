"""A live cursor gives what comes, in order over all partitions: it waits for who may be earlier."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cursor_kit import drain, row
from store_kit import abandon

import quiver
from quiver.cursors.live import Waits
from quiver.cursors.partition import Partition
from quiver.testing import ManualClock


def put(store: quiver.Store, *times: int) -> None:
    for time in times:
        store.append(row(time), time=time)


def test_an_idle_partition_is_waited_for_until_its_heartbeat(opener, path) -> None:
    busy, idle = opener(0), opener(1)
    put(idle, 1)
    put(busy, 2, 5, 9)
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 1)]
        idle.heartbeat(5)
        assert drain(cursor) == [(2, 0), (5, 0)]
        put(idle, 7)
        assert drain(cursor) == [(7, 1)]
        idle.heartbeat(9)
        assert drain(cursor) == [(9, 0)]


def test_equal_times_come_in_order_of_partitions(opener, path) -> None:
    first, second = opener(0), opener(1)
    put(first, 5)
    put(second, 5)
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(5, 0)]  # Another 5 of partition 0 would come before that of 1.
        put(first, 5)
        assert drain(cursor) == [(5, 0)]
        first.heartbeat(5)
        assert drain(cursor) == [(5, 1)]


def test_with_allow_late_nobody_is_waited_for(opener, path) -> None:
    busy, idle = opener(0), opener(1)
    put(idle, 1)
    put(busy, 2, 5)
    with quiver.cursor(path, live=True, allow_late=True) as cursor:
        assert drain(cursor) == [(1, 1), (2, 0), (5, 0)]
        put(idle, 3)
        assert drain(cursor) == [(3, 1)]
        position = cursor.position
    with quiver.cursor(path, position=position) as cursor:
        assert drain(cursor) == []


def test_a_partition_that_nobody_writes_holds_nobody_up(opener, path) -> None:
    busy, gone = opener(0), opener(1)
    put(gone, 1)
    put(busy, 2, 5)
    gone.close()
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 1), (2, 0), (5, 0)]


def test_a_partition_of_a_killed_writer_holds_up_until_it_is_adopted(opener, path) -> None:
    busy, killed = opener(0), opener(1)
    put(killed, 1)
    put(busy, 2, 5)
    abandon(killed)
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 1)]
        quiver.adopt(path)
        assert drain(cursor) == [(2, 0), (5, 0)]


def test_what_comes_too_late_is_told_once_and_then_given(opener, path) -> None:
    busy, gone = opener(0), opener(1)
    put(gone, 1)
    gone.close()
    put(busy, 2, 9)
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 1), (2, 0), (9, 0)]
        late = opener(1)
        put(late, 4)
        with pytest.raises(quiver.OutOfSequenceError) as raised:
            cursor.poll()
        assert (raised.value.partition, raised.value.last, raised.value.given) == (1, 9, 4)
        assert drain(cursor) == [(4, 1)]


def test_r8_a_partition_joins_with_its_first_bundle(opener, path) -> None:
    busy = opener(0)
    put(busy, 1)
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 0)]
        new = opener(1)
        put(busy, 2)
        assert drain(cursor) == [(2, 0)]
        put(new, 3)
        put(busy, 4)
        assert drain(cursor) == [(3, 1)]
        new.close()
        assert drain(cursor) == [(4, 0)]
        assert cursor.partitions == (0, 1)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_partitions_that_follow_the_clock_are_refused(opener, path, moment) -> None:
    store = opener(0)
    put(store, 1)
    other = opener(1, rule="clock")
    if moment == "before":
        other.append(row(1))
        with pytest.raises(quiver.InputError, match="follows the clock"):
            quiver.cursor(path, live=True)
        return
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 0)]
        other.append(row(1))
        with pytest.raises(quiver.InputError, match="follows the clock"):
            cursor.poll()


def test_a_partition_that_begins_to_follow_the_clock_is_refused(opener, path) -> None:
    store = opener(0)
    put(store, 1)
    store.close()
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 0)]
        opener(0, rule="clock").append(row(2))
        with pytest.raises(quiver.InputError, match="follows the clock"):
            cursor.poll()


def test_a_wait_ends_with_the_next_message_or_with_its_time(opener, path) -> None:
    store = opener(0)
    put(store, 1)
    with quiver.cursor(path, live=True, start=2) as cursor:
        with pytest.raises(quiver.WaitTimeoutError):
            cursor.next(timeout="1ms")
        thread = threading.Thread(target=put, args=(store, 3))
        thread.start()
        found = cursor.next()
        thread.join()
        assert found is not None
        assert found.time_ns == 3


def test_a_cursor_of_an_open_store_reads_on_its_disk(opener, clock: ManualClock) -> None:
    store = opener(0, rule="writer")
    store.append(row(1))
    with store.cursor(live=True) as cursor:
        assert [m.time_ns for m in iter(cursor.poll, None)] == [1000]
        store.finalize()
        clock.step("1s")
        store.append(row(2))
        assert [m.time_ns for m in iter(cursor.poll, None)] == [1000 + 10**9]


class Busy:
    """Some writers that append, send heartbeats, finalize, close, die and come again, by lot.

    They share a clock that only rises, as writers on one machine do.
    """

    def __init__(self, opener: Any, path: Path, clock: ManualClock, seed: int) -> None:
        self.opener, self.path, self.clock = opener, path, clock
        self.lot = random.Random(seed)
        self.stores: dict[int, quiver.Store] = {}
        self.appended: list[tuple[int, int]] = []

    def act(self) -> None:
        self.clock.step(self.lot.choice(["1ms", "1us"]))
        core = self.lot.randrange(3)
        if core not in self.stores:
            self.stores[core] = self.opener(core, rule="writer")
        store = self.stores[core]
        match self.lot.randrange(12):
            case 0:
                self.stores.pop(core).close()
            case 1:
                abandon(self.stores.pop(core))
            case 2:
                store.finalize()
            case 3 | 4:
                store.heartbeat()
            case _:
                store.append(row(len(self.appended)))
                last_ns = store._core.times.last_ns
                assert last_ns is not None
                self.appended.append((last_ns, core))

    def rest(self) -> None:
        for store in self.stores.values():
            store.close()
        self.stores.clear()
        quiver.adopt(self.path)


@pytest.fixture
def live_on(opener, path, clock, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lead such a life beside cursors; writers act between any two looks of these, too."""
    honest = Partition.look

    def lead(seed: int) -> None:
        busy = Busy(opener, path, clock, seed)

        def look(partition: Partition) -> None:
            honest(partition)
            if busy.lot.random() < 0.5:
                busy.act()

        monkeypatch.setattr(Partition, "look", look)
        live_beside(busy, path)

    return lead


def live_beside(busy: Busy, path: Path) -> None:
    busy.act()
    while not busy.appended:
        busy.act()
    found: list[tuple[int, int]] = []
    position: dict[int, tuple[int, int]] = {}
    for _ in range(6):
        with quiver.cursor(path, live=True, position=position) as cursor:
            for _ in range(12):
                busy.act()
                if busy.lot.random() < 0.6:
                    found += drain_some(cursor, busy.lot.randrange(4))
            position = cursor.position
    busy.rest()
    busy.act = lambda: None  # type: ignore[method-assign]
    with quiver.cursor(path, live=True, position=position) as cursor:
        found += drain_some(cursor, 10_000)
    assert sorted(found) == sorted(busy.appended)
    assert found == sorted(found)


def drain_some(cursor: quiver.Cursor, count: int) -> list[tuple[int, int]]:
    found = []
    while len(found) < count and (message := cursor.poll()) is not None:
        found.append((message.time_ns, message.partition))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_whatever_writers_do_all_comes_once_and_in_order(live_on, seed) -> None:
    live_on(seed)


@pytest.mark.parametrize("name", ["allows", "look_once_more"])
def test_a_cursor_that_does_not_wait_is_found_out(
    live_on, name, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Waits, name, lambda *_: True)
    with pytest.raises((AssertionError, quiver.OutOfSequenceError)):
        for seed in range(12):
            live_on(seed)


def begin_in_between(cursor: quiver.Cursor, act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something behind the logs of a round, once."""
    waits = cursor._waits
    assert waits is not None
    honest, done = waits.look_once_more, []

    def look_once_more() -> bool:
        if not done:
            done.append(1)
            act()
        return honest()

    monkeypatch.setattr(waits, "look_once_more", look_once_more)


def test_who_begins_while_a_round_looks_is_not_overtaken(
    opener, path, clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, gone = opener(0, rule="writer"), opener(1, rule="writer")
    gone.append(row(0))
    gone.close()
    clock.step("1s")
    with quiver.cursor(path, live=True) as cursor:
        again = opener(1, rule="writer")

        def begin() -> None:
            again.append(row(1))
            clock.step("1s")
            busy.append(row(2))

        busy.append(row(3))
        begin_in_between(cursor, begin, monkeypatch)
        found = [drain_some(cursor, 1) for _ in range(9)]
        again.close()
        assert [core for one in [*found, drain_some(cursor, 9)] for _, core in one] == [1, 0, 1, 0]
