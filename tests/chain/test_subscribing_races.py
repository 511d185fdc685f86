"""What an interrupt, another thread or another process may leave of a subscriber: nothing wrong."""

from __future__ import annotations

import threading

import pytest
from cluster_kit import running
from numbers_kit import PATIENCE, QUICK, load, number_of, take
from strikes import interrupt_once

from quiver.chain import SubscriberRules
from quiver.chain.cluster import Cluster
from quiver.chain.metadata import BucketMetadata
from quiver.chain.record.changes import Claim, Following, claimed, committed
from quiver.chain.sealing import Sealed
from quiver.chain.subscribing import blocks, known, log
from quiver.chain.subscribing.blocks import Blocks
from quiver.errors import MissingError, WaitTimeoutError
from quiver.ship.objects import MemoryBucket


@pytest.fixture
def cluster(tmp_path):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        yield cluster


@pytest.fixture
def sends(monkeypatch):
    """Have what is sent as a subscriber's record be followed by something else, once."""

    def then(subscription, act):
        loader = subscription._log._loader
        send = loader.send

        def sent(*args, **named):
            monkeypatch.setattr(loader, "send", send)
            receipt = send(*args, **named)
            act()
            return receipt

        monkeypatch.setattr(loader, "send", sent)

    return then


def interrupt():
    raise KeyboardInterrupt


def rows_of(run) -> list[int]:
    return [bundle["events"]["n"][0].as_py() for bundle in run]


def test_a_run_is_of_the_block_that_it_is_read_from(cluster):
    """What comes back is of an older block than the one whose turn it was."""
    for partition, numbers in (("A", [0]), ("B", [10, 11]), ("A", [1, 2])):
        load(cluster, partition, numbers)
    with cluster.subscribe("s", ["A", "B"]) as subscription:
        held = subscription.next(PATIENCE)
        assert number_of(held) == 0
        found = take(subscription, 1)
        held.defer()
        while len(found) < 5:
            with subscription.next_run(10, timeout=PATIENCE) as run:
                found += rows_of(run)
        assert sorted(found) == [0, 1, 2, 10, 11]


def test_a_block_that_is_taken_as_an_interrupt_comes_is_taken_once(cluster, sends):
    load(cluster, "A", range(3))
    with cluster.subscribe("s") as subscription:
        sends(subscription, interrupt)
        with pytest.raises(KeyboardInterrupt):
            while subscription.poll() is None:
                pass
        assert take(subscription, 2) == [0, 1]
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 1) == [2]
    assert [each.block_count for each in cluster.purge_acked()] == [1]


@pytest.mark.parametrize("outcome", ["ack", "nack", "reject"])
def test_an_outcome_that_is_written_as_an_interrupt_comes_counts(cluster, sends, outcome):
    load(cluster, "A", range(2))
    with cluster.subscribe("s") as subscription:
        handle = subscription.next(PATIENCE)
        sends(subscription, interrupt)
        arguments = {"reject": ("odd",), "nack": ("1h",), "ack": ()}[outcome]
        with pytest.raises(KeyboardInterrupt):
            getattr(handle, outcome)(*arguments)
        handle.defer()
        assert take(subscription, 1) == [1]
        assert subscription.next(0) is None
    with cluster.subscribe("s") as subscription:
        assert len(subscription.dead_letters()) == (outcome == "reject")
        assert subscription.next(0) is None
        (mark,) = cluster.subscribers()[0].marks
        assert mark.open_count == (outcome == "nack")


def forget_what_broke_off(subscription) -> None:
    subscription._log._is_torn = False
    subscription._log._left.clear()


def test_what_was_written_twice_before_is_read(cluster, sends):
    """As by versions that went on behind an interrupt as if nothing were written."""
    load(cluster, "A", range(1))
    with cluster.subscribe("s") as subscription:
        sends(subscription, interrupt)
        with pytest.raises(KeyboardInterrupt):
            subscription.next(PATIENCE)
        forget_what_broke_off(subscription)
        handle = subscription.next(PATIENCE)
        sends(subscription, interrupt)
        with pytest.raises(KeyboardInterrupt):
            handle.ack()
        forget_what_broke_off(subscription)
        handle.defer()
        assert take(subscription, 1) == [0]
    with cluster.subscribe("s") as subscription:
        assert subscription.next(0) is None


def test_an_interrupt_on_the_way_into_a_call_leaves_no_lock_taken(cluster):
    class Torn(threading.Condition):
        def __enter__(self):
            super().__enter__()
            raise KeyboardInterrupt

    load(cluster, "A", range(3))
    subscription = cluster.subscribe("s")
    subscription._changed = Torn(subscription._lock)
    subscription.next(PATIENCE).defer()
    subscription.next(PATIENCE).nack(retry_after=0)
    take(subscription, 3)
    assert subscription.next(0) is None
    subscription.close()


