"""Subscribers whose marks and acks are a partition of their own, on nodes of this process."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cluster_kit import row, running, value_of
from numbers_kit import PATIENCE, QUICK, SMALL, load, number_of, take

from quiver.chain import LoaderRules, Partition, SubscriberRules
from quiver.chain.peers import BlockName
from quiver.chain.serving import AuditRules
from quiver.clock import SystemClock
from quiver.config import SubscriberConfig
from quiver.errors import DamagedEntry, InputError, LockedError, MissingError, SubscriberError


@pytest.fixture
def nodes(tmp_path):
    with running(tmp_path / "nodes", audit=QUICK) as nodes:
        for name in "abc":
            nodes.start(name)
        yield nodes


def test_r44_bundles_come_in_order_and_who_comes_next_goes_on(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(60))
        with cluster.subscribe("s") as subscription:
            assert take(subscription, 25) == list(range(25))
            left = subscription.next(PATIENCE)
            assert number_of(left) == 25
            left.defer()
        with cluster.subscribe("s") as subscription:
            assert take(subscription, 35) == list(range(25, 60))
            assert subscription.next(0) is None


def test_r44_a_second_process_fences_the_first(nodes):
    with nodes.cluster() as cluster, nodes.cluster() as other:
        load(cluster, "core_0", range(10))
        first = cluster.subscribe("s")
        assert take(first, 3) == [0, 1, 2]
        held = first.next(PATIENCE)
        second = other.subscribe("s")
        with pytest.raises(SubscriberError, match="another process goes on"):
            held.ack()
        held.defer()
        assert take(second, 7) == list(range(3, 10))
        second.close()
        with pytest.raises(SubscriberError):
            first.close()


def test_r43_a_block_is_heard_of_when_it_is_sealed_and_finished_and_at_rf(tmp_path):
    slow = AuditRules(every_seconds=3_600)
    with running(tmp_path, "a", "b", audit=slow) as nodes, nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=SMALL)
        loader.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert cursor.next(PATIENCE) is not None  # A cursor sees what is committed before.
        subscription = cluster.subscribe("s")
        assert subscription.next(0) is None  # Open.
        loader.close(timeout=PATIENCE)
        assert subscription.next("0.5s") is None  # Sealed, and not finished.
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        (block,) = partition.read().recent
        name = BlockName("core_0", block.number)
        made = {each: nodes.served[each].node.finish(name) for each in block.locations}
        (finished,) = set(made.values())
        noted = {"rows": finished.rows, "digest": finished.digest}
        alone = block.locations[:1]
        partition.amend(block.number, lambda b: b._replace(locations=alone, **noted))
        assert subscription.next("0.5s") is None  # Finished, and a copy is wanted.
        partition.amend(block.number, lambda b: b._replace(locations=block.locations))
        assert take(subscription, 1) == [0]
        subscription.close()


def test_r37_any_subset_of_partitions_and_marks_of_the_others_stay(nodes):
    with nodes.cluster() as cluster:
        for n in range(3):
            load(cluster, f"core_{n}", range(100 * n, 100 * n + 10))
        with cluster.subscribe("s", ["core_0", "core_2"]) as subscription:
            assert sorted(take(subscription, 20)) == [*range(10), *range(200, 210)]
        with cluster.subscribe("s", "core_1") as subscription:
            assert take(subscription, 4) == list(range(100, 104))
        with cluster.subscribe("s") as subscription:
            assert subscription.partitions == ("core_0", "core_1", "core_2")
            assert take(subscription, 6) == list(range(104, 110))
            assert subscription.next(0) is None
        marks = {mark.partition: mark.open_count for mark in cluster.subscribers()[0].marks}
        assert marks == {"core_0": 0, "core_1": 0, "core_2": 0}
        assert cluster.partitions() == ["core_0", "core_1", "core_2"]


def test_of_several_partitions_the_earliest_comes_first_of_what_is_there(nodes):
    with nodes.cluster() as cluster:
        loaders = [cluster.loader(f"core_{n}", ["events"], rules=SMALL) for n in range(2)]
        for number in range(20):
            loaders[number % 2].send(row(number), timeout=PATIENCE).wait(PATIENCE)
        for loader in loaders:
            loader.close(timeout=PATIENCE)
        for name in ("core_0", "core_1"):
            wait_finished(nodes, name)
        with cluster.subscribe("s", ["core_0", "core_1"]) as subscription:
            assert take(subscription, 20) == list(range(20))


@pytest.mark.parametrize("kind", ["latest", "time", "number", "before_it_was"])
def test_a_new_subscriber_begins_where_it_says(nodes, kind):
    with nodes.cluster() as cluster:
        if kind == "before_it_was":
            subscription = cluster.subscribe("s", "core_0", start="latest")
            load(cluster, "core_0", range(5))
            assert take(subscription, 5) == list(range(5))
            subscription.close()
            return
        times = load(cluster, "core_0", range(20))
        text = datetime.fromtimestamp(times[7] // 1_000_000_000, UTC).isoformat()
        start = {"latest": "latest", "time": text, "number": times[7]}[kind]
        first = {"latest": 20, "time": 0, "number": 7}[kind]
        with cluster.subscribe("s", "core_0", start=start) as subscription:
            load(cluster, "core_0", range(20, 25))
            if kind == "time":  # A time in seconds lies before the bundle, whichever comes first.
                first = number_of_next(subscription)
                assert first <= 7
            assert take(subscription, 25 - first) == list(range(first, 25))
        with cluster.subscribe("s", "core_0") as subscription:  # A start is for who is new.
            assert subscription.next(0) is None


def number_of_next(subscription) -> int:
    handle = subscription.next(PATIENCE)
    number = number_of(handle)
    handle.defer()
    return number


def wait_finished(nodes, name: str) -> None:
    """Return once subscribers may have all sealed blocks."""
    with nodes.cluster() as cluster:
        probe = cluster.subscribe("probe", name)
        count = Partition(nodes.metadata, name, clock=SystemClock()).read().last_seq + 1
        take(probe, count)
        probe.close()


# outcomes -------------------------------------------------------------------------------


def test_nacked_bundles_come_again_later_also_to_who_comes_next(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(4))
        with cluster.subscribe("s") as subscription:
            first = subscription.next(PATIENCE)
            assert (number_of(first), first.attempt) == (0, 1)
            first.nack(retry_after="0s")
            again = subscription.next(PATIENCE)  # The one that was read ahead, or the nacked one.
            numbers = {number_of(again)}
            again.nack(retry_after="1h")
            assert numbers <= {0, 1}
        with cluster.subscribe("s") as subscription:
            found = {}
            while (handle := subscription.next("1s")) is not None:
                found[number_of(handle)] = handle.attempt
                handle.ack()
        assert found.keys() == set(range(4)) - numbers
        assert found.get(0, 2) == 2


def test_a_dead_letter_does_not_come_again_and_is_read_where_it_is(nodes):
    rules = SubscriberRules(retry=SubscriberConfig(max_attempts=1))
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(6))
        with cluster.subscribe("s", rules=rules) as subscription:
            subscription.next(PATIENCE).reject(reason="never")
            with pytest.raises(ValueError, match="odd"), subscription.next(PATIENCE):
                raise ValueError("odd")
        with cluster.subscribe("s") as subscription:
            assert take(subscription, 4) == [2, 3, 4, 5]
            letters = subscription.dead_letters()
            assert [(each.wal_seq, each.reason) for each in letters] == [
                (0, "never"),
                (1, "ValueError"),
            ]
            at = letters[1].time_ns
            with cluster.cursor("core_0", start=at, end=at) as cursor:
                assert [value_of(each) for each in cursor] == [1]
            assert cluster.purge_acked()[0].below == letters[0].block
            assert subscription.forget_dead_letters() == 2
        with cluster.subscribe("s") as subscription:
            assert subscription.dead_letters() == []


def test_a_run_has_one_outcome(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(30), LoaderRules(rf=2))
        with cluster.subscribe("s") as subscription:
            with subscription.next_run(10, timeout=PATIENCE) as run:
                assert run.table("events")["n"].to_pylist() == list(range(10))
                assert [each["events"]["n"][0].as_py() for each in run] == list(range(10))
            subscription.next_run(5, timeout=PATIENCE).defer()
        with cluster.subscribe("s") as subscription:
            run = subscription.poll_run()
            assert run.table("events")["n"].to_pylist() == list(range(10, 30))
            run.ack()


def test_outcomes_in_any_order_are_kept(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(40))
        with cluster.subscribe("s", rules=SubscriberRules(waits=False)) as subscription:
            handles = [subscription.next(PATIENCE) for _ in range(40)]
            for handle in reversed(handles):
                if number_of(handle) % 3:
                    handle.ack()
                else:
                    handle.defer()
            subscription.flush(PATIENCE)
        with cluster.subscribe("s") as subscription:
            assert take(subscription, 14) == list(range(0, 40, 3))


# bounds ---------------------------------------------------------------------------------


def test_the_partition_of_a_subscriber_is_bounded(nodes):
    rules = SubscriberRules(soft_bytes=8_000)
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(120))
        partition = Partition(nodes.metadata, "acks.s", clock=SystemClock())
        with cluster.subscribe("s", rules=rules) as subscription:
            for number in range(120):
                assert take(subscription, 1) == [number]
                record = partition.read()
                assert len(record.recent) <= 2
            assert record.purged_below > 3
        with cluster.subscribe("s", rules=rules) as subscription:
            assert subscription.next(0) is None


def test_what_all_have_is_purged_only_when_that_is_asked_for(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(100))
        load(cluster, "core_1", range(5))
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        numbers = [block.number for block in partition.read().recent]
        with cluster.subscribe("fast", "core_0") as fast, cluster.subscribe("all") as slow:
            take(fast, 100)
            take(slow, 30)
            assert partition.read().purged_below == 0
            done = {each.partition: each for each in cluster.purge_acked()}
            assert done["core_0"].held_by == "all"
            kept = [block.number for block in partition.read().recent]
            assert 0 < len(kept) < len(numbers)
            assert kept == numbers[-len(kept) :]
            take(slow, 75)
            assert {each.held_by for each in cluster.purge_acked()} == {""}
            assert not partition.read().recent
        cluster.unsubscribe("all")
        assert [each.name for each in cluster.subscribers()] == ["fast"]
        with pytest.raises(SubscriberError):
            cluster.unsubscribe("all")
        assert [each.partition for each in cluster.purge_acked()] == ["core_0"]


def test_who_is_gone_is_new_when_it_comes_again(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(5))
        with cluster.subscribe("s") as subscription:
            take(subscription, 5)
        cluster.unsubscribe("s")
        with cluster.subscribe("s") as subscription:
            assert take(subscription, 5) == list(range(5))


@pytest.mark.parametrize("gap", ["error", "tell"])
def test_what_was_purged_before_it_came_is_told(nodes, gap):
    rules = SubscriberRules(gap=gap)
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(100))
        with cluster.subscribe("s", rules=rules) as subscription:
            take(subscription, 3)
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        blocks = partition.read().recent
        partition.purge(blocks[-1].start)
        first = blocks[-2].last_seq + 1
        with cluster.subscribe("s", rules=rules) as subscription:
            if gap == "error":
                with pytest.raises(MissingError, match="purged"):
                    subscription.next(PATIENCE)
                return
            assert take(subscription, 100 - first) == list(range(first, 100))
            assert subscription.gaps[-1][2] == first


# who has the name -----------------------------------------------------------------------


def test_a_name_is_left_to_who_has_it_if_asked(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(2))
        with cluster.subscribe("s") as first:
            with pytest.raises(LockedError, match="'s' is taken"):
                cluster.subscribe("s", rules=SubscriberRules(takes_over=False))
            assert take(first, 2) == [0, 1]
        cluster.subscribe("s", rules=SubscriberRules(takes_over=False)).close()


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 96])
def test_a_bad_name_is_refused(nodes, name):
    with nodes.cluster() as cluster, pytest.raises((InputError, SubscriberError)):
        cluster.subscribe(name)


def test_the_partition_of_a_subscriber_is_nobody_elses(nodes):
    with nodes.cluster() as cluster:
        with pytest.raises(InputError):
            cluster.loader("acks.s", ["acks"])
        with pytest.raises(InputError):
            cluster.subscribe("s", "acks.t")


def test_marks_that_are_lost_with_all_copies_are_told(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(5))
        with cluster.subscribe("s") as subscription:
            take(subscription, 5)
        Partition(nodes.metadata, "acks.s", clock=SystemClock()).purge(1 << 62)
        with pytest.raises(DamagedEntry, match="lost"):
            cluster.subscribe("s")
        with cluster.subscribe("s", rules=SubscriberRules(begin_anew=True)) as subscription:
            assert take(subscription, 5) == list(range(5))
