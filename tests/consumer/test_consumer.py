"""A subscriber in another process: what it takes, what it commits, what the store makes of it."""

from __future__ import annotations

import pytest
from beside_kit import Beside, peek, take
from store_kit import bundle

import quiver


def test_what_was_committed_is_deleted_by_the_next_tick(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3, 2)
    consumer = beside.subscribe()
    assert take(consumer) == [0, 1, 2, 3, 4]
    assert store.maintain() == 0
    consumer.commit()
    assert store.maintain() == 2
    consumer.refresh()
    assert consumer.lags()[0].bundle_count == 0


def test_what_was_not_committed_comes_again(beside: Beside) -> None:
    beside.fill(beside.open(), 4)
    first = beside.subscribe()
    first.poll().ack()
    first.commit()
    first.poll().ack()
    assert take(beside.subscribe()) == [1, 2, 3]


def test_closing_commits(beside: Beside) -> None:
    beside.fill(beside.open(), 4)
    with beside.subscribe() as consumer:
        consumer.poll_run(3).ack()
    assert take(beside.subscribe()) == [3]


def test_segments_that_come_later_are_seen_at_a_refresh(beside: Beside) -> None:
    store = beside.open()
    consumer = beside.subscribe()
    assert consumer.poll() is None
    beside.fill(store, 2)
    assert consumer.poll() is None
    consumer.refresh()
    assert take(consumer) == [0, 1]


def test_without_a_writer_the_next_opening_folds_it_in(beside: Beside) -> None:
    with beside.open() as store:
        beside.fill(store, 2, 2)
    consumer = beside.subscribe()
    first = consumer.poll()
    consumer.poll_run(9).ack()
    first.defer()
    consumer.commit()
    store = beside.open()
    assert store.lag("reader").bundle_count == 3
    assert peek(store.subscribe("reader")) == [0, 2, 3]


def test_folding_in_twice_is_folding_in_once(beside: Beside) -> None:
    store = beside.open(subscriber={"max_attempts": 0})
    beside.fill(store, 5)
    consumer = beside.subscribe()
    consumer.poll().ack()
    consumer.poll().nack("1h")
    consumer.poll().reject("bad")
    consumer.commit()
    store.maintain()
    lag, size = store.lag("reader"), store.info().acks_bytes
    assert (lag.bundle_count, lag.waiting_count, lag.dead_letter_count) == (3, 1, 1)
    for _ in range(3):
        store.maintain()
    assert (store.lag("reader"), store.info().acks_bytes) == (lag, size)
    beside.die(store)
    store = beside.open()
    assert store.lag("reader").dead_letter_count == 1
    assert store.info().acks_bytes == size


def test_a_nack_keeps_its_time_and_its_attempt_on_both_sides(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 1)
    consumer = beside.subscribe()
    consumer.poll().nack("1h")
    consumer.commit()
    consumer = beside.subscribe()
    assert consumer.poll() is None
    beside.clock.step("61m")
    handle = consumer.poll()
    assert handle.attempt == 2
    handle.nack("1h")
    consumer.close()
    store.maintain()
    subscription = store.subscribe("reader")
    assert subscription.poll() is None
    beside.clock.step("61m")
    handle = subscription.poll()
    assert handle.attempt == 3
    handle.ack()


