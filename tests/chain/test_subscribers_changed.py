"""A subscriber of a chain is held up, started over and renamed by whoever takes its name."""

from __future__ import annotations

import pytest
from cluster_kit import running
from numbers_kit import PATIENCE, QUICK, load, take

from quiver.chain.subscribing.log import AckLog
from quiver.chain.subscribing.marks import Marks
from quiver.errors import DamagedEntry, InputError, MissingError, SubscriberError


@pytest.fixture
def cluster(tmp_path):
    with running(tmp_path / "nodes", "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        load(cluster, "core_0", range(30))
        yield cluster


def begun(cluster, name="s", count=10):
    with cluster.subscribe(name) as subscription:
        assert take(subscription, count) == list(range(count))


def views(cluster):
    return {each.name: each for each in cluster.subscribers()}


def test_who_is_paused_gets_nothing_and_goes_on_where_it_was(cluster):
    first = cluster.subscribe("s")
    assert take(first, 10) == list(range(10))
    held = first.next(PATIENCE)
    cluster.pause("s")
    with pytest.raises(SubscriberError, match="another process"):
        held.ack()
    held.defer()
    first.abandon()
    assert views(cluster)["s"].is_paused
    with cluster.subscribe("s") as waiting:
        assert waiting.poll() is None
        assert waiting.next(0) is None
    assert views(cluster)["s"].is_paused  # Its process came and went.
    assert {each.held_by for each in cluster.purge_acked()} == {"s"}
    waiting = cluster.subscribe("s")
    cluster.resume("s")
    with pytest.raises(SubscriberError, match="another process"):
        waiting.next(PATIENCE)
    waiting.abandon()
    assert not views(cluster)["s"].is_paused
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 20) == list(range(10, 30))


def test_who_is_reset_gets_all_that_is_there_and_no_dead_letter_keeps_it(cluster):
    with cluster.subscribe("s") as subscription:
        take(subscription, 9)
        subscription.next(PATIENCE).reject("it is bad")
        assert len(subscription.dead_letters()) == 1
    cluster.pause("s")
    cluster.reset("s")
    assert views(cluster)["s"].is_paused
    cluster.resume("s")
    with cluster.subscribe("s") as subscription:
        assert subscription.dead_letters() == []
        assert take(subscription, 30) == list(range(30))


def test_who_is_reset_to_what_comes_or_to_a_time_gets_that(cluster):
    times = load(cluster, "core_1", range(100, 105))
    begun(cluster, count=1)
    cluster.reset("s", times[3])
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 2) == [103, 104]
        assert subscription.next(0) is None
    cluster.reset("s", "latest")
    load(cluster, "core_0", [99])
    load(cluster, "core_2", [200])
    with cluster.subscribe("s") as subscription:
        assert sorted(take(subscription, 2)) == [99, 200]
    with pytest.raises(InputError):
        cluster.reset("s", "yesterday")
    with cluster.subscribe("s") as subscription:
        assert subscription.next(0) is None  # It is as it was.


def test_who_is_renamed_goes_on_under_the_new_name_alone(cluster):
    first = cluster.subscribe("s")
    assert take(first, 10) == list(range(10))
    cluster.rename("s", "t")
    with pytest.raises(SubscriberError, match="another process"):
        take(first, 1)
    first.abandon()
    assert list(views(cluster)) == ["t"]
    with cluster.subscribe("t") as subscription:
        assert take(subscription, 20) == list(range(10, 30))
    assert {each.held_by for each in cluster.purge_acked()} == {""}
    with pytest.raises(SubscriberError, match="no subscriber 's'"):
        cluster.rename("s", "u")
    cluster.rename("t", "s")  # A name that was forgotten may be given again.
    assert list(views(cluster)) == ["s"]


