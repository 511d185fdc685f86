"""Killed before or behind any act, with answers and acks lost: each row is in once, in order."""

from __future__ import annotations

import itertools

import pytest
from feeding_kit import NAME, Feeding, Mortal
from lossy_bucket import Faulty

from quiver.errors import RemoteError
from quiver.testing import Killed, MemoryDisk
from quiver.upsert.feeding import Trouble

ROWS = 3


def filled() -> Feeding:
    rig = Feeding()
    rig.fill(2, 2)
    return rig


def settle(rig: Feeding, name: str = NAME) -> None:
    """Feed what is left, and hold all of it against the model."""
    rig.feed(name=name, rows=ROWS)
    rig.check()
    assert rig.open_bundles(name) == 0


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_killed_at_any_act_on_the_collection(behind) -> None:
    """Who goes on is the same subscriber, or another one that has everything before it."""
    base = filled()
    with base.open() as store:
        store.subscribe("another")  # So that nothing is deleted which it has not.
    for at in itertools.count(1):
        assert at < 200
        rig = Feeding(MemoryDisk(base.disk.tree))
        rig.bundles = base.bundles
        mortal = Mortal(rig.bucket, at, behind=behind)
        try:
            rig.feed(mortal, rows=ROWS)
        except Killed:
            assert mortal.is_dead
        else:
            assert at > 10
            break
        rig.disk.forget_locks()
        settle(rig, NAME if at % 2 else "another")


def test_killed_at_any_act_on_the_disk() -> None:
    base = filled()
    for at in itertools.count():
        assert at < 300
        rig = Feeding(MemoryDisk(base.disk.tree))
        rig.bundles = base.bundles
        rig.disk.fail(at, error="kill", sticky=True)
        try:
            rig.feed(rows=ROWS)
        except Killed:
            rig.disk.heal()
            rig.disk.forget_locks()
        else:
            assert at > 3
            break
        settle(rig)


def test_killed_again_and_again_it_gets_on() -> None:
    rig = filled()
    for turn in range(30):
        mortal = Mortal(rig.bucket, 3 + turn % 9, behind=turn % 2 == 0)
        try:
            rig.feed(mortal, rows=1, name=f"life-{turn % 4}")
        except Killed:
            rig.disk.forget_locks()
        if turn % 7 == 6:
            rig.fill(1)
    settle(rig)


@pytest.mark.parametrize("fault", ["done", "missed"])
def test_lost_answers_double_and_lose_nothing(fault) -> None:
    for at in range(9):
        rig = filled()
        rig.bucket = Faulty({at: fault})
        tally = rig.feed(rows=ROWS)
        rig.check()
        assert tally.bundle_count + tally.repeated_count >= 4


def test_a_store_that_cannot_be_reached_is_tried_again_and_told_of() -> None:
    rig = filled()
    rig.feed(rows=ROWS)
    rig.fill(2)
    rig.bucket = Faulty.over(rig.bucket, dict.fromkeys(range(1, 5), "missed"))
    tally = rig.feed(rows=1)
    assert tally.bundle_count == 2
    assert any(isinstance(told, Trouble) for told in rig.told)
    rig.check()


@pytest.mark.parametrize("fault", ["missed", "refused"])
def test_it_gives_up_and_nothing_is_acked_that_is_not_in(fault) -> None:
    rig = filled()
    rig.bucket = Faulty(dict.fromkeys(range(8, 10_000), fault))
    with pytest.raises(RemoteError):
        rig.feed(rows=1)
    before = rig.open_bundles()
    assert before > 0
    rig.bucket.heal()
    settle(rig)
