"""The auditor's pass: segments are made, copies come back, and what is gone goes everywhere."""

from __future__ import annotations

from itertools import combinations

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_tended import blocks_of, check_segments, whole_world
from chain_world import Client, World

from quiver.chain.peers import BlockName
from quiver.chain.placing import START_DELAY_NS
from quiver.chain.record import claimed
from quiver.chain.tending import Tender, abandon
from quiver.errors import InputError, LockedError, MissingError, RemoteError

LATER = 10 * START_DELAY_NS


def tender_of(world):
    client = Client("auditor")
    return Tender(
        world.partition(),
        "core_0",
        peers=lambda name: Link(world, client, name),
        random=world.lot.random,
    )


def tend(world, tender, *, now_ns=0, gone_since=()):
    nodes = {node.name: node for node in world.nodes()}
    done = tender.tend(nodes, dict(gone_since), now_ns=now_ns)
    return [(each.act, each.node) for each in done if each.error is None]


@pytest.fixture
def world():
    return whole_world(11, rf=2, nodes=5, rounds=12)


def test_r22_r42_sealed_blocks_are_finished_and_their_logs_go(world):
    tender = tender_of(world)
    done = tend(world, tender)
    count = len(blocks_of(world))
    assert count >= 2
    assert len([act for act, _ in done if act == "finish"]) == 2 * count
    assert len([act for act, _ in done if act == "settle"]) == 2 * count
    assert sum(check_segments(world, 2)) == len(world.sent)
    logs = [
        world.log_of(name, BlockName("core_0", block.number))
        for name in world.machines
        for block in blocks_of(world)
    ]
    assert not any(logs)
    assert tend(world, tender) == []
    assert tend(world, tender_of(world)) == []  # Another auditor repeats nothing.


def test_r42_a_log_stays_as_long_as_one_location_has_no_segment():
    world = whole_world(13, rf=3, nodes=4, rounds=6)
    away = blocks_of(world)[0].locations[0]
    world.machines[away].die()
    tender = tender_of(world)
    tend(world, tender, gone_since={away: 0}, now_ns=1)
    first = blocks_of(world)[0]
    tail = world.machines[first.locations[-1]].node
    (holding,) = [h for h in tail.status().holdings if h.name.number == first.number]
    assert world.log_of(first.locations[-1], BlockName("core_0", first.number))
    assert holding.finished.digest == first.digest
    world.machines[away].start()
    assert ("settle", away) in tend(world, tender)
    check_segments(world, 3)


def test_r35_copies_of_a_lost_node_come_back_before_the_tail(world):
    tender = tender_of(world)
    tend(world, tender)
    before = {block.number: block.locations for block in blocks_of(world)}
    lost = blocks_of(world)[0].locations[0]
    world.machines[lost].die()
    tend(world, tender, gone_since={lost: 0}, now_ns=LATER)
    assert sum(check_segments(world, 2)) == len(world.sent)
    for block in blocks_of(world):
        was = before[block.number]
        assert lost not in block.locations
        if lost in was:
            (kept,) = [name for name in was if name != lost]
            assert block.locations[-1] == kept
    world.machines[lost].start()  # What it has is listed nowhere, and goes after a while.
    assert [act for act, node in tend(world, tender, now_ns=LATER) if node == lost] == []
    assert {act for act, node in tend(world, tender, now_ns=2 * LATER)} == {"drop"}
    assert world.machines[lost].node.status().holdings == ()


def test_r30_any_one_of_two_copies_may_be_lost():
    for pair in combinations("abcd", 2):
        world = World(12, rf=3, nodes=4)
        life_of(world, FAULTS["none"], rounds=6)
        tender = tender_of(world)
        tend(world, tender)
        for name in pair:
            world.machines[name].die()
        gone = dict.fromkeys(pair, 0)
        assert sum(check_segments(world)) == len(world.sent)
        tend(world, tender, gone_since=gone, now_ns=LATER)
        assert sum(check_segments(world)) == len(world.sent)
        for name in pair:
            world.machines[name].start()
        tend(world, tender, now_ns=2 * LATER)
        assert sum(check_segments(world, 3)) == len(world.sent)


def test_a_node_that_vanished_a_moment_ago_is_waited_for():
    world = whole_world(13, rf=3, nodes=5, rounds=6)
    tender = tender_of(world)
    tend(world, tender)
    lost = blocks_of(world)[0].locations[0]
    world.machines[lost].die()
    assert tend(world, tender, gone_since={lost: LATER}, now_ns=LATER) == []
    assert ("copy", lost) not in tend(world, tender, gone_since={lost: 0}, now_ns=LATER)
    assert sum(check_segments(world, 3)) == len(world.sent)