@pytest.mark.parametrize("what", ["renamed", "new"])
def test_whoever_comes_while_all_are_asked_is_asked_too(cluster, monkeypatch, what):
    load(cluster, "A", range(5))
    with cluster.subscribe("fast") as subscription:
        assert take(subscription, 5) == list(range(5))
    if what == "renamed":
        cluster.subscribe("slow").close()
    names = known._names

    def listed(reach):
        found = names(reach)
        monkeypatch.setattr(known, "_names", names)
        if what == "renamed":
            cluster.rename("slow", "slower")
        else:
            cluster.subscribe("slower").close()
        return found

    monkeypatch.setattr(known, "_names", listed)
    assert [each.held_by for each in cluster.purge_acked()] == ["slower"]
    with cluster.subscribe("slower") as subscription:
        assert take(subscription, 5) == list(range(5))


def test_what_is_purged_while_a_subscriber_begins_was_never_its_own(cluster, monkeypatch):
    load(cluster, "A", range(3))
    with cluster.subscribe("fast") as subscription:
        assert take(subscription, 3) == [0, 1, 2]
    load(cluster, "A", [3])
    begin = log.AckLog.begin

    def purge(self, marks):
        monkeypatch.setattr(log.AckLog, "begin", begin)
        assert [each.block_count for each in cluster.purge_acked()] == [1]
        begin(self, marks)

    names = known._names
    monkeypatch.setattr(known, "_names", lambda reach: [n for n in names(reach) if n != "late"])
    monkeypatch.setattr(log.AckLog, "begin", purge)
    with cluster.subscribe("late") as subscription:
        assert take(subscription, 1) == [3]


def test_a_subscriber_that_does_not_close_has_its_name_no_more(cluster, monkeypatch):
    load(cluster, "A", range(1))
    subscription = cluster.subscribe("s", rules=SubscriberRules(waits=False))
    loader = subscription._log._loader

    def late(_):
        raise WaitTimeoutError("not in time")

    monkeypatch.setattr(loader, "close", late)
    with pytest.raises(WaitTimeoutError):
        subscription.close()
    assert loader._driver._is_over
    assert subscription.closed


def test_marks_that_are_purged_while_they_are_read_are_read_again(cluster, monkeypatch):
    load(cluster, "A", range(30))
    first = cluster.subscribe("s", rules=SubscriberRules(soft_bytes=1_500))
    tidy, first._log.tidy = first._log.tidy, lambda: None
    assert take(first, 29) == list(range(29))
    replayed = log._replayed

    def purged(messages, until):
        def given():
            yield next(messages)
            monkeypatch.setattr(log, "_replayed", replayed)
            tidy()
            yield from messages

        return replayed(given(), until)

    monkeypatch.setattr(log, "_replayed", purged)
    with cluster.subscribe("s") as second:
        assert take(second, 1) == [29]
    assert log._replayed is replayed
    first.abandon()


def test_two_threads_may_take_back_what_was_lost(cluster):
    load(cluster, "A", range(1))
    with cluster.subscribe("s") as subscription:

        class Faster(list):
            def __getitem__(self, at):
                self.clear()  # By another thread, once this one saw that there is something.
                return super().__getitem__(at)

        handle = subscription.next(PATIENCE)
        subscription._lost = Faster([None])
        assert subscription.poll() is None
        subscription._lost = [handle._delivery]
        defer = subscription.defer

        def faster(given):
            defer(given)
            subscription._lost.clear()

        subscription.defer = faster
        again = subscription.poll()
        assert number_of(again) == 0
        del subscription.defer
        handle.defer()
        again.ack()


def test_what_was_lost_comes_though_an_interrupt_came_into_taking_it_back(cluster, monkeypatch):
    load(cluster, "A", range(1))
    with cluster.subscribe("s") as subscription:
        handle = subscription.next(PATIENCE)
        subscription.defer_later(handle._delivery)
        interrupt_once(monkeypatch, subscription, "defer", behind=False)
        with pytest.raises(KeyboardInterrupt):
            subscription.poll()
        assert take(subscription, 1) == [0]
        handle.defer()


def test_a_page_with_purged_blocks_is_read_behind_them(monkeypatch):
    cluster = Cluster(BucketMetadata(MemoryBucket()))
    reach = cluster._reach()
    partition = reach.partition("A")
    partition.create(2)
    for number in range(300):
        by = f"w{number}"
        record = partition.change(lambda kept, by=by: claimed(kept, by, takes_over=True))
        sealed = None
        if record.open is not None:
            sealed = Sealed(100, number, 10 * number + 1, 10 * number + 5, ("a", "b"))
        claim, following = Claim(record.epoch, by), Following(by, ("a", "b"))
        partition.change(
            lambda kept, claim=claim, sealed=sealed, following=following: committed(
                kept, claim, sealed, following=following
            )
        )
    assert partition.read().pages
    partition.purge(10 * 50)
    below = partition.read().purged_below
    assert below > 0
    with pytest.raises(MissingError):
        partition.block(partition.read(), below - 1)
    monkeypatch.setattr(blocks, "is_ready", lambda _: True)
    assert Blocks(reach).next("A", 0)[1].number == below
