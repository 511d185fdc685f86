"""Calls of a subscriber that break off: memory, log and whoever purges agree on what they did."""

from __future__ import annotations

import threading

import pytest
from cluster_kit import running
from numbers_kit import PATIENCE, QUICK, load, number_of, take
from strikes import interrupt_once

from quiver.chain import LoaderRules, SubscriberRules
from quiver.chain.subscribing.blocks import Blocks, Loaded
from quiver.chain.subscribing.log import AckLog
from quiver.chain.subscribing.marks import Lane, Marks
from quiver.chain.subscribing.records import Acked, Joined, Rejected, Taken
from quiver.config import SubscriberConfig
from quiver.errors import CapacityError, RemoteError, SubscriberError, WaitTimeoutError
from quiver.subscriber import Member
from quiver.subscriber.offers import Offers
from quiver.subscriber.progress import Progress

ONE_BLOCK = LoaderRules(rf=2)


@pytest.fixture
def cluster(tmp_path):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        yield cluster


def send_and_break_off(patch, subscription) -> None:
    """Have the next record on all copies, and its caller interrupted."""
    loader = subscription._log._loader
    send = loader.send

    def sent(*args, **named):
        patch.undo()
        send(*args, **named).wait(PATIENCE)
        raise KeyboardInterrupt

    patch.setattr(loader, "send", sent)


STEPS = [
    (Lane, "tidy", False),
    (Member, "settle", False),
    (Member, "settle", True),
    (Progress, "resolve", False),
    (Progress, "resolve", True),
    (Progress, "_close", False),
    (Progress, "_close", True),
    (Offers, "settle_taken", False),
    (Progress, "forget_segment", False),
    (Progress, "forget_segment", True),
]


@pytest.mark.parametrize("outcome", ["ack", "reject"])
@pytest.mark.parametrize(("owner", "step", "behind"), STEPS)
def test_an_outcome_that_is_half_taken_in_is_taken_in(cluster, outcome, owner, step, behind):
    load(cluster, "A", [0])
    load(cluster, "A", [1])
    with cluster.subscribe("s") as subscription:
        handle = subscription.next(PATIENCE)
        interrupt_once(pytest.MonkeyPatch(), owner, step, behind=behind)
        with pytest.raises(KeyboardInterrupt):
            getattr(handle, outcome)()
        handle.defer()
        assert take(subscription, 1) == [1]
        assert subscription.next(0) is None
        kept = subscription.dead_letters()
        assert len(kept) == (outcome == "reject")
    with cluster.subscribe("s") as subscription:
        assert subscription.dead_letters() == kept
        assert subscription.next(0) is None
    (done,) = cluster.purge_acked()
    assert done.block_count == (2 if outcome == "ack" else 0)
    assert cluster.subscribers()[0].marks[0].open_count == 0


def test_an_outcome_that_an_interrupt_came_into_may_be_given_again(cluster, monkeypatch):
    load(cluster, "A", range(3), ONE_BLOCK)
    with cluster.subscribe("s") as subscription:
        for outcome in ("ack", "reject", "nack"):
            handle = subscription.next(PATIENCE)
            step = "hold_back" if outcome == "nack" else "settle"
            interrupt_once(monkeypatch, Member, step, behind=True)
            with pytest.raises(KeyboardInterrupt):
                getattr(handle, outcome)()
            getattr(handle, outcome)()
            assert handle.resolved
        assert len(subscription.dead_letters()) == 1


def test_an_ack_that_broke_off_counts_for_who_purges_and_for_its_own_process(cluster, monkeypatch):
    load(cluster, "A", [0])
    load(cluster, "A", [1, 2])
    with cluster.subscribe("s") as subscription:
        handle = subscription.next(PATIENCE)
        send_and_break_off(monkeypatch, subscription)
        with pytest.raises(KeyboardInterrupt):
            handle.ack()
        handle.defer()
        assert [each.block_count for each in cluster.purge_acked()] == [1]
        subscription._feed._blocks._kept.clear()
        assert take(subscription, 1) == [1]
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 1) == [2]


