"""The auditor moves blocks to nodes that have room, behind all repairs, and in one order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_tended import blocks_of, check_segments
from chain_world import Client, World

from quiver.chain.peers import BlockName
from quiver.chain.placing import REST, START_DELAY_NS, skew
from quiver.chain.tending import Auditor, Balancer
from quiver.errors import QuiverError, RemoteError

SECONDS = START_DELAY_NS // 10**9 + 1


class Nodes:
    """The machines of a world as an auditor asks for them."""

    def __init__(self, world, hosts=()):
        self.world = world
        self.hosts = dict(hosts)
        self.client = Client("auditor")
        self.gone = {}
        self.left = frozenset()

    def __call__(self, name):
        return Link(self.world, self.client, name)

    def nodes(self):
        found = [node for node in self.world.nodes() if node.name not in self.left]
        return [replace(node, host=self.hosts.get(node.name, "")) for node in found]

    def gone_since(self):
        return self.gone

    def leaving(self):
        return self.left


def auditor_of(world, nodes=None):
    nodes = nodes or Nodes(world)
    return Auditor(world.metadata, nodes, clock=world.clock, random=world.lot.random)


def passed(auditor, **given):
    """Do a pass; gives what was done, and that nothing failed."""
    acts = [
        (each.act, each.number, each.node, each.error)
        for _, done in auditor.audit(**given)
        for each in done
    ]
    assert [error for *_, error in acts if error] == []
    return [(act, number, node) for act, number, node, _ in acts if act != "settle"]


def bound(world, share=0.6):
    """Give all machines disks that are so full."""
    held = [machine.capacity - machine.room()[0] for machine in world.machines.values()]
    for machine in world.machines.values():
        machine.capacity = int(max(held) / share)


def locations_of(world):
    return {block.number: block.locations for block in blocks_of(world)}


@pytest.fixture
def world():
    made = World(11, rf=2, nodes=3, soft_bytes=1_000)
    life_of(made, FAULTS["none"], rounds=40)
    passed(auditor_of(made))
    bound(made)
    assert len(blocks_of(made)) >= 10
    return made


def test_blocks_go_to_a_node_that_joined_empty_and_are_copied_before_they_are_dropped(world):
    world.join("d")
    world.machines["d"].capacity = world.machines["a"].capacity
    auditor = auditor_of(world)
    before = locations_of(world)
    moves = 0
    for _ in range(12):
        acts = passed(auditor)
        check_segments(world, 2)
        moves += sum(act == "move" for act, *_ in acts)
        world.clock.step(SECONDS)
    assert acts == []  # It rests.
    assert moves == sum("d" in each for each in locations_of(world).values()) > 0
    assert skew(world.nodes()) <= REST + 0.1  # One block is a tenth of these disks, or less.
    for number, locations in locations_of(world).items():
        assert len(set(locations)) == 2
        if locations != before[number]:
            assert locations[0] == "d"  # Whoever is read first is still last.
            assert locations[1] in before[number]
    held = {name: machine.node.status().holdings for name, machine in world.machines.items()}
    for name, holdings in held.items():
        listed = {number for number, at in locations_of(world).items() if name in at}
        numbers = {each.name.number for each in holdings} & locations_of(world).keys()
        assert numbers == listed  # The old copies are gone.
    assert sum(check_segments(world, 2)) == len(world.sent)


def test_r39_nothing_moves_while_a_copy_is_wanted(world):
    world.join("d")
    world.machines["d"].capacity = world.machines["a"].capacity
    lost = blocks_of(world)[0].locations[0]
    world.machines[lost].die()
    nodes = Nodes(world)
    nodes.gone = {lost: world.clock.monotonic_ns() - 2 * START_DELAY_NS}
    auditor = auditor_of(world, nodes)
    acts = passed(auditor, copied_max=3)
    assert [act for act, *_ in acts] == ["copy"] * 3
    assert auditor.is_behind
    acts = passed(auditor)
    assert {act for act, *_ in acts} == {"copy"}
    assert not auditor.is_behind
    assert {len(each) for each in locations_of(world).values()} == {2}


def test_blocks_move_although_copies_are_wanted_that_nobody_can_take():
    """Three copies on hosts of which there are two, and a second node on one of them."""
    world = World(12, rf=3, nodes=2, soft_bytes=1_000)
    life_of(world, FAULTS["none"], rounds=30)
    passed(auditor_of(world))
    bound(world)
    world.join("c")
    world.machines["c"].capacity = world.machines["a"].capacity
    nodes = Nodes(world, hosts={"a": "one", "c": "one"})
    auditor = auditor_of(world, nodes)
    acts = [act for _ in range(12) for act in passed(auditor)]
    assert {act for act, *_ in acts} == {"copy", "move"}
    assert {len(each) for each in locations_of(world).values()} == {2}
    assert {frozenset(each) for each in locations_of(world).values()} <= {
        frozenset("ab"),
        frozenset("bc"),
    }


def test_a_target_that_fails_is_left_alone_for_a_while(world):
    world.join("d")
    world.machines["d"].capacity = world.machines["a"].capacity
    nodes = Nodes(world)
    balancer = Balancer(world.metadata, nodes, clock=world.clock)
    planned = balancer.due()
    assert {move.target for move in planned} == {"d"}
    for other in "abc":
        world.cut_link(other, "d")
    done = [each for move in planned for each in balancer.move(move)]
    assert done
    assert all(isinstance(each.error, RemoteError) for each in done)
    assert "d" not in {node for at in locations_of(world).values() for node in at}
    world.cut.clear()
    assert "d" not in {move.target for move in balancer.due()}
    world.clock.step("11m")
    assert {move.target for move in balancer.due()} == {"d"}


def test_a_move_that_comes_too_late_does_nothing(world):
    world.join("d")
    world.machines["d"].capacity = world.machines["a"].capacity
    balancer = Balancer(world.metadata, Nodes(world), clock=world.clock)
    one, *_ = balancer.due()
    assert balancer.move(one)
    assert balancer.move(one) == []
    world.partition().purge(1 << 62)
    assert balancer.move(one._replace(source="d", target="a")) == []


def test_two_auditors_at_once_cost_no_copy(world):
    world.join("d")
    world.machines["d"].capacity = world.machines["a"].capacity
    auditors = [auditor_of(world), auditor_of(world)]
    for _ in range(20):
        for each in auditors:
            passed(each)
            check_segments(world, 2)
        world.clock.step(SECONDS)
    assert skew(world.nodes()) <= REST + 0.1


@pytest.mark.parametrize("name", FAULTS)
def test_moves_among_faults_end_with_all_copies(name):
    for seed in range(2):
        world = World(seed, rf=2, nodes=4, soft_bytes=1_000)
        life_of(world, FAULTS["none"], rounds=16)
        auditor = auditor_of(world)
        passed(auditor)
        bound(world)
        world.join("e")
        world.machines["e"].capacity = world.machines["a"].capacity
        for _ in range(8):
            world.lot.random.choice(FAULTS[name])(world)
            try:
                list(auditor.audit())
            except QuiverError:
                assert world.metadata.is_away
            world.clock.step(SECONDS)
        world.heal()
        for _ in range(6):
            list(auditor.audit())
            world.clock.step(SECONDS)
        assert sum(check_segments(world, 2)) == len(world.sent)
        for block in blocks_of(world):
            for location in block.locations:
                holdings = world.machines[location].node.status().holdings
                assert BlockName("core_0", block.number) in {each.name for each in holdings}


def test_blocks_move_also_while_another_partition_cannot_be_read(world):
    world.join("d")
    world.machines["d"].capacity = world.machines["a"].capacity
    world.metadata.cas("other/record", None, b"what somebody left")
    auditor, acts = auditor_of(world), []
    for _ in range(12):
        acts += [(name, each.act, each.error) for name, done in auditor.audit() for each in done]
        world.clock.step(SECONDS)
    assert any((name, act, error) == ("core_0", "move", None) for name, act, error in acts)
    assert {name for name, _, error in acts if error} == {"other"}
    assert {act for *_, act, error in acts if error} == {"tend", "balance"}
    assert sum(check_segments(world, 2)) == len(world.sent)