def test_of_two_with_one_name_the_later_goes_on(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    first = beside.subscribe()
    first.poll().ack()
    first.commit()
    held = first.poll()
    second = beside.subscribe()
    with pytest.raises(quiver.SubscriberError, match="another process"):
        first.refresh()
    for act in (held.ack, first.poll, first.commit, first.lags):
        with pytest.raises(quiver.SubscriberError, match="another process"):
            act()
    assert take(second) == [1, 2]
    first.close()
    second.close()
    assert store.maintain() == 1
    held._outcome = "over"


def test_a_commit_finds_out_by_itself_that_another_one_goes_on(beside: Beside) -> None:
    beside.fill(beside.open(), 3)
    first = beside.subscribe()
    first.poll().ack()
    beside.subscribe()
    with pytest.raises(quiver.SubscriberError, match="another process"):
        first.commit()


def test_bad_options_take_nobodys_place(beside: Beside) -> None:
    beside.fill(beside.open(), 3)
    consumer = beside.subscribe()
    bad = [
        {"slots": ["none"]},
        {"order": "sideways"},
        {"prefetch": -1},
        {"start": "soon"},
        {"core": 7},
        {"commit_interval": "soon"},
    ]
    for options in bad:
        with pytest.raises(quiver.InputError):
            beside.subscribe(**options)
    consumer.poll().ack()
    consumer.commit()
    assert take(consumer) == [1, 2]


def test_a_subscription_of_the_store_ends_when_a_consumer_comes(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    subscription = store.subscribe("reader", prefetch=2)
    handle = subscription.poll()
    consumer = beside.subscribe()
    store.maintain()
    with pytest.raises(quiver.SubscriberError, match="another process"):
        handle.ack()
    with pytest.raises(quiver.SubscriberError, match="another process"):
        subscription.poll()
    assert take(consumer) == [0, 1, 2]
    consumer.commit()
    assert store.maintain() == 1
    handle._outcome = "over"


def test_a_consumer_ends_when_the_store_subscribes(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    consumer = beside.subscribe()
    consumer.poll().ack()
    consumer.commit()
    consumer.poll().ack()
    subscription = store.subscribe("reader")
    with pytest.raises(quiver.SubscriberError, match="another process"):
        consumer.commit()
    assert take(subscription) == [1, 2, 3]
    assert store.maintain() == 1
    again = store.subscribe("reader")
    beside.fill(store, 1)
    assert take(again) == [4]


def test_they_take_turns_and_nothing_committed_is_forgotten(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 12)
    expected = list(range(12))
    for _ in range(6):
        consumer = beside.subscribe()
        assert peek(consumer) == expected
        consumer.poll().ack()
        consumer.close()
        subscription = store.subscribe("reader")
        assert peek(subscription) == expected[1:]
        subscription.poll().ack()
        expected = expected[2:]
        assert store.maintain() == (not expected)


@pytest.mark.parametrize("act", ["unsubscribe", "reset", "rename"])
def test_a_consumer_whose_subscriber_goes_is_told(beside: Beside, act: str) -> None:
    store = beside.open()
    beside.fill(store, 3)
    consumer = beside.subscribe()
    consumer.poll().ack()
    consumer.commit()
    store.maintain()
    getattr(store, act)("reader", *(["other"] if act == "rename" else []))
    consumer.poll().ack()
    with pytest.raises(quiver.SubscriberError, match="removed, renamed or reset"):
        consumer.commit()
    store.maintain()
    names = {"unsubscribe": (), "reset": ("reader",), "rename": ("other",)}[act]
    assert store.info().subscribers == names
    for name in names:
        assert store.lag(name).bundle_count == (3 if act == "reset" else 2)


@pytest.mark.parametrize("act", ["unsubscribe", "reset"])
def test_who_was_removed_cannot_write_over_who_came_since(beside: Beside, act: str) -> None:
    store = beside.open()
    beside.fill(store, 3)
    old = beside.subscribe()
    old.poll().ack()
    old.commit()
    store.maintain()
    getattr(store, act)("reader")
    beside.clock.step("1s")
    new = beside.subscribe()
    assert take(new) == [0, 1, 2]
    new.commit()
    old.poll().ack()
    with pytest.raises(quiver.SubscriberError, match="another process"):
        old.commit()
    assert store.maintain() == 1


def test_who_was_never_folded_in_cannot_write_over_who_came_since(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    old = beside.subscribe()
    store.maintain()
    store.unsubscribe("reader")
    beside.clock.step("1s")
    beside.subscribe()
    old.poll().ack()
    with pytest.raises(quiver.SubscriberError, match="another process"):
        old.commit()


def test_a_handle_that_was_lost_is_given_back_by_a_commit(beside: Beside) -> None:
    beside.fill(beside.open(), 1)
    consumer = beside.subscribe()
    handle = consumer.poll()
    with pytest.warns(ResourceWarning, match="lost without an outcome"):
        del handle
    assert consumer.is_dirty
    before = consumer._change_count
    consumer.commit()
    assert consumer._change_count > before
    assert not consumer.is_dirty
    assert take(consumer) == [0]


def test_a_retry_in_the_far_future_can_be_committed(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)
    consumer = beside.subscribe()
    consumer.poll().nack("99999999999999d")
    consumer.poll().ack()
    consumer.commit()
    store.maintain()
    assert store.lag("reader").waiting_count == 1


def test_any_reason_can_be_committed(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)
    consumer = beside.subscribe()
    consumer.poll().reject("\udc80\ud800" + "\u00e4" * 500)
    consumer.poll().ack()
    consumer.commit()
    assert store.maintain() == 1
    assert store.lag("reader").dead_letter_count == 1


def test_a_commit_that_the_disk_refuses_may_be_repeated(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    consumer = beside.subscribe()
    for kind in ("Write", "Sync", "Rename", "SyncDir"):
        handle = consumer.poll()
        if handle is not None:
            handle.ack()
        consumer._followers[0].gathered.is_dirty = True
        beside.disk.fail(lambda act, kind=kind: type(act).__name__ == kind)
        with pytest.raises(quiver.StorageError):
            consumer.commit()
        beside.disk.heal()
        assert consumer.is_dirty
        consumer.commit()
    assert store.maintain() == 1


def test_a_run_is_read_as_a_table(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    run = beside.subscribe().poll_run(3)
    assert run.table("events").column("n").to_pylist() == [0, None, 1, None, 2, None]
    assert [dict(each).keys() for each in run] == [bundle(n).keys() for n in range(3)]
    run.defer()


def test_all_cores_are_taken_from_in_turn(beside: Beside) -> None:
    for core in range(3):
        with quiver.open(
            "memory", slots=["events"], core=core, disk=beside.disk, worker=False
        ) as store:
            for n in range(2):
                store.append({"events": bundle(10 * core + n)["events"]})
    consumer = beside.subscribe()
    assert take(consumer) == [0, 10, 20, 1, 11, 21]
    consumer.commit()
    assert take(beside.subscribe()) == []
