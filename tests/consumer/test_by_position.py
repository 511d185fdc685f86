"""Acks of everything before a position: for who reads on and does not hold bundles in hands."""

from __future__ import annotations

import pytest
from beside_kit import Beside, peek, take

from quiver.engine.start import Position
from quiver.errors import SubscriberError


@pytest.fixture
def beside() -> Beside:
    return Beside()


def test_all_before_a_position_is_acked_and_nothing_behind_it(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 2, 3, 1)
        consumer = beside.subscribe()
        assert consumer.positions() == {0: Position(0, 0)}
        assert consumer.ack_before({0: Position(1, 2)}) == 4
        assert consumer.positions() == {0: Position(1, 2)}
        assert consumer.ack_before({0: Position(1, 1)}) == 0
        assert peek(consumer) == [4, 5]
        store.maintain()
        assert store.info().segments == 2
        assert consumer.ack_before({0: Position(9)}) == 2
        store.maintain()
        assert store.info().segments == 0
        assert consumer.positions() == {0: Position(3, 0)}


def test_what_others_did_before_is_gone_on_from(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 2, 2)
        beside.subscribe().ack_before({0: Position(1)})
        later = beside.subscribe()
        assert later.positions() == {0: Position(1, 0)}
        store.maintain()
        assert beside.subscribe().positions() == {0: Position(1, 0)}


def test_bundles_in_hands_are_overtaken_and_new_segments_are_seen(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 2)
        consumer = beside.subscribe()
        handle = consumer.poll()
        beside.fill(store, 1)
        assert consumer.ack_before({0: Position(2)}) == 3
        handle.ack()
        assert consumer.poll() is None


def test_who_was_followed_by_another_acks_no_more(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 2, 1)
        old = beside.subscribe()
        beside.subscribe()
        with pytest.raises(SubscriberError, match="another process"):
            old.ack_before({0: Position(1)})
        store.maintain()
        assert store.info().segments == 2


def test_a_core_that_is_gone_is_passed_over(beside) -> None:
    with beside.open() as store, beside.open() as other:
        beside.fill(store, 1)
        beside.fill(other, 1)
        consumer = beside.subscribe()
        assert consumer.ack_before({0: Position(1), 7: Position(3)}) == 1
        assert consumer.positions() == {0: Position(1, 0), 1: Position(0, 0)}


def overtaken(beside: Beside, monkeypatch: pytest.MonkeyPatch, missed: int) -> None:
    """Let the next listing of segments miss one that gets its name meanwhile, but not the next."""
    listed = beside.disk.list_dir

    def miss(path: str):
        found = listed(path)
        if path.endswith("segments"):
            monkeypatch.undo()
            found = [stat for stat in found if not stat.name.startswith(f"{missed:016x}")]
        return found

    monkeypatch.setattr(beside.disk, "list_dir", miss)


def test_what_a_listing_missed_is_acked_with_what_is_behind_it(beside, monkeypatch) -> None:
    with beside.open() as store:
        consumer = beside.subscribe()
        beside.fill(store, 1, 1, 1)
        overtaken(beside, monkeypatch, 1)
        assert consumer.ack_before({0: Position(3)}) == 3
        store.maintain()
        assert store.info().segments == 0


def test_what_a_listing_missed_is_not_overtaken(beside, monkeypatch) -> None:
    with beside.open() as store:
        beside.fill(store, 1)
        consumer = beside.subscribe()
        beside.fill(store, 1, 1)
        overtaken(beside, monkeypatch, 1)
        consumer.refresh()
        assert take(consumer) == [0, 1, 2]
        consumer.commit()
        beside.fill(store, 1, 1, 1)
        store.maintain()
        overtaken(beside, monkeypatch, 4)
        assert take(beside.subscribe("late")) == [3, 4, 5]  # Where the first ones are deleted.
