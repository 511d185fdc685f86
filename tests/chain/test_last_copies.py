"""What is left of a block whose copies are too few: it is kept, found, and copied by who can."""

from __future__ import annotations

import pytest
from chain_links import Link
from chain_tended import blocks_of, check_segments, whole_world
from chain_world import Client, World

from quiver.chain.tending import Auditor
from quiver.errors import DamageError, StorageError
from quiver.testing import MemoryDisk


class Nodes:
    """All machines of a world, but for those that are gone."""

    def __init__(self, world):
        self.world, self.gone, self.read_only = world, {}, set()
        self.auditor = Auditor(world.metadata, self, clock=world.clock, random=world.lot.random)

    def __call__(self, name):
        link = Link(self.world, Client("auditor"), name)
        if name in self.read_only:
            link.fetch = self.refuse
        return link

    def refuse(self, *_):
        raise StorageError("read-only file system")

    def nodes(self):
        return [node for node in self.world.nodes() if node.name not in self.gone]

    def gone_since(self):
        return self.gone

    def leaving(self):
        return frozenset()

    def audit(self, passes=1):
        """Give what was done in some passes, twenty seconds apart."""
        found = []
        for _ in range(passes):
            found += [done for each in self.auditor.audit() for done in each.done]
            self.world.clock.step("20s")
        return found


def sealed_alone():
    """A block of two copies that one was sealed with; the other node has a log of all of it."""
    world = World(5, nodes=3, rf=2, soft_bytes=10**9, hard_bytes=2 * 10**9)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for _ in range(5):
        world.send(loader)
    assert world.run(lambda: world.sent[-1].is_replicated)
    away = world.partition().read().open.locations[1]
    world.machines[away].die()
    loader.end()
    assert world.run(lambda: world.partition().read().open is None)
    (block,) = blocks_of(world)
    (listed,) = block.locations
    assert listed != away
    (other,) = world.machines.keys() - {listed, away}
    world.machines[other].die()
    world.machines[away].start()
    return world, listed, away


@pytest.mark.parametrize("why", ["it is full", "its link is cut"])
def test_a_log_that_is_the_second_copy_is_kept_until_there_are_as_many_as_wanted(why):
    world, listed, away = sealed_alone()
    nodes = Nodes(world)
    if why == "it is full":
        world.machines[away].capacity = 100
    else:
        world.cut_link(listed, away)
    nodes.audit(5)
    assert [block.locations for block in blocks_of(world)] == [(listed,)]
    assert world.machines[away].node.status().holdings
    world.machines[away].capacity = 1 << 40
    world.heal()
    nodes.audit(5)
    assert check_segments(world, 2) == [5]


def test_a_log_without_a_listed_copy_is_what_the_block_comes_back_from():
    world, listed, away = sealed_alone()
    world.machines[listed].die()
    world.machines[listed].disk = MemoryDisk()
    world.machines[listed].start()
    nodes = Nodes(world)
    assert nodes.audit() == []
    assert not [done for done in nodes.audit(5) if done.error is not None]
    assert check_segments(world, 2) == [5]
    assert {*blocks_of(world)[0].locations} == {listed, away}


def test_a_log_that_is_not_what_was_sealed_brings_nothing_back():
    world, listed, away = sealed_alone()
    (block,) = blocks_of(world)
    world.partition().amend(block.number, lambda known: known._replace(digest=b""))
    log = next(
        each.name for each in world.machines[away].disk.list_dir("core_0") if ".log" in each.name
    )
    file = world.machines[away].disk.open(f"core_0/{log}", writable=True)
    file.truncate(200)
    file.close()
    for each in (listed, away):
        world.machines[each].die()
    world.machines[listed].disk = MemoryDisk()
    for each in (listed, away):
        world.machines[each].start()
    nodes = Nodes(world)
    told = [done for done in nodes.audit(5) if done.error is not None]
    assert told
    assert not blocks_of(world)[0].digest


def test_a_block_that_no_node_has_is_told():
    world, listed, away = sealed_alone()
    for each in (listed, away):
        world.machines[each].die()
        world.machines[each].disk = MemoryDisk()
        world.machines[each].start()
    nodes = Nodes(world)
    assert nodes.audit() == []
    (told, *_) = nodes.audit(2)
    assert isinstance(told.error, DamageError)
    assert "no node has anything of block 0 of core_0" in str(told.error)


@pytest.mark.parametrize("why", ["its disk refuses", "its link is cut"])
def test_the_last_copy_goes_to_another_node_when_the_emptiest_cannot_take_it(why):
    world = whole_world(11, rf=2, nodes=4, rounds=3)
    nodes = Nodes(world)
    nodes.audit()
    block = blocks_of(world)[0]
    lost, kept = block.locations
    unable, able = (name for name in world.machines if name not in block.locations)
    world.machines[able].capacity = world.machines[unable].capacity - 5_000_000
    world.machines[lost].die()
    nodes.gone[lost] = -(10**12)
    if why == "its disk refuses":
        nodes.read_only.add(unable)
    else:
        world.cut_link(unable, kept)
    nodes.audit()
    found = next(each for each in blocks_of(world) if each.number == block.number)
    assert found.locations == (able, kept)