@pytest.mark.parametrize("behind", [False, True])
def test_what_broke_off_is_written_by_a_flush(cluster, monkeypatch, behind):
    load(cluster, "A", range(2), ONE_BLOCK)
    subscription = cluster.subscribe("s", rules=SubscriberRules(waits=False))
    handle = subscription.next(PATIENCE)
    interrupt_once(monkeypatch, AckLog, "put", behind=behind)
    with pytest.raises(KeyboardInterrupt):
        handle.reject("odd")
    assert len(subscription.dead_letters()) == 1
    subscription.flush(PATIENCE)
    handle.reject("odd")
    subscription.abandon()  # As if its machine were gone.
    with cluster.subscribe("s") as subscription:
        assert len(subscription.dead_letters()) == 1
        assert take(subscription, 1) == [1]


def test_an_outcome_that_was_refused_was_not_given(cluster, monkeypatch):
    load(cluster, "A", range(2))
    with cluster.subscribe("s") as subscription:
        handle = subscription.next(PATIENCE)

        def full(*_, **__):
            monkeypatch.undo()
            raise CapacityError("its chain takes nothing")

        monkeypatch.setattr(subscription._log._loader, "send", full)
        with pytest.raises(CapacityError):
            handle.ack()
        assert not handle.resolved
        handle.defer()
        assert take(subscription, 2) == [0, 1]


def test_bundles_before_a_start_do_not_come_behind_an_interrupt(cluster, monkeypatch):
    times = load(cluster, "A", range(4), ONE_BLOCK)
    with cluster.subscribe("s", "A", start=times[2]) as subscription:
        interrupt_once(monkeypatch, Lane, "take", behind=True)
        with pytest.raises(KeyboardInterrupt):
            subscription.next(PATIENCE)
        assert take(subscription, 2) == [2, 3]


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("owner", "step"), [(Member, "add_segment"), (Progress, "add_segment"), (Offers, "add_segment")]
)
def test_a_block_that_is_half_taken_comes(cluster, monkeypatch, owner, step, behind):
    load(cluster, "A", range(3), ONE_BLOCK)
    with cluster.subscribe("s") as subscription:
        interrupt_once(monkeypatch, owner, step, behind=behind)
        with pytest.raises(KeyboardInterrupt):
            subscription.next(PATIENCE)
        assert take(subscription, 3) == [0, 1, 2]


def test_a_letter_that_is_given_up_twice_is_one():
    marks = Marks(wants_all=False)
    letter = Rejected("p", 0, 1, 1, 7, 1, "odd")
    for record in (Joined("p", 0), Taken("p", 0, 2, 0, 2), letter, letter, Acked("p", 0, 0, 1)):
        marks.apply(record)
    marks.apply(letter)
    assert marks.lanes["p"].letters == [letter]


# taking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("call", ["next", "next_run", "poll"])
@pytest.mark.parametrize(
    ("owner", "step"),
    [(Loaded, "bundle"), (Member, "_note"), (Blocks, "load"), (Loaded, "time_ns")],
)
def test_what_a_call_had_claimed_comes_again(cluster, monkeypatch, error, call, owner, step):
    load(cluster, "A", range(4), ONE_BLOCK)
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 1) == [0]
        act = getattr(owner, step)

        def broken(*values):
            monkeypatch.undo()
            act(*values)
            raise error

        monkeypatch.setattr(owner, step, broken)
        with pytest.raises(error):
            getattr(subscription, call)()
        assert take(subscription, 3) == [1, 2, 3]
        assert not subscription._marks.lanes["A"].member.claims


def test_what_is_read_again_is_of_as_many_bundles_as_are_asked_for(cluster, monkeypatch):
    """A run is claimed, its block cannot be read for a moment, and one bundle is asked for then."""
    load(cluster, "A", [0, 1, 2], ONE_BLOCK)
    load(cluster, "B", [10])
    load(cluster, "A", [20, 21], ONE_BLOCK)
    load(cluster, "B", [30])
    with cluster.subscribe("probe") as subscription:
        take(subscription, 7)  # All blocks may be heard of.
    with cluster.subscribe("s", ["A", "B"]) as subscription:
        run = subscription.next_run(3, timeout=PATIENCE)
        assert take(subscription, 1) == [10]
        run.defer()
        first = run.segment_seq
        real = Blocks.load

        def away(self, partition, number):
            if (partition, number) == ("A", first):
                monkeypatch.undo()
                raise RemoteError("away for a moment", retryable=True)
            return real(self, partition, number)

        monkeypatch.setattr(Blocks, "load", away)
        with subscription.next_run(10, timeout=PATIENCE) as other:
            assert [each["events"]["n"][0].as_py() for each in other] == [30]
        found = []
        for _ in range(5):
            handle = subscription.next(PATIENCE)
            assert handle.claim.count == 1
            found.append(number_of(handle))
            handle.ack()
        assert found == [0, 1, 2, 20, 21]


