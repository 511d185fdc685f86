"""Cores that nobody writes any more: what they hold reaches subscribers, and goes in time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_kit import SLOTS, abandon, bundle

import quiver
from quiver.disk import LocalDisk
from quiver.engine import neighbours
from quiver.engine.adoption import adopt_core
from quiver.engine.neighbours import Neighbours
from quiver.testing import ManualClock

Opener = Callable[..., quiver.Store]
PATIENCE = 20


def left_by_the_dead(opener: Opener, *, cores: int, bundles: int) -> None:
    """Let writers die with bundles in their logs, numbered over all cores."""
    stores = [opener() for _ in range(cores)]
    for number in range(bundles * cores):
        stores[number % cores].append(bundle(number))
    for store in stores:
        abandon(store)


def taken(consumer: quiver.Consumer) -> list[int]:
    found = []
    consumer.refresh()
    while (handle := consumer.poll()) is not None:
        with handle:
            found.append(handle["events"].column("n")[0].as_py())
    return found


def test_what_is_only_in_the_log_of_a_dead_core_reaches_subscribers(
    opener: Opener, path: Path, clock: ManualClock
) -> None:
    left_by_the_dead(opener, cores=3, bundles=2)
    with quiver.subscribe(path, "reader", worker=False, clock=clock) as consumer:
        assert taken(consumer) == []
        done = quiver.adopt(path, clock=clock)
        assert [(each.core, each.recovery.replayed_bundles) for each in done] == [
            (0, 2),
            (1, 2),
            (2, 2),
        ]
        assert [each.written_segments for each in done] == [1, 1, 1]
        assert sorted(taken(consumer)) == list(range(6))
        consumer.commit()
    assert [each.deleted_segments for each in quiver.adopt(path, clock=clock)] == [1, 1, 1]
    assert [segments(path, core) for core in range(3)] == [0, 0, 0]


def test_cores_that_are_being_written_are_passed_over(opener: Opener, path: Path) -> None:
    left_by_the_dead(opener, cores=2, bundles=1)
    store = opener(core=1)
    assert [each.core for each in quiver.adopt(path)] == [0]
    store.append(bundle(7))


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(quiver.MissingError):
        quiver.adopt(tmp_path)


def test_an_adopted_core_goes_on_where_it_was(opener: Opener, path: Path) -> None:
    left_by_the_dead(opener, cores=1, bundles=3)
    quiver.adopt(path)
    assert opener(core=0).append(bundle(3)) == 3


def test_damage_is_refused_or_told(opener: Opener, path: Path) -> None:
    left_by_the_dead(opener, cores=1, bundles=3)
    log = path / "core_0" / "wal" / "quiver.wal"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(bytes(data))
    with pytest.raises(quiver.DamageError):
        quiver.adopt(path, config={"recovery": {"policy": "strict"}})
    assert log.read_bytes() == bytes(data)
    (done,) = quiver.adopt(path)
    assert len(done.recovery.damage) == 1
    assert done.recovery.replayed_bundles == 2


def test_a_headroom_or_a_cap_of_who_adopts_is_none_of_the_dead(
    opener: Opener, path: Path, clock: ManualClock
) -> None:
    left_by_the_dead(opener, cores=1, bundles=2)
    config = quiver.Config.of(
        {
            "wal": {"max_size": 1 << 20},
            "limits": {"entry_bytes": 1 << 20},
            "segment": {"target_size": 1 << 20},
            "retention": {"size_cap": 4 << 20, "size_cap_policy": "drop_oldest"},
        }
    )
    adopt_core(LocalDisk(path), 0, config=config, clock=clock)
    assert quiver.scan(path, slot="events").to_table().num_rows == 4


# the worker of a neighbour ---------------------------------------------------------------------


@pytest.fixture
def around(opener: Opener, clock: ManualClock) -> Any:
    """The neighbours of core 0, which a test ticks by hand."""

    class Around:
        def __init__(self) -> None:
            self.store = opener(core=0)
            self.neighbours = Neighbours(self.store._core)

        def look(self, *, after: float = 0) -> None:
            """Look at each of the others, and wait for what that begins."""
            clock.step(after)
            for _ in range(4):
                self.neighbours.look()
                if self.neighbours._thread is not None:
                    self.neighbours._thread.join(PATIENCE)
                    assert not self.neighbours._thread.is_alive()

    return Around()


def segments(path: Path, core: int) -> int:
    return len(list((path / f"core_{core}" / "segments").iterdir()))


def test_a_neighbour_that_stays_dead_is_adopted(opener: Opener, path: Path, around: Any) -> None:
    dead = [opener(core=1), opener(core=2)]
    for number, store in enumerate(dead):
        store.append(bundle(number))
    around.look(after=100)
    assert (segments(path, 1), segments(path, 2)) == (0, 0)
    for store in dead:
        abandon(store)
    around.look()
    assert (segments(path, 1), segments(path, 2)) == (0, 0)
    around.look(after=4)
    assert (segments(path, 1), segments(path, 2)) == (0, 0)
    around.look(after=2)
    assert (segments(path, 1), segments(path, 2)) == (1, 1)


def test_one_that_came_back_meanwhile_is_left_alone(
    opener: Opener, path: Path, around: Any
) -> None:
    store = opener(core=1)
    store.append(bundle(0))
    abandon(store)
    around.look()
    back = opener(core=1)
    around.look(after=10)
    abandon(back)
    around.look(after=1)
    assert segments(path, 1) == 0
    around.look(after=6)
    assert segments(path, 1) == 1


def test_it_is_adopted_again_only_once_something_changed(
    opener: Opener, path: Path, clock: ManualClock, around: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="quiver.engine")
    store = opener(core=1)
    store.append(bundle(0))
    abandon(store)
    for _ in range(5):
        around.look(after=10)
    assert [r.message for r in caplog.records if r.message.startswith("core.")] == ["core.adopted"]
    with quiver.subscribe(path, "reader", core=1, worker=False, clock=clock) as consumer:
        assert taken(consumer) == [0]
    for _ in range(5):
        around.look(after=10)
    assert [r.message for r in caplog.records if r.message.startswith("core.")] == [
        "core.adopted"
    ] * 2
    assert segments(path, 1) == 0


def test_what_grows_too_old_in_a_dead_core_goes(
    opener: Opener, path: Path, clock: ManualClock
) -> None:
    config = {"retention": {"max_retain_after_ingestion_hours": 72}}
    dead = opener(config, core=1)
    dead.append(bundle(0))
    abandon(dead)
    neighbours_of = Neighbours(opener(config, core=0)._core)
    hours = 0
    while hours < 71:
        clock.step("1h")
        hours += 1
        neighbours_of.look()
        if neighbours_of._thread is not None:
            neighbours_of._thread.join(PATIENCE)
    assert segments(path, 1) == 1
    while hours < 72 + 72 // 8:
        clock.step("1h")
        hours += 1
        neighbours_of.look()
        assert neighbours_of._thread is not None
        neighbours_of._thread.join(PATIENCE)
    assert segments(path, 1) == 0


def test_what_an_adoption_finds_and_does_is_logged(
    opener: Opener, path: Path, around: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="quiver")
    store = opener(core=1)
    store.append(bundle(0))
    store.append(bundle(1))
    abandon(store)
    log = path / "core_1" / "wal" / "quiver.wal"
    data = bytearray(log.read_bytes())
    data[60] ^= 1
    log.write_bytes(data)
    around.look()
    around.look(after=6)
    told = {(r.message, r.core) for r in caplog.records}  # type: ignore[attr-defined]
    assert {("recovery.damage", 1), ("segment.finalized", 1), ("core.adopted", 0)} <= told


def test_who_is_short_of_room_does_not_wait(
    opener: Opener, path: Path, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener(core=1)
    store.append(bundle(0))
    abandon(store)
    monkeypatch.setattr(type(around.store._core.budget), "is_short", True)
    around.look()
    assert segments(path, 1) == 1


def test_what_fails_is_told_once(
    opener: Opener,
    around: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    abandon(opener(core=1))

    def failing(*_: object, **__: object) -> None:
        raise quiver.CapacityError("the disk is full")

    monkeypatch.setattr(neighbours, "adopt_core", failing)
    for _ in range(5):
        around.look(after=10)
    assert [r.message for r in caplog.records if r.message.startswith("core.")] == [
        "core.adopt_failed"
    ]


def test_what_fails_is_not_tried_at_each_tick_and_again_after_a_while(
    opener: Opener, path: Path, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandon(opener(core=1))
    tried = []

    def failing(*_: object, **__: object) -> None:
        tried.append(around.store._core.clock.monotonic_ns())
        (path / "core_1" / "segments" / f"{len(tried)}").touch()  # A recovery leaves its marks.
        raise quiver.CapacityError("the disk is full")

    monkeypatch.setattr(neighbours, "adopt_core", failing)
    for _ in range(20):
        around.look(after=6)
    assert [round((at - tried[0]) / 1e9) for at in tried] == [0, 60]


def test_a_core_that_is_about_to_be_made_is_none_yet(path: Path, around: Any) -> None:
    (path / "core_1").mkdir()
    around.look(after=10)
    assert list((path / "core_1").iterdir()) == []


def test_closing_breaks_off_what_was_begun(
    opener: Opener, path: Path, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opener(core=1)
    store.append(bundle(0))
    abandon(store)
    begun, go_on = threading.Event(), threading.Event()
    honest = neighbours.adopt_core

    def slow(*arguments: Any, **options: Any) -> object:
        begun.set()
        assert go_on.wait(PATIENCE)
        return honest(*arguments, **options)

    monkeypatch.setattr(neighbours, "adopt_core", slow)
    around.neighbours.look()
    around.store._core.clock.step(10)
    around.neighbours.look()
    assert begun.wait(PATIENCE)
    around.neighbours.look()  # There is one at work already.
    around.neighbours._stopping = True
    go_on.set()
    around.neighbours.stop()
    around.neighbours.look()
    assert segments(path, 1) == 0
    assert quiver.adopt(path)[0].core == 1


def test_the_worker_of_a_store_looks_around(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_GRACE_NS", 0)
    dead = quiver.open(path, slots=SLOTS, core=1, worker=False)
    dead.append(bundle(0))
    abandon(dead)
    with (
        quiver.open(path, slots=SLOTS, core=0),
        quiver.subscribe(path, "reader") as consumer,
    ):
        handle = consumer.next(PATIENCE)
        assert handle is not None
        assert handle["events"].column("n")[0].as_py() == 0
        handle.ack()
