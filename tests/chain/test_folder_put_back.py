"""A node whose folder was put back as it was some time ago, and what it is believed."""

from __future__ import annotations

import shutil

import pytest
from chain_wire_kit import PATIENCE
from cluster_kit import row, running, value_of

from quiver.chain.loading import LoaderRules
from quiver.chain.record import Partition
from quiver.clock import SystemClock

RULES = LoaderRules(rf=2)
TAKEN = LoaderRules(rf=2, takes_over=True)


@pytest.fixture
def nodes(tmp_path):
    with running(tmp_path, "a", "b") as found:
        yield found


def die(nodes, name):
    """Have a node end as by kill: nobody is told, and nothing is sealed."""
    served = nodes.served.pop(name)
    served._registration._has_beaten = False
    served.close()
    nodes.disks.pop(name).close()


def test_what_it_acknowledged_since_is_not_lost(nodes, tmp_path):
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=RULES)
        loader.send(row(0), timeout=PATIENCE)
        shutil.copytree(tmp_path / "a", tmp_path / "backup")
        for number in range(1, 6):
            loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
        for _ in range(10):
            nodes.served["a"]._registration.beat()
        loader.abandon()
        for name in "ab":
            die(nodes, name)
    shutil.rmtree(tmp_path / "a")
    shutil.move(tmp_path / "backup", tmp_path / "a")
    nodes.start("b")
    put_back = nodes.start("a")
    (damaged,) = put_back.node.damaged()
    assert damaged.name == ("core_0", 0)
    assert "older" in damaged.why
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=TAKEN)
        loader.send(row(6), timeout=PATIENCE)
        loader.close(PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(7))
    record = Partition(nodes.metadata, "core_0", clock=SystemClock()).read()
    assert record.recent[0].locations == ("b",)


def test_a_node_that_only_starts_again_is_believed(nodes):
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=RULES)
        loader.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        loader.abandon()
        for name in "ab":
            die(nodes, name)
    for name in "ab":
        for _ in range(2):
            assert nodes.start(name).node.damaged() == ()
            nodes.stop(name)
        nodes.start(name)
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=TAKEN)
        loader.close(PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == [0]
    record = Partition(nodes.metadata, "core_0", clock=SystemClock()).read()
    assert len(record.recent[0].locations) == 2


def test_a_copy_that_was_made_while_it_ran_is_older_once_it_has_ended(nodes, tmp_path):
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    nodes.stop("a")
    shutil.rmtree(tmp_path / "a")
    shutil.move(tmp_path / "backup", tmp_path / "a")
    remembered = next(each.generation for each in nodes.members() if each.name == "a")
    again = nodes.start("a")
    assert again._generation.number is not None
    assert again._generation.number > remembered > 1
