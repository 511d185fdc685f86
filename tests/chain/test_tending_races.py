"""Two who look after one partition at once: none of them deletes what the other one relies on."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_tended import blocks_of, check_segments
from chain_world import Client, World

from quiver.chain.peers import BlockName
from quiver.chain.placing import START_DELAY_NS
from quiver.chain.tending import Tender
from quiver.errors import FencedError

LATER = 10 * START_DELAY_NS


class Before:
    """A link on which something happens before a call goes out, once."""

    def __init__(self, world, name, acts):
        self.link, self.acts = Link(world, Client("auditor"), name), acts

    def __getattr__(self, method):
        act = self.acts.pop((method, self.link.name), None)
        if act is not None:
            act()
        return getattr(self.link, method)


def tender_of(world, **acts):
    given = {tuple(key.split("_")): act for key, act in acts.items()}
    return Tender(
        world.partition(), "core_0", peers=lambda name: Before(world, name, given),
        random=world.lot.random,
    )  # fmt: skip


def tend(world, tender, *, now_ns=0, gone=(), among=None):
    nodes = {node.name: node for node in world.nodes() if among is None or node.name in among}
    done = tender.tend(nodes, dict.fromkeys(gone, 0), now_ns=now_ns)
    return [(each.act, each.node, type(each.error)) for each in done if each.error is not None]


@pytest.fixture
def world():
    made = World(11, rf=2, nodes=5)
    life_of(made, FAULTS["none"], rounds=4)
    tend(made, tender_of(made))
    return made


def away_and_back(world):
    """Have a location of the first block be away until another one has its copies."""
    block = blocks_of(world)[0]
    lost, kept = block.locations
    world.machines[lost].die()
    tend(world, tender_of(world), now_ns=LATER, gone=[lost])
    world.machines[lost].start()
    (new,) = set(blocks_of(world)[0].locations) - {kept}
    return block, lost, kept, new


def test_a_slow_auditor_drops_nothing_that_another_one_listed_meanwhile(world):
    block, lost, kept, new = away_and_back(world)

    def listed_again():
        world.machines[new].die()
        tend(world, tender_of(world), now_ns=3 * LATER, gone=[new], among=[lost, kept])
        assert lost in blocks_of(world)[0].locations

    slow = tender_of(world, **{f"drop_{lost}": listed_again})
    tend(world, slow, now_ns=LATER)
    faults = tend(world, slow, now_ns=2 * LATER)
    assert ("drop", lost, FencedError) in faults
    copies = world.machines[lost].node.status().holdings
    assert block.number in [each.name.number for each in copies]
    check_segments(world, 2)


def test_what_was_dropped_before_it_could_be_listed_is_copied_once_more(world):
    block, lost, kept, new = away_and_back(world)
    world.machines[new].die()
    second = tender_of(world)
    partition = second._partition
    real = partition.amend

    def amend(number, act):
        if number == block.number:
            copy = world.machines[lost].node
            copy.drop(BlockName("core_0", number), copy.condemn(BlockName("core_0", number)))
        return real(number, act)

    partition.amend = amend
    tend(world, second, now_ns=3 * LATER, gone=[new], among=[lost, kept])
    assert lost in blocks_of(world)[0].locations
    check_segments(world, 2)


def test_a_copy_is_not_dropped_for_one_that_is_gone(world):
    block, lost, kept, new = away_and_back(world)
    name = BlockName("core_0", block.number)

    def lose():
        for each in (kept, new):
            world.machines[each].node.drop(name)

    auditor = tender_of(world, **{f"condemn_{lost}": lose})
    tend(world, auditor, now_ns=LATER)
    tend(world, auditor, now_ns=2 * LATER)
    check_segments(world, 2)  # Those who are listed have it again, from the one that was to go.


def test_a_copy_that_nobody_lists_is_listed_when_all_others_are_lost(world):
    _, lost, kept, new = away_and_back(world)
    for each in (kept, new):
        world.machines[each].die()
    tend(world, tender_of(world), now_ns=2 * LATER, gone=[kept, new])
    first = blocks_of(world)[0]
    assert lost in first.locations
    assert not {kept, new} & set(first.locations)
    assert len(first.locations) == 2
