"""``quiver chain abandon`` while nodes come back."""

from __future__ import annotations

import pytest
from cluster_kit import STEADY, Nodes, row, value_of

from quiver.chain.loading import LoaderRules
from quiver.chain.metadata import open_metadata
from quiver.chain.record import Partition
from quiver.chain.serving import AuditRules
from quiver.cli.chains import abandon as verb
from quiver.clock import SystemClock

PATIENCE = 60.0


@pytest.fixture
def nodes(tmp_path):
    """Two nodes that have three bundles of an open block, and are down."""
    (tmp_path / "meta").mkdir()
    nodes = Nodes(tmp_path, STEADY)
    nodes.metadata = open_metadata(str(tmp_path / "meta"))
    nodes.audit = AuditRules(every_seconds=3600)
    try:
        for name in "ab":
            nodes.start(name)
        with nodes.cluster() as cluster:
            loaded(cluster, range(3)).abandon()
        for name in "ab":
            nodes.stop(name)
        yield nodes
    finally:
        nodes.close()


def loaded(cluster, numbers):
    """Write bundles that are acknowledged; gives the loader."""
    loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=2, takes_over=True))
    for number in numbers:
        loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
    return loader


def answered(monkeypatch, run, nodes, tmp_path, meanwhile):
    """Say yes once something else has happened."""
    monkeypatch.setattr(verb, "ask", lambda *_, **__: meanwhile())
    found = run("chain", "abandon", "core_0", "0", "--metadata", str(tmp_path / "meta"))
    partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
    assert not any(block.is_abandoned for block in partition.blocks(partition.read()))
    return found


def back(nodes):
    for name in "ab":
        nodes.start(name)


def test_nodes_that_come_back_before_the_yes_keep_the_block(monkeypatch, run, nodes, tmp_path):
    found = answered(monkeypatch, run, nodes, tmp_path, lambda: back(nodes))
    assert found.code == 2
    assert "has block 0 of core_0" in found.err


def test_a_yes_is_of_the_block_that_was_asked_about(monkeypatch, run, nodes, tmp_path):
    with nodes.cluster() as cluster:

        def meanwhile():
            back(nodes)
            loaders.append(loaded(cluster, range(3, 6)))

        loaders = []
        found = answered(monkeypatch, run, nodes, tmp_path, meanwhile)
        assert found.code != 0
        (loader,) = loaders
        loader.send(row(6), timeout=PATIENCE).wait(PATIENCE)
        loader.close(PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(7))