def test_r31_a_node_that_joins_fills_up_what_had_too_few():
    world = World(14, rf=3, nodes=2)
    life_of(world, FAULTS["none"], rounds=6)
    assert all(len(block.locations) <= 2 for block in blocks_of(world))
    tender = tender_of(world)
    tend(world, tender)
    world.join("f")
    tend(world, tender)
    assert sum(check_segments(world, 3)) == len(world.sent)


def test_r41_a_purge_is_on_all_nodes_also_on_one_that_was_away(world):
    tender = tender_of(world)
    tend(world, tender)
    first, *_ = blocks_of(world)
    away = first.locations[0]
    world.machines[away].die()
    world.partition().purge(first.end + 1)
    tend(world, tender, gone_since={away: LATER}, now_ns=LATER)
    world.machines[away].start()
    assert ("drop", away) in tend(world, tender, now_ns=LATER)
    for machine in world.machines.values():
        assert all(h.name.number > first.number for h in machine.node.status().holdings)
    check_segments(world)


def test_a_purge_before_the_record_says_so_is_found(world):
    tender = tender_of(world)
    tend(world, tender)
    first, *_ = blocks_of(world)
    for location in first.locations:
        world.machines[location].node.drop(BlockName("core_0", first.number))
    world.metadata.is_away = True
    with pytest.raises(RemoteError):
        world.partition().purge(first.end + 1)
    world.metadata.is_away = False
    with pytest.raises(MissingError):
        check_segments(world)


def test_rooms_that_were_made_in_vain_are_dropped():
    world = World(15)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    held = [name for name, each in world.machines.items() if each.node.status().holdings]
    done = tend(world, tender_of(world))
    assert sorted(done) == [("drop", name) for name in held]
    assert not any(each.node.status().holdings for each in world.machines.values())


@pytest.mark.parametrize("name", FAULTS)
def test_r18_r35_passes_through_faults_end_with_all_copies(name):
    for seed in range(3):
        world = World(seed, rf=2)
        life_of(world, FAULTS[name], rounds=8)
        tender = tender_of(world)
        for turn in range(6):
            world.lot.random.choice(FAULTS[name])(world)
            try:
                tend(world, tender, now_ns=turn * LATER)
            except RemoteError:
                assert world.metadata.is_away
        world.heal()
        for turn in range(7, 11):
            tend(world, tender, now_ns=turn * LATER)
        assert sum(check_segments(world, 2)) == len(world.sent)


def opened_in(world):
    """Give the partition, its record, and the loader of a block that is open."""
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    partition = world.partition()
    return partition, partition.read(), loader


def peers_of(world):
    return lambda name: Link(world, Client("somebody"), name)


def test_what_is_lost_for_good_is_given_up_by_an_act_that_is_kept():
    world = World(16)
    partition, seen, _ = opened_in(world)
    for name in seen.open.locations:
        world.machines[name].die()
    record = abandon(partition, seen, by="somebody", peers=peers_of(world))
    assert record.open is None
    assert record.recent[-1].is_abandoned
    with pytest.raises(InputError, match="no block is open"):
        abandon(partition, record, by="somebody else", peers=peers_of(world))
    for name in seen.open.locations:
        world.machines[name].start()
    assert tend(world, tender_of(world)) == []  # Whatever comes back of it is kept.
    assert any(each.node.status().holdings for each in world.machines.values())


def test_a_block_that_a_location_has_again_is_not_given_up_and_nobody_hears_of_more():
    world = World(16)
    partition, seen, loader = opened_in(world)
    receipt = world.send(loader)
    with pytest.raises(InputError, match="has block 0 of core_0 again"):
        abandon(partition, seen, by="somebody", peers=peers_of(world))
    kept = partition.read()
    assert (kept.open, kept.sealing_by) == (seen.open, "somebody")
    world.run(lambda: receipt.is_replicated)
    assert not receipt.is_replicated


def test_a_block_of_a_node_that_only_begins_is_not_given_up():
    world = World(16)
    partition, seen, _ = opened_in(world)

    class Beginning(Link):
        def fence(self, block, epoch):
            raise RemoteError(f"{self.name} is initializing", path=self.name, retryable=True)

    with pytest.raises(InputError, match="again"):
        abandon(
            partition,
            seen,
            by="somebody",
            peers=lambda name: Beginning(world, Client("somebody"), name),
        )


def test_a_block_that_was_ended_since_somebody_looked_is_not_given_up():
    world = World(16)
    partition, seen, _ = opened_in(world)
    for name in seen.open.locations:
        world.machines[name].die()
    now = partition.change(lambda known: claimed(known, "another", takes_over=True))
    with pytest.raises(LockedError, match="block 0 of core_0 is not as it was"):
        abandon(partition, seen, by="somebody", peers=peers_of(world))
    assert partition.read() == now
