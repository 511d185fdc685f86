"""One subscriber of several cores: where it is registered, what it gets, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from beside_kit import Beside, take
from store_kit import bundle

import quiver
from quiver.acks.letterbox import read_inbox
from quiver.consumer import lease
from quiver.engine import heirs


def fill(store: quiver.Store, *numbers: int) -> None:
    for number in numbers:
        store.append(bundle(number))
    store.finalize()


def test_cores_take_turns_and_each_keeps_its_order(beside: Beside) -> None:
    stores = [beside.open() for _ in range(3)]
    for core, store in enumerate(stores):
        fill(store, 10 * core, 10 * core + 1)
        fill(store, 10 * core + 2)
    assert take(beside.subscribe()) == [0, 10, 20, 1, 11, 21, 2, 12, 22]


def test_a_core_that_is_made_later_is_taken_from_its_beginning(beside: Beside) -> None:
    first = beside.open()
    fill(first, 0)
    consumer = beside.subscribe(start="latest")
    second = beside.open()
    fill(second, 1)
    fill(first, 2)
    consumer.refresh()
    assert sorted(take(consumer)) == [1, 2]
    consumer.commit()
    assert (first.maintain(), second.maintain()) == (2, 1)


@pytest.mark.parametrize("is_folded", [True, False])
def test_a_core_that_was_made_while_nobody_was_there_too(
    beside: Beside, *, is_folded: bool
) -> None:
    first = beside.open()
    fill(first, 0)
    beside.subscribe(start="latest").close()
    if is_folded:
        first.maintain()
    second = beside.open()
    assert second.info().subscribers == ("reader",)
    fill(second, 1)
    other = second.subscribe("other")
    assert take(other) == [1]
    assert second.maintain() == 0
    fill(first, 2)
    assert sorted(take(beside.subscribe(start="latest"))) == [1, 2]


def test_who_was_here_before_takes_a_core_that_does_not_know_it_from_its_beginning(
    beside: Beside,
) -> None:
    first, second = beside.open(), beside.open()
    fill(second, 1)
    beside.subscribe(core=0).close()
    assert take(beside.subscribe(start="latest")) == [1]
    fill(first, 0)


def test_who_subscribed_in_the_process_of_another_core_was_here_before(beside: Beside) -> None:
    first, second = beside.open(), beside.open()
    first.subscribe("reader").close()
    fill(second, 1)
    fill(first, 0)
    assert take(beside.subscribe(start="latest")) == [0, 1]


def test_who_is_not_known_anywhere_starts_where_it_says(beside: Beside) -> None:
    first, second = beside.open(), beside.open()
    fill(first, 0)
    fill(second, 1)
    consumer = beside.subscribe(start="latest")
    fill(first, 2)
    fill(second, 3)
    consumer.refresh()
    assert sorted(take(consumer)) == [2, 3]


def test_who_is_gone_is_not_inherited(beside: Beside) -> None:
    first = beside.open()
    beside.subscribe().close()
    first.maintain()
    consumer = beside.subscribe()
    first.unsubscribe("reader")
    with pytest.raises(quiver.SubscriberError):
        consumer.refresh()
    assert beside.open().info().subscribers == ()


@pytest.mark.parametrize("name", ["read_acks", "list_inbox"])
def test_who_is_folded_in_while_a_new_core_looks_is_inherited(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    first = beside.open()
    fill(first, 0)
    consumer = beside.subscribe()

    def look_and_let_the_others_go_on(*place: Any, **options: Any) -> Any:
        found = look(*place, **options)
        first.maintain()
        take(consumer)
        consumer.commit()
        return found

    look = getattr(heirs, name)
    monkeypatch.setattr(heirs, name, look_and_let_the_others_go_on)
    assert beside.open().info().subscribers == ("reader",)
    assert beside.inbox().subscriber_id


def test_a_core_that_is_made_while_a_subscriber_comes_is_taken_from_its_beginning(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, made = beside.open(), list[quiver.Store]()
    take_lease = lease.take

    def make_a_core_before(*given: Any) -> None:
        if not made:
            made.append(beside.open())
        take_lease(*given)

    monkeypatch.setattr(lease, "take", make_a_core_before)
    beside.subscribe().close()
    (second,) = made
    fill(second, 1)
    assert take(second.subscribe("other")) == [1]
    assert second.maintain() == 0
    assert take(beside.subscribe()) == [1]
    assert first.info().core == 0


def test_an_inbox_of_a_newer_version_hides_no_other(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside.open()
    for name in ("newer", "reader"):
        beside.subscribe(name).close()

    def refuse_one(disk: Any, folder: str, name: str, *, store_id: str) -> Any:
        if name == "newer":
            raise quiver.VersionError("the inbox is of format 99")
        return read_inbox(disk, folder, name, store_id=store_id)

    monkeypatch.setattr(heirs, "read_inbox", refuse_one)
    assert beside.open().info().subscribers == ("reader",)


def test_an_inbox_that_says_nonsense_is_nobodys(beside: Beside) -> None:
    beside.open()
    beside.subscribe().close()
    beside.put("reader", b"nonsense")
    assert beside.open().info().subscribers == ()