def test_an_interrupt_that_comes_while_it_waits_is_what_is_raised(cluster):
    class Torn(threading.Condition):
        def wait(self, timeout=None):
            del timeout
            self.release()
            raise KeyboardInterrupt

    with cluster.subscribe("s") as subscription:
        whole = subscription._changed
        subscription._changed = Torn(subscription._lock)
        with pytest.raises(KeyboardInterrupt):
            subscription.next(PATIENCE)
        subscription._changed = whole


# waiting for copies --------------------------------------------------------------------------


def late_once(patch, subscription, error) -> None:
    def late(*_):
        patch.undo()
        raise error

    patch.setattr(subscription._log._loader, "wait_acked", late)


@pytest.mark.parametrize("outcome", ["ack", "reject", "nack"])
def test_an_outcome_that_copies_did_not_have_in_time_is_waited_for_again(
    cluster, monkeypatch, outcome
):
    load(cluster, "A", range(2), ONE_BLOCK)
    rules = SubscriberRules(retry=SubscriberConfig(max_attempts=1))
    with cluster.subscribe("s", rules=rules) as subscription:
        handle = subscription.next(PATIENCE)
        for _ in range(2):
            late_once(monkeypatch, subscription, WaitTimeoutError("not in time"))
            with pytest.raises(WaitTimeoutError):
                getattr(handle, outcome)()
            assert handle.resolved
            assert number_of(handle) == 0
        with pytest.raises(SubscriberError, match="is written"):
            handle.defer()
        with pytest.raises(SubscriberError, match="is written"):
            (handle.reject if outcome == "ack" else handle.ack)()
        getattr(handle, outcome)()
        assert len(subscription.dead_letters()) == (outcome != "ack")
        assert take(subscription, 1) == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, WaitTimeoutError("not in time")])
def test_a_block_whose_outcome_is_late_raises_that(cluster, monkeypatch, error):
    load(cluster, "A", range(2), ONE_BLOCK)
    with cluster.subscribe("s") as subscription:
        late_once(monkeypatch, subscription, error)
        with pytest.raises((KeyboardInterrupt, WaitTimeoutError)):  # noqa: SIM117
            with subscription.next(PATIENCE) as handle:
                handle.ack()
        handle.ack()
        assert take(subscription, 1) == [1]


def test_a_fence_leaves_the_outcome_to_who_goes_on(cluster, monkeypatch):
    load(cluster, "A", range(1))
    with cluster.subscribe("s") as subscription:
        handle = subscription.next(PATIENCE)
        late_once(monkeypatch, subscription, SubscriberError("another process goes on"))
        with pytest.raises(SubscriberError, match="another process"):
            handle.ack()
        assert not handle.resolved
        handle.defer()


# letting go ----------------------------------------------------------------------------------


def test_letters_that_could_not_be_forgotten_are_there(cluster, monkeypatch):
    load(cluster, "A", range(2))
    with cluster.subscribe("s") as subscription:
        subscription.next(PATIENCE).reject("odd")

        def full(*_, **__):
            monkeypatch.undo()
            raise CapacityError("its chain takes nothing")

        monkeypatch.setattr(subscription._log._loader, "send", full)
        with pytest.raises(CapacityError):
            subscription.forget_dead_letters()
        assert len(subscription.dead_letters()) == 1
        assert take(subscription, 1) == [1]
        assert [each.block_count for each in cluster.purge_acked()] == [0]
        send_and_break_off(monkeypatch, subscription)
        with pytest.raises(KeyboardInterrupt):
            subscription.forget_dead_letters()
        assert subscription.forget_dead_letters() == 0
    with cluster.subscribe("s") as subscription:
        assert subscription.dead_letters() == []


@pytest.mark.parametrize("behind", [False, True])
def test_a_close_that_broke_off_is_done_again(cluster, monkeypatch, behind):
    subscription = cluster.subscribe("s")
    interrupt_once(monkeypatch, subscription, "_end", behind=behind)
    with pytest.raises(KeyboardInterrupt):
        subscription.close()
    subscription.close()
    subscription.close()
    subscription.abandon()
    cluster.subscribe("s", rules=SubscriberRules(takes_over=False)).close()
