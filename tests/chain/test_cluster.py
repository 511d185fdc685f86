"""Loaders and cursors on nodes over the wire."""

from __future__ import annotations

import dataclasses

import pytest
from cluster_kit import STEADY, row, running, value_of
from tls_kit import Authority, openssl_missing

import quiver
from quiver.chain.cluster import connect
from quiver.chain.loading import LoaderRules
from quiver.chain.membership import Registration
from quiver.chain.peers import BlockName, NodeState
from quiver.chain.reading import Silence
from quiver.chain.reading.following import follow
from quiver.chain.record import Partition
from quiver.chain.serving import ServedNode
from quiver.chain.wire import read_tls
from quiver.clock import SystemClock
from quiver.disk import LocalDisk
from quiver.errors import (
    ConfigError,
    InputError,
    LockedError,
    MissingError,
    RemoteError,
    WaitTimeoutError,
)

PATIENCE = 60.0
SMALL = LoaderRules(rf=2, soft_bytes=5_000)


@pytest.fixture
def nodes(tmp_path):
    with running(tmp_path, "a", "b", "c") as nodes:
        yield nodes


def load(cluster, partition: str, numbers, rules: LoaderRules = SMALL) -> None:
    loader = cluster.loader(partition, ["events"], rules=rules)
    for number in numbers:
        loader.send(row(number), timeout=PATIENCE)
    loader.close(timeout=PATIENCE)


def record_of(nodes, partition: str):
    return Partition(nodes.metadata, partition, clock=SystemClock()).read()


def test_what_was_sent_is_read_once_in_order_over_many_blocks(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(200))
        assert cluster.partitions() == ["core_0"]
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(200))
    assert len(record_of(nodes, "core_0").recent) > 3


def test_r1_r37_partitions_are_merged_by_time_and_any_subset_is_read(nodes):
    with nodes.cluster() as cluster:
        loaders = {n: cluster.loader(f"core_{n}", ["events"], rules=SMALL) for n in range(3)}
        sent = []
        for number in range(90):
            loader = loaders[number % 3]
            receipt = loader.send(row(number), timeout=PATIENCE)
            sent.append((receipt.time_ns, f"core_{number % 3}", number))
        for loader in loaders.values():
            loader.close(timeout=PATIENCE)
        for subset in ({0}, {0, 1, 2}, {0, 2}, {2}):
            names = [f"core_{n}" for n in sorted(subset)]
            with cluster.cursor(names) as cursor:
                found = [value_of(each) for each in cursor]
            assert found == [number for _, name, number in sorted(sent) if name in names]


def test_a_live_cursor_sees_what_is_acknowledged_across_blocks(nodes):
    with nodes.cluster() as cluster:
        cursor = cluster.cursor("core_0", live=True)  # Of what does not exist yet (R8).
        with pytest.raises(WaitTimeoutError):
            cursor.next(timeout=0)
        loader = cluster.loader("core_0", ["events"], rules=SMALL)
        for number in range(100):
            loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
            assert value_of(cursor.next(timeout=PATIENCE)) == number
        loader.close(timeout=PATIENCE)
        cursor.close()


def test_a_cursor_goes_on_where_another_one_was_and_jumps_in_time(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(60))
        with cluster.cursor("core_0") as cursor:
            first = [cursor.next() for _ in range(25)]
            position = cursor.position
        with cluster.cursor("core_0", position=position) as cursor:
            rest = list(cursor)
        assert [value_of(each) for each in [*first, *rest]] == list(range(60))
        start, end = first[10].time_ns, rest[5].time_ns
        with cluster.cursor("core_0", start=start, end=end) as cursor:
            assert [value_of(each) for each in cursor] == list(range(10, 31))
            cursor.reset(first[20].time_ns)
            assert value_of(cursor.next()) == 20


def test_r29_a_sealed_block_is_read_from_any_copy_when_its_tail_is_gone(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(50))
        tails = {block.locations[-1] for block in record_of(nodes, "core_0").recent}
        nodes.stop(min(tails))
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(50))


def test_a_block_of_which_nobody_answers_is_told_and_not_left_out(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(10))
        for name in "abc":
            nodes.stop(name)
        asked = cluster._followed("core_0")
        found = follow(dataclasses.replace(asked, end_ns=1 << 62, patience=0.0))
        with pytest.raises(RemoteError):
            while next(found) is Silence.UNKNOWN:
                pass


def test_an_open_block_whose_node_is_gone_is_not_said_to_be_idle(nodes):
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=1))
        loader.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        loader.abandon()
        found = follow(dataclasses.replace(cluster._followed("core_0"), end_ns=1 << 62, live=True))
        words = [next(found) for _ in range(3)]
        assert words[0] is Silence.UNKNOWN
        assert value_of(words[1]) == 0
        assert words[2] is Silence.IDLE
        nodes.stop(record_of(nodes, "core_0").open.locations[0])
        while next(found) is Silence.IDLE:
            pass
        assert [next(found) for _ in range(3)] == 3 * [Silence.UNKNOWN]
        found.close()


def test_finished_segments_are_read_like_logs(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(40))
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        first = partition.read().recent[0]
        name = BlockName("core_0", first.number)
        peers = [nodes.served[each].node for each in first.locations]
        finished = [peer.finish(name) for peer in peers]
        assert len(set(finished)) == 1
        partition.amend(
            first.number, lambda b: b._replace(rows=finished[0].rows, digest=finished[0].digest)
        )
        for peer in peers:
            peer.settle(name, finished[0])
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(40))
            where = cursor.position
        assert where["core_0"][1] == 39