def test_a_name_that_somebody_has_is_not_given_away(cluster):
    begun(cluster, "s", 10)
    begun(cluster, "t", 20)
    with pytest.raises(SubscriberError, match="there is a subscriber 't'"):
        cluster.rename("s", "t")
    with cluster.subscribe("t") as there:
        with pytest.raises(SubscriberError, match="there is a subscriber"):
            cluster.rename("s", "t")
        assert take(there, 5) == list(range(20, 25))
    with pytest.raises(InputError, match="that name"):
        cluster.rename("s", "s")
    for wrong in ("no/name", "x" * 200, ""):
        with pytest.raises(SubscriberError, match="not allowed"):
            cluster.rename("s", wrong)
    with cluster.subscribe("s") as subscription:
        assert take(subscription, 20) == list(range(10, 30))


def test_a_renaming_that_broke_off_is_done_again(cluster, monkeypatch):
    begun(cluster, "s", 10)
    begin = AckLog.begin

    def broken(self, marks: Marks) -> None:
        if marks.is_gone:
            raise OSError("power")
        begin(self, marks)

    with monkeypatch.context() as patch:
        patch.setattr(AckLog, "begin", broken)
        with pytest.raises(OSError, match="power"):
            cluster.rename("s", "t")
    assert list(views(cluster)) == ["s", "t"]
    cluster.rename("s", "t")
    assert list(views(cluster)) == ["t"]
    with cluster.subscribe("t") as subscription:
        assert take(subscription, 20) == list(range(10, 30))


@pytest.mark.parametrize("act", ["pause", "resume", "reset", "unsubscribe"])
def test_nothing_is_done_to_who_is_not_there(cluster, act):
    with pytest.raises(SubscriberError, match="no subscriber 'nobody'"):
        getattr(cluster, act)("nobody")
    assert cluster.subscribers() == []


def test_marks_that_are_lost_are_not_taken_for_new_ones(cluster, monkeypatch):
    begun(cluster)
    monkeypatch.setattr(AckLog, "read", lambda _: None)
    for act in (cluster.pause, cluster.reset):
        with pytest.raises(SubscriberError):
            act("s")
    cluster.unsubscribe("s")
    assert cluster.subscribers() == []


@pytest.mark.parametrize("start", ["2999-01-01", "0001-01-01"])
def test_a_time_that_no_bundle_has_is_as_far_as_bundles_go(cluster, start):
    with cluster.subscribe("s"):
        pass
    cluster.reset("s", start=start)
    with cluster.subscribe("s") as subscription:
        if start == "0001-01-01":
            assert take(subscription, 10) == list(range(10))
        assert start == "0001-01-01" or subscription.next(0) is None
    with cluster.subscribe("t", start=start):
        pass
    cluster.purge_acked()
    cluster.unsubscribe("s")
    assert list(views(cluster)) == ["t"]


def test_marks_that_nobody_can_read_are_told_and_can_be_forgotten(cluster, monkeypatch):
    with cluster.subscribe("s"):
        pass

    def unreadable(*_):
        raise DamagedEntry("start_ns of a record is no such thing")

    monkeypatch.setattr("quiver.chain.subscribing.known.read_marks", unreadable)
    with pytest.raises(DamagedEntry, match="subscriber s cannot be read") as raised:
        cluster.purge_acked()
    assert "quiver chain unsubscribe s" in str(raised.value)
    cluster.unsubscribe("s")
    monkeypatch.undo()
    assert views(cluster) == {}


def test_a_name_that_is_not_given_away_costs_nobody_his_own(cluster):
    begun(cluster, "other", 10)
    with cluster.subscribe("s") as subscription:
        with pytest.raises(SubscriberError, match="there is a subscriber"):
            cluster.rename("s", "other")
        subscription.next(timeout=60).ack()


def test_a_partition_that_is_not_there_is_not_purged_in_silence(cluster):
    for name, error in (("nosuch", MissingError), ("", InputError), ("a/b", InputError)):
        with pytest.raises(error):
            cluster.purge_acked([name])
