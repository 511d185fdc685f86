"""Who starts over, gets another name or goes: no word is lost, and none counts for the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from beside_kit import FOLDER, Beside, peek

import quiver
from quiver.acks import letterbox
from quiver.acks.letterbox import holding
from quiver.disk import Lock
from quiver.testing import MemoryDisk
from quiver.testing.acts import Sync
from quiver.testing.crash_images import crash_images
from quiver.testing.recorder import Killed

Act = Callable[[quiver.Store], None]

ACTS: dict[str, Act] = {
    "reset": lambda store: store.reset("reader"),
    "rename": lambda store: store.rename("reader", "other"),
    "unsubscribe": lambda store: store.unsubscribe("reader"),
}
Standing = dict[str, tuple[int, list[int]]]
"""The id of each subscriber, and what it still gets."""

ALL = [0, 1, 2, 3, 4]
BEFORE: Standing = {"reader": (2, [3]), "third": (1, ALL)}
"""0 and 1 were acked and folded in; 2 was acked and 4 rejected, and neither is folded in yet."""

DONE: dict[str, Standing] = {
    "reset": {"reader": (3, ALL), "third": (1, ALL)},
    "rename": {"other": (2, [3]), "third": (1, ALL)},
    "unsubscribe": {"third": (1, ALL)},
}


def acked_elsewhere(beside: Beside) -> quiver.Store:
    """Give a store whose subscriber acked some in another process, which has no id for it yet."""
    store = beside.open()
    beside.fill(store, 5)
    store.subscribe("third")
    consumer = beside.subscribe()
    consumer.poll_run(2).ack()
    consumer.commit()
    asked = beside.inbox()
    assert asked.subscriber_id == 0
    store.maintain()
    consumer.poll().ack()
    skipped = consumer.poll()
    consumer.poll().reject("bad")
    skipped.defer()
    consumer.commit()
    beside.leave(beside.inbox(), subscriber_id=0)  # As it is if the store registers it just then.
    return store


def after_a_crash(disk: MemoryDisk, beside: Beside) -> Standing:
    """Open what a crash left, let it tick, open it again, and say where each subscriber is."""
    again = Beside()
    again.disk, again.clock = disk, beside.clock
    store = again.open()
    assert not store.recovery.damage
    store.maintain()
    again.die(store)
    store = again.open()
    store.maintain()
    return {
        lag.subscriber: (lag.subscriber_id, peek(store.subscribe(lag.subscriber)))
        for lag in store.lags()
    }


def cuts(beside: Beside, since: int) -> Iterator[MemoryDisk]:
    """Give what a power cut, or a kill, may leave after each act since a moment."""
    history = beside.disk.history
    points = range(since, len(history.ops) + 1)
    for image in crash_images(history, model="posix", budget=300, points=points):
        if not image.torn_apart:
            yield image.disk()


@pytest.mark.parametrize("name", ACTS)
def test_no_crash_brings_back_old_acks_or_an_old_name(beside: Beside, name: str) -> None:
    store = acked_elsewhere(beside)
    since = len(beside.disk.history.ops)
    ACTS[name](store)
    seen = [after_a_crash(disk, beside) for disk in cuts(beside, since)]
    assert [found for found in seen if found not in (BEFORE, DONE[name])] == []
    assert BEFORE in seen
    assert DONE[name] in seen
    beside.die(store)
    assert after_a_crash(beside.disk, beside) == DONE[name]


@pytest.mark.parametrize("name", [*ACTS, "subscribe"])
def test_no_inbox_is_waited_for_with_the_lock_held(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    store = beside.open()
    beside.fill(store, 1)
    beside.subscribe()
    store.maintain()
    act = ACTS.get(name, lambda store: store.subscribe("reader"))
    waits: list[tuple[bool, bool]] = []
    taken: list[Lock] = []

    def lock_within(disk: MemoryDisk, path: str, seconds: float) -> Lock:
        is_held = store._core.lock._is_owned()
        waits.append((is_held, seconds > 0))
        if is_held and len(waits) == 2:  # Somebody comes between the waiting and the act.
            taken.append(disk.lock(path))
        elif not is_held and taken:
            taken.pop().release()
        return disk.lock(path)

    monkeypatch.setattr(letterbox, "lock_within", lock_within)
    before = store.info().subscribers, store.lag("reader").subscriber_id
    with holding(beside.disk, FOLDER, "reader"):
        waits.clear()
        with pytest.raises(quiver.LockedError, match="stopped"):
            act(store)
    assert waits == [(False, True)]
    assert (store.info().subscribers, store.lag("reader").subscriber_id) == before
    waits.clear()
    act(store)
    assert set(waits) == {(False, True), (True, False)}
    assert (waits.count((False, True)), taken) == (2, [])


def test_a_name_that_somebody_asked_for_elsewhere_is_taken(beside: Beside) -> None:
    store = acked_elsewhere(beside)
    asked = beside.subscribe("other")
    asked.poll_run(2).ack()
    asked.commit()
    with pytest.raises(quiver.SubscriberError, match="already"):
        store.rename("reader", "other")
    store.maintain()
    assert [lag.bundle_count for lag in store.lags()] == [3, 1, 5]
    assert beside.inbox().dead_letters  # Nothing of it was touched.


@pytest.mark.parametrize("name", ACTS)
def test_a_full_disk_lets_a_subscriber_go(beside: Beside, name: str) -> None:
    store = acked_elsewhere(beside)
    beside.disk.fail(lambda act: "dead_letters" in act.path, error="ENOSPC", sticky=True)
    if name == "rename":  # What it gave up would have to be delivered again.
        with pytest.raises(quiver.CapacityError):
            ACTS[name](store)
        assert beside.inbox().dead_letters
        beside.disk.heal()
    ACTS[name](store)
    beside.disk.heal()
    beside.die(store)
    assert after_a_crash(beside.disk, beside) == DONE[name]


def test_what_nobody_can_believe_is_kept_when_its_subscriber_goes(beside: Beside) -> None:
    store = acked_elsewhere(beside)
    beside.put("reader", b"junk")
    store.maintain()
    store.unsubscribe("reader")
    assert store.refused_inboxes == {}
    assert len(beside.disk.list_dir("core_0/quarantine")) == 2
    assert beside.disk.stat(f"{FOLDER}/reader") is None


def test_nothing_is_destroyed_for_lack_of_room_for_a_copy(beside: Beside) -> None:
    store = acked_elsewhere(beside)
    beside.put("reader", b"junk")
    beside.disk.fail(lambda act: "quarantine" in act.path, error="ENOSPC", sticky=True)
    for act in (*ACTS.values(), lambda store: store.subscribe("reader")):
        with pytest.raises(quiver.CapacityError):
            act(store)
    assert beside.disk.stat(f"{FOLDER}/reader") is not None
    assert store.info().subscribers == ("reader", "third")


def test_an_orphan_whose_inbox_is_in_use_is_none(beside: Beside) -> None:
    store = beside.open(subscriber={"orphan_timeout": "1h"})
    beside.fill(store, 1)
    beside.subscribe()
    store.maintain()
    beside.clock.step("2h")
    with holding(beside.disk, FOLDER, "reader"):
        assert store.maintain() == 0
        assert store.info().subscribers == ("reader",)
    store.maintain()
    assert store.info().subscribers == ()


def test_who_goes_on_under_an_id_has_it_after_a_power_cut(beside: Beside) -> None:
    """A store that dies before it synced a registration leaves it for others to see."""
    store = beside.open()
    beside.fill(store, 2)
    disk = beside.disk
    disk.fail(lambda act: isinstance(act, Sync) and "ack.log" in act.path, error="kill")
    with pytest.raises(Killed):
        store.subscribe("reader")
    beside.die(store)
    disk.heal()
    consumer = beside.subscribe()
    assert beside.inbox().subscriber_id
    consumer.poll().ack()
    consumer.commit()
    history = disk.history
    seen = set()
    for image in crash_images(history, model="posix", points=[len(history.ops)]):
        if not image.torn_apart:
            again = Beside()
            again.disk = image.disk()
            seen.add(tuple(lag.bundle_count for lag in again.open().lags()))
    assert seen == {(1,)}
