"""Nodes read their segments again, and what rots comes anew from another location."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_tended import blocks_of, check_segments, whole_world
from chain_wire_kit import PATIENCE
from chain_world import Client, World

from quiver.chain.copies.names import SEGMENT, file_of
from quiver.chain.peers import BlockName
from quiver.chain.sealing import Sealed
from quiver.chain.serving import Scrubbing, ScrubRules
from quiver.chain.tending import Tender
from quiver.errors import ConfigError, DamagedEntry, StorageError

UNBOUND = ScrubRules(bytes_per_second=1 << 40)


@pytest.fixture
def world():
    for seed in range(16, 100):
        made = World(seed, rf=2, nodes=4)
        life_of(made, FAULTS["none"], rounds=8)
        tend(made)
        if len(blocks_of(made)) > 1:
            return made
    pytest.fail("no life of these has more than one block")


def tend(world):
    client = Client("auditor")
    tender = Tender(
        world.partition(), "core_0", peers=lambda name: Link(world, client, name),
        random=world.lot.random,
    )  # fmt: skip
    done = tender.tend({node.name: node for node in world.nodes()}, {}, now_ns=0)
    return [(each.act, each.number) for each in done if each.error is None]


def segments_of(node):
    return sum(each.finished is not None for each in node.status().holdings)


def rot(world, node, number):
    path = file_of(BlockName("core_0", number), SEGMENT)
    file = world.machines[node].disk.open(path, writable=True)
    middle = file.size() // 2
    file.write(middle, bytes([file.read(middle, 1)[0] ^ 0x10]))
    file.close()


def test_what_is_rotten_is_found_told_and_fetched_anew(world):
    block, *others = blocks_of(world)
    assert others
    bad, good = block.locations
    scrubs = {name: Scrubbing(each.node, UNBOUND) for name, each in world.machines.items()}
    held = {name: segments_of(each.node) for name, each in world.machines.items()}
    assert {name: each.scrub() for name, each in scrubs.items()} == held
    rot(world, bad, block.number)
    assert scrubs[bad].scrub() == held[bad] - 1
    (fault,) = scrubs[bad].faults
    assert isinstance(fault, DamagedEntry)
    assert file_of(BlockName("core_0", block.number), SEGMENT) in str(fault)
    assert scrubs[good].scrub() == held[good]
    (told,) = world.machines[bad].node.damaged()
    assert told.name == ("core_0", block.number)
    assert ("copy", block.number) in tend(world)
    check_segments(world, 2)
    assert sum(segments_of(each.node) for each in world.machines.values()) == sum(held.values())


def test_a_source_that_is_rotten_is_found_out_when_it_is_copied_from(world):
    block = blocks_of(world)[0]
    first, last = block.locations
    name = BlockName("core_0", block.number)
    rot(world, last, block.number)
    world.machines[first].node.drop(name)
    tend(world)
    (told,) = world.machines[last].node.damaged()
    assert told.name == name


def test_what_is_rotten_serves_nobody_also_where_the_disk_is_full():
    world = whole_world(11, rf=2, nodes=5, rounds=12)
    block = blocks_of(world)[0]
    name, machine = BlockName("core_0", block.number), world.machines[block.locations[0]]
    machine.node.cut(name, Sealed(block.length, block.last_seq, block.start, block.end, ()))
    machine.node.finish(name)  # Its log is here yet.
    rot(world, machine.node.name, block.number)
    machine.disk.fail(lambda act: act.path.endswith(".copy.tmp"), error="ENOSPC", sticky=True)
    with pytest.raises(DamagedEntry):
        machine.node.verify(name)
    assert [each.name for each in machine.node.damaged()] == [name]


def test_it_ends_with_the_node_in_the_middle_of_a_segment(world):
    node = next(each.node for each in world.machines.values() if each.node.status().holdings)
    scrubbing = Scrubbing(node, ScrubRules(bytes_per_second=1))
    scrubbing.start()
    scrubbing.stop(seconds=PATIENCE)
    assert not scrubbing._thread.is_alive()
    assert scrubbing.faults == []
    assert scrubbing.scrub() == 0


def test_it_goes_on_where_nobody_knows_how_full_the_disk_is(world, monkeypatch):
    def refuse(*_):
        raise StorageError("how full the disk is cannot be told")

    node = world.machines["a"].node
    monkeypatch.setattr(node, "room", refuse)
    with pytest.raises(StorageError):
        node.status()
    scrubbing = Scrubbing(node, UNBOUND)
    assert scrubbing.scrub() == sum(each.finished is not None for each in node.holdings()) > 0


def test_none_is_read_if_nobody_wants_it(world):
    scrubbing = Scrubbing(world.machines["a"].node, ScrubRules(bytes_per_second=0))
    scrubbing.start()
    scrubbing.stop()
    with pytest.raises(ConfigError):
        ScrubRules(bytes_per_second=-1)
    with pytest.raises(ConfigError):
        ScrubRules(every_seconds=0)
