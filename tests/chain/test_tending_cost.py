"""What a pass costs, and what it does when one source, or one target, fails."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_world import Client, World

from quiver.chain.copies.names import LOG, SEGMENT, file_of
from quiver.chain.peers import BlockName
from quiver.chain.placing import START_DELAY_NS
from quiver.chain.tending import Tender
from quiver.errors import DamagedEntry

LATER = 10 * START_DELAY_NS


def tender_of(world):
    client = Client("auditor")
    return Tender(
        world.partition(), "core_0", peers=lambda name: Link(world, client, name),
        random=world.lot.random,
    )  # fmt: skip


def tend(world, tender, *, now_ns=0, gone_since=()):
    tender.tend({node.name: node for node in world.nodes()}, dict(gone_since), now_ns=now_ns)


def blocks_of(world):
    partition = world.partition()
    record = partition.read()
    return [partition.block(record, each.number) for each in partition.blocks(record)]


@pytest.fixture
def world():
    made = World(9, rf=3, nodes=5)
    life_of(made, FAULTS["none"], rounds=8)
    return made


def test_a_pass_reads_no_object_for_a_block_that_did_not_change(world):
    tender = tender_of(world)
    tend(world, tender)
    asked = []
    real = world.metadata.get
    world.metadata.get = lambda key: asked.append(key) or real(key)
    tend(world, tender)
    assert set(asked) == {"core_0/record"}


def test_another_source_is_taken_when_one_is_damaged(world):
    tender = tender_of(world)
    tend(world, tender)
    block = blocks_of(world)[0]
    lost, _, tail = block.locations
    disk = world.machines[tail].disk
    file = disk.open(file_of(BlockName("core_0", block.number), SEGMENT), writable=True)
    file.write(file.size() // 2, b"\xff\xff\xff")
    world.machines[lost].die()
    tend(world, tender, gone_since={lost: 0}, now_ns=LATER)
    now = blocks_of(world)[0]
    assert len(now.locations) == 3
    assert lost not in now.locations


def test_r42_logs_stay_when_a_location_cannot_fetch_what_the_others_finished(world):
    block = blocks_of(world)[0]
    name = BlockName("core_0", block.number)
    tender = tender_of(world)
    head = world.machines[block.locations[0]].node
    real = head.finish
    other = real(name)._replace(digest=b"x" * 32)
    copy = world.machines[block.locations[0]].copies[name]
    copy._state = copy._state._replace(finished=other)

    def refused(*_):
        raise DamagedEntry("it cannot be fetched")

    head.fetch = refused
    tend(world, tender)
    for location in block.locations:
        assert world.machines[location].disk.stat(file_of(name, LOG)) is not None
    del head.fetch
    tend(world, tender)
    finished = {
        held.finished
        for location in block.locations
        for held in world.machines[location].node.status().holdings
        if held.name == name
    }
    assert len(finished) == 1
    assert world.machines[block.locations[0]].disk.stat(file_of(name, LOG)) is None