def test_r33_the_first_address_is_dead_and_the_second_one_leads_to_all(nodes):
    live = nodes.served["b"].address
    with connect(f"quiver://127.0.0.1:1,{live}", wire=STEADY) as cluster:
        load(cluster, "core_0", range(20))
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(20))
    with connect(["quiver://127.0.0.1:1", f"quiver://{live}"], wire=STEADY) as cluster:
        assert cluster.partitions() == ["core_0"]


def test_r2_a_second_loader_is_refused_and_one_that_takes_over_wins(nodes):
    with nodes.cluster() as cluster:
        first = cluster.loader("core_0", ["events"], rules=SMALL)
        first.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        second = cluster.loader("core_0", ["events"], rules=SMALL)
        with pytest.raises(LockedError):
            second.wait_open(PATIENCE)
        third = cluster.loader(
            "core_0", ["events"], rules=LoaderRules(soft_bytes=5_000, takes_over=True)
        )
        third.send(row(1), timeout=PATIENCE).wait(PATIENCE)
        with pytest.raises(quiver.QuiverError):
            first.send(row(99), timeout=PATIENCE).wait(PATIENCE)
        third.close(timeout=PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == [0, 1]


def test_a_partition_keeps_the_slots_that_it_began_with(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(2))
        with pytest.raises(InputError, match="other slots: events"):
            cluster.loader("core_0", ["logs"])


# nodes that come back ----------------------------------------------------------------------------


def test_r41_a_node_that_was_away_lets_go_of_what_was_purged(nodes):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(50))
        record = record_of(nodes, "core_0")
        away = record.recent[0].locations[0]
        nodes.stop(away)
        Partition(nodes.metadata, "core_0", clock=SystemClock()).purge(1 << 62)
        node = nodes.start(away).node
        assert not [
            each
            for each in node.status().holdings
            if each.name.number in {block.number for block in record.recent}
        ]
        with pytest.raises(MissingError):
            list(node.read(BlockName("core_0", record.recent[0].number), 0))


def test_r40_a_node_takes_nothing_before_it_serves_and_says_how_far_it_is(nodes):
    node = nodes.served["a"]
    node.drain()
    states = {each.name: each.state for each in nodes.members()}
    assert states == {"a": NodeState.DRAINING, "b": NodeState.SERVING, "c": NodeState.SERVING}
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(20))
        assert not node.node.status().holdings
    nodes.stop("a")
    assert [each.state_name for each in nodes.members() if each.name == "a"] == ["offline"]
    nodes.start("a")
    assert [each.state_name for each in nodes.members() if each.name == "a"] == ["serving"]


def test_a_drain_tells_streams_also_while_the_metadata_are_away(nodes, monkeypatch):
    def away(*_):
        raise RemoteError("the metadata are away", retryable=True)

    told = []
    with nodes.cluster() as cluster:
        rules = dataclasses.replace(SMALL, rf=3)
        loader = cluster.loader("core_0", ["events"], rules=rules)
        loader.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        served = nodes.served["a"]
        real = served._server.drain
        with monkeypatch.context() as patch:
            patch.setattr(nodes.metadata, "cas", away)
            patch.setattr(served._server, "drain", lambda: told.append(real()))
            served.drain(seconds=0)
        assert served.node.state is NodeState.DRAINING
        loader.send(row(1), timeout=PATIENCE).wait(PATIENCE)
        loader.close(PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == [0, 1]
    assert told[0] >= 1


def test_a_second_node_of_one_name_is_found_out(nodes):
    other = Registration(
        nodes.metadata,
        "a",
        address="127.0.0.1:2",
        room=lambda: (1, 1),
        clock=SystemClock(),
    )
    other.beat()
    with pytest.raises(LockedError):
        nodes.served["a"]._registration.beat()


def test_a_second_node_of_one_name_does_not_start_while_the_first_one_answers(nodes, tmp_path):
    first = nodes.served["a"]
    other = ServedNode(
        LocalDisk(str(tmp_path / "copied"), create=True),
        nodes.metadata,
        "a",
        listen="127.0.0.1:0",
        room=lambda: (1, 1),
        clock=SystemClock(),
        options=STEADY,
    )
    with pytest.raises(LockedError, match=first.address):
        other.start()
    other.close()
    (member,) = [each for each in nodes.members() if each.name == "a"]
    assert (member.address, member.state) == (first.address, NodeState.SERVING)
    first._registration.beat()


@pytest.mark.skipif(bool(openssl_missing()), reason=openssl_missing() or "-")
def test_nodes_and_clients_with_certificates_and_a_token(tmp_path):
    authority = Authority(tmp_path / "tls")
    files = [str(file) for file in authority.signed("a", "b")]
    tls = read_tls(*files, str(authority.ca))
    options = dataclasses.replace(STEADY, tls=tls, token="s3cret")
    with running(tmp_path, "a", "b", options=options) as nodes:
        where = f"quiver+tls://{nodes.served['a'].address}"
        with connect(where, wire=options) as cluster:
            load(cluster, "core_0", range(20))
            with cluster.cursor("core_0") as cursor:
                assert [value_of(each) for each in cursor] == list(range(20))
        assert {len(block.locations) for block in record_of(nodes, "core_0").recent} == {2}
        with connect(where, tls=tls, token="other") as cluster, pytest.raises(RemoteError):
            cluster.partitions()


@pytest.mark.parametrize(
    "where",
    [[], "quiver://nonsense", ["http://h:1", "quiver://h:1"], "quiver+tls://h:1", "quiver://"],
)
def test_addresses_that_are_none_are_refused(where):
    with pytest.raises((ConfigError, InputError)):
        connect(where)
