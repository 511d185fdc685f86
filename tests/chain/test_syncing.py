"""What a node does by itself with what the records say, and what it leaves to who tends them."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_world import Client, World

from quiver.chain.peers import BlockName
from quiver.chain.serving import sync_with_records
from quiver.chain.tending import Tender
from quiver.errors import DamageError, StorageError


@pytest.fixture
def world():
    made = World(11, rf=2, nodes=5)
    life_of(made, FAULTS["none"], rounds=12)
    client = Client("auditor")
    tender = Tender(
        made.partition(), "core_0", peers=lambda name: Link(made, client, name),
        random=made.lot.random,
    )  # fmt: skip
    tender.tend({node.name: node for node in made.nodes()}, {}, now_ns=0)
    return made


def first_block(world):
    partition = world.partition()
    record = partition.read()
    return partition.block(record, next(partition.blocks(record)).number)


def sync(world, name):
    node = world.machines[name].node
    assert sync_with_records(node, world.metadata, world.clock) == []
    return [each.name.number for each in node.status().holdings]


def test_a_segment_that_is_copied_here_and_not_listed_yet_stays(world):
    block = first_block(world)
    name = BlockName("core_0", block.number)
    other = next(each for each in world.machines if each not in block.locations)
    source = world.machines[block.locations[0]].node
    (finished,) = [h.finished for h in source.status().holdings if h.name == name]
    world.machines[other].node.fetch(name, source.name, finished)
    assert block.number in sync(world, other)


def test_a_pass_reads_no_object_for_each_finished_block(world):
    name = first_block(world).locations[0]
    asked = []
    real = world.metadata.get
    world.metadata.get = lambda key: asked.append(key) or real(key)
    assert sync(world, name)
    assert asked == ["core_0/record"]


def test_a_log_that_was_sealed_without_this_node_stays_until_it_is_made_up_for():
    world = World(14, rf=2, nodes=5)
    life_of(world, FAULTS["none"], rounds=12)
    block = first_block(world)
    away, kept = block.locations
    partition = world.partition()
    partition.amend(block.number, lambda known: known._replace(locations=(kept,)))
    assert block.number in sync(world, away)  # Nobody has finished it.
    partition.amend(block.number, lambda known: known._replace(rows=1, digest=b"d" * 32))
    assert block.number in sync(world, away)  # It may be the only one that is left by now.
    assert block.number in sync(world, kept)


def damaged_copy(world):
    """Have a segment that is set aside as rotten."""
    block = first_block(world)
    node = world.machines[block.locations[0]]
    name = BlockName("core_0", block.number)
    file = node.disk.open(f"core_0/{block.number:016d}.qseg", writable=True)
    file.write(10, b"rotten")
    file.close()
    with pytest.raises(DamageError):
        node.node.verify(name)
    assert [each.name for each in node.node.damaged()] == [name]
    return node


def test_r41_what_is_damaged_goes_when_it_is_purged_and_not_before(world):
    machine = damaged_copy(world)
    sync(world, machine.node.name)
    assert machine.node.damaged()
    world.partition().purge(1 << 62)
    assert sync(world, machine.node.name) == []
    assert machine.node.damaged() == ()
    assert [each.name for each in machine.disk.list_dir("core_0")] == ["floor"]


def test_what_is_damaged_and_cannot_be_deleted_is_told(world, monkeypatch):
    machine = damaged_copy(world)
    world.partition().purge(1 << 62)

    def refuse(*_):
        raise StorageError("read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(machine.node, "drop", refuse)
        faults = sync_with_records(machine.node, world.metadata, world.clock)
    assert "read-only" in str(faults[-1])
    sync(world, machine.node.name)
    assert machine.node.damaged() == ()
