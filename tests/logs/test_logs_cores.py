"""What a store says of its neighbours."""

from __future__ import annotations

import pytest
from store_kit import SLOTS, abandon, bundle

import quiver
from quiver.engine import neighbours
from quiver.engine.neighbours import Neighbours
from quiver.testing import ManualClock, MemoryDisk


def with_a_dead_neighbour(clock: ManualClock) -> quiver.Store:
    disk = MemoryDisk()
    stores = [quiver.open("m", slots=SLOTS, disk=disk, clock=clock, worker=False) for _ in range(2)]
    stores[1].append(bundle(0))
    abandon(stores[1])
    return stores[0]


def look(store: quiver.Store, clock: ManualClock) -> None:
    around = Neighbours(store._core)
    for _ in range(3):
        around.look()
        if around._thread is not None:
            around._thread.join(20)
        clock.step(10)


def test_a_core_that_was_adopted_is_told(heard) -> None:
    clock = ManualClock()
    with with_a_dead_neighbour(clock) as store:
        look(store, clock)
    (fields,) = heard.of("core.adopted")
    assert fields["other_core"] == 1
    assert fields["replayed_bundle_count"] == fields["written_segment_count"] == 1
    assert fields["deleted_segment_count"] == 0


def test_one_that_could_not_be_is_told_once(heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise quiver.CapacityError("the disk is full")

    clock = ManualClock()
    monkeypatch.setattr(neighbours, "adopt_core", failing)
    with with_a_dead_neighbour(clock) as store:
        look(store, clock)
    (fields,) = heard.of("core.adopt_failed")
    assert fields["other_core"] == 1
    assert "the disk is full" in fields["error"]
