"""What happens around a subscriber: clocks, metadata, purges, and who is reset beside them."""

from __future__ import annotations

import pytest
from cluster_kit import running
from numbers_kit import PATIENCE, QUICK, load, number_of, take

from quiver.chain import Partition, SubscriberRules
from quiver.chain.cluster import Cluster
from quiver.chain.subscribing import known
from quiver.chain.subscribing.log import AckLog
from quiver.clock import SystemClock
from quiver.errors import MissingError, RemoteError

HOUR = 3_600_000_000_000


class SetClock(SystemClock):
    """A wall clock that somebody sets."""

    ahead_ns = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.ahead_ns


@pytest.fixture
def nodes(tmp_path):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes:
        yield nodes


@pytest.fixture
def cluster(nodes):
    with nodes.cluster() as cluster:
        yield cluster


def test_a_delay_beyond_all_times_costs_nobody_his_marks(cluster):
    load(cluster, "A", range(3))
    with cluster.subscribe("s") as subscription:
        subscription.next(PATIENCE).nack(retry_after="110000d")
        assert take(subscription, 2) == [1, 2]
    with cluster.subscribe("s") as subscription:
        assert subscription.next(0) is None
    assert [each.fault for each in cluster.subscribers()] == [""]
    assert [each.held_by for each in cluster.purge_acked()] == ["s"]


def test_what_failed_comes_again_after_its_delay_though_the_clock_was_set_back(nodes, cluster):
    load(cluster, "A", range(3))
    clock = SetClock()
    clock.ahead_ns = 3 * HOUR
    with (
        Cluster(nodes.metadata, options=nodes.options, clock=clock) as mine,
        mine.subscribe("s") as subscription,
    ):
        handles = [subscription.next(PATIENCE) for _ in range(3)]
        handles[0].nack(retry_after=0)
        clock.ahead_ns = 2 * HOUR
        handles[1].nack(retry_after=0)  # It says what time it is, too.
        clock.ahead_ns = 0
        assert take(subscription, 2) == [0, 1]
        handles[2].ack()


# metadata ------------------------------------------------------------------------------------


def away(patch, cluster, *, retryable: bool) -> None:
    """Have metadata away for one look for new partitions."""
    keys = cluster.metadata.keys

    def asked(*values, **named):
        patch.setattr(cluster.metadata, "keys", keys)
        raise RemoteError("the bucket said 503", retryable=retryable)

    patch.setattr(cluster.metadata, "keys", asked)


def test_metadata_that_are_away_for_a_moment_are_asked_for_new_partitions_again(
    cluster, monkeypatch
):
    load(cluster, "A", range(2))
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 1) == [0]
        load(cluster, "B", [10])
        away(monkeypatch, cluster, retryable=True)
        subscription._feed._join_ns -= HOUR
        assert take(subscription, 1) == [1]
        assert subscription._feed._joining.failing_ns is not None
        subscription._feed._join_ns -= HOUR
        assert take(subscription, 1) == [10]
        assert subscription._feed._joining.failing_ns is None
        assert subscription.trouble is None


@pytest.mark.parametrize("retryable", [False, True])
def test_metadata_that_stay_away_are_told(cluster, monkeypatch, retryable):
    with cluster.subscribe("s") as subscription:
        if retryable:
            subscription._feed._joining.failing_ns = -HOUR
        away(monkeypatch, cluster, retryable=retryable)
        subscription._feed._join_ns -= HOUR
        with pytest.raises(RemoteError, match="503"):
            subscription.next(PATIENCE)


# purges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", ["error", "tell"])
@pytest.mark.parametrize("begins", ["behind a purge", "at a time"])
def test_what_was_purged_before_the_first_bundle_came_is_told(cluster, nodes, begins, gap):
    times = [load(cluster, "A", [2 * n, 2 * n + 1])[0] for n in range(3)]
    partition = Partition(nodes.metadata, "A", clock=SystemClock())
    start = times[0] if begins == "at a time" else "earliest"
    if begins == "behind a purge":
        partition.purge(times[1])
    with cluster.subscribe("s", "A", start=start, rules=SubscriberRules(gap=gap)) as subscription:
        partition.purge(times[2])
        if gap == "error":
            with pytest.raises(MissingError, match="before 4 of A were purged"):
                subscription.next(PATIENCE)
        else:
            assert take(subscription, 2) == [4, 5]
            assert subscription.gaps == [("A", None, 4)]


def test_who_begins_behind_a_purge_lost_nothing(cluster, nodes):
    times = [load(cluster, "A", [n])[0] for n in range(2)]
    Partition(nodes.metadata, "A", clock=SystemClock()).purge(times[1])
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 1) == [1]
        assert subscription.gaps == []


@pytest.mark.parametrize("what", ["reset", "forgotten"])
def test_who_begins_anew_between_two_partitions_of_a_purge_keeps_the_second(
    cluster, monkeypatch, what
):
    for name in ("A", "B"):
        load(cluster, name, range(2))
    with cluster.subscribe("s") as subscription:
        take(subscription, 4)
    purge = known._purge

    def purged(reach, name, below, *, held_by):
        done = purge(reach, name, below, held_by=held_by)
        if name == "A":
            if what == "reset":
                cluster.reset("s", "earliest")
            else:
                cluster.unsubscribe("s")
                cluster.subscribe("s").close()
        return done

    monkeypatch.setattr(known, "_purge", purged)
    assert [(each.partition, each.block_count) for each in cluster.purge_acked()] == [
        ("A", 1),
        ("B", 0),
    ]
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 2) == [0, 1]


def test_what_is_purged_while_a_subscriber_is_reset_is_not_its_own(cluster, monkeypatch):
    load(cluster, "A", range(2))
    with cluster.subscribe("s") as subscription:
        take(subscription, 2)
    load(cluster, "A", [2])
    begin = AckLog.begin

    def purge(self, marks):
        monkeypatch.setattr(AckLog, "begin", begin)
        assert [each.block_count for each in cluster.purge_acked()] == [1]
        begin(self, marks)

    monkeypatch.setattr(AckLog, "begin", purge)
    cluster.reset("s", "earliest")
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 1) == [2]


def test_blocks_that_were_purged_are_not_behind(cluster, monkeypatch):
    times = [load(cluster, "A", [n])[0] for n in range(3)]
    cluster.subscribe("s").close()
    assert [each.blocks_behind for each in cluster.subscribers()[0].marks] == [3]
    partition = cluster._reach().partition("A")
    record = partition.read()
    partition.purge(times[2])
    # As a page has them, which nothing of is written anew for a purge.
    blocks = partition.__class__.blocks_from
    kept = record.recent

    def paged(self, found, number):
        if self.name != "A":
            return blocks(self, found, number)
        return iter([each for each in kept if each.number >= number])

    monkeypatch.setattr(partition.__class__, "blocks_from", paged)
    assert [each.blocks_behind for each in cluster.subscribers()[0].marks] == [1]
    with pytest.raises(MissingError), cluster.subscribe("s") as subscription:
        number_of(subscription.next(PATIENCE))
