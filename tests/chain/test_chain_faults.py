"""A loader and nodes in one thread, by lot: whatever fails, what was acknowledged is there once."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_oracle import check_partition, contested_of, life_of, takeover_of, waited_of
from chain_world import World

from quiver.chain.node.passage import Passage
from quiver.chain.peers import BlockName
from quiver.errors import CapacityError, ClosedError, LockedError, OutOfSequenceError
from quiver.testing.acts import Sync

SEEDS = range(8)


@pytest.mark.parametrize("rf", [1, 2, 3])
@pytest.mark.parametrize("name", FAULTS)
def test_r9_r25_r27_acknowledged_is_committed_once_and_in_order(name, rf):
    for seed in SEEDS:
        world = World(seed, rf=rf)
        found = life_of(world, FAULTS[name])
        assert name != "none" or len(found) > 1


@pytest.mark.parametrize("rf", [2, 3])
@pytest.mark.parametrize("name", FAULTS)
def test_r9_r25_r27_so_it_is_when_each_is_waited_for(name, rf, monkeypatch):
    early = []
    pass_on = Passage._pass_on

    def noted(self, frames):
        early.append(len(frames) == 1 and frames[0].has_heard)
        pass_on(self, frames)

    monkeypatch.setattr(Passage, "_pass_on", noted)
    for seed in SEEDS:
        waited_of(World(seed, rf=rf), FAULTS[name])
    assert sum(early) > len(early) / 10


def test_r14_caller_times_part_no_run_but_by_a_fault():
    world = World(5, is_rising=False)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for at in range(60):
        world.send(loader, time_ns=10 + at // 20)
        world.run(turns=20)
    assert world.run(lambda: loader.acked_seq >= world.sent[-1].wal_seq)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    world.run()
    found = check_partition(world)
    assert len(found) == 3
    assert not any(block.continues for block, _ in found)


@pytest.mark.parametrize("name", FAULTS)
def test_r2_who_is_taken_over_from_writes_nothing_more(name):
    for seed in SEEDS:
        takeover_of(World(seed), FAULTS[name])


@pytest.mark.parametrize("name", FAULTS)
def test_r2_many_who_take_over_from_each_other_lose_nothing(name):
    for seed in SEEDS:
        contested_of(World(seed), FAULTS[name])


def test_r2_a_second_loader_is_refused():
    world = World(3)
    first = world.loader()
    assert world.run(lambda: first.record is not None)
    second = world.loader("second")
    assert world.run(lambda: second._driver.fault is not None)
    with pytest.raises(LockedError, match="partition is"):
        second.wait_open(0)
    world.send(first)
    assert world.run(lambda: first.acked_seq == 0)


def test_a_pair_that_failed_is_avoided_for_a_while_and_not_for_good():
    world = World(7, nodes=3, rf=3)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None and loader.record.open is not None)
    first, second, _ = loader.record.open.locations
    world.cut_link(first, second)
    world.send(loader)
    assert world.run(lambda: loader.acked_seq == 0)
    assert loader._driver.tasks._breaks
    world.heal()
    assert world.run(lambda: not loader._driver._roll.avoid)
    for _ in range(60):
        world.send(loader)
        world.run(turns=20)
    assert world.run(lambda: loader.acked_seq == world.sent[-1].wal_seq)
    assert world.run(lambda: len(loader.record.open.locations) == 3)


def test_r4_r5_decreasing_times_are_refused_and_equal_ones_keep_their_order():
    world = World(4, is_rising=False)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for given in (10, 10, 10, 20):
        world.send(loader, time_ns=given)
    with pytest.raises(OutOfSequenceError) as raised:
        world.send(loader, time_ns=19)
    assert (raised.value.partition, raised.value.last, raised.value.given) == ("core_0", 20, 19)
    world.send(loader, time_ns=20)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    world.run()
    check_partition(world)


def test_r25_nothing_is_acked_or_seen_before_the_last_one_has_it():
    world = World(6, nodes=2)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None and loader._driver._flow.stream is not None)
    head, tail = loader.record.open.locations
    world.machines[tail].disk.fail(lambda act: isinstance(act, Sync), error="kill")
    receipts = [world.send(loader) for _ in range(5)]
    world.run(lambda: world.machines[tail].is_dead)
    assert world.log_of(head, BlockName("core_0", loader.record.open.number))
    assert not any(receipt.is_replicated for receipt in receipts)
    world.heal()
    assert world.run(lambda: all(receipt.is_replicated for receipt in receipts), turns=20_000)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    world.run()
    check_partition(world)


def test_metadata_that_are_away_let_the_open_block_grow_up_to_the_hard_limit():
    world = World(7, hard_bytes=9_000, buffer_bytes=12_000)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None and loader._driver._flow.stream is not None)
    world.metadata.is_away = True
    with pytest.raises(CapacityError, match="wait to be acknowledged"):
        for _ in range(200):
            world.send(loader)
            world.run(turns=200)
    assert 4_000 < loader._driver._flow.length < 9_000 + 500
    world.metadata.is_away = False
    assert world.run(lambda: loader.acked_seq >= world.sent[-1].wal_seq, turns=20_000)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    world.run()
    assert len(check_partition(world)) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_with_too_few_copies_is_ended_early_when_a_node_joins(seed):
    world = World(seed, nodes=2, rf=3)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None and loader._driver._flow.stream is not None)
    world.send(loader)
    assert world.run(lambda: loader.acked_seq == 0)
    assert len(loader.record.open.locations) == 2
    world.join("c")
    assert world.run(lambda: len(loader.record.open.locations) == 3)
    assert loader.record.open.number > 0
    for _ in range(5):
        world.send(loader)
    assert world.run(lambda: loader.acked_seq == 5)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    world.run()
    assert len(check_partition(world)) > 1


def test_metadata_that_let_one_wait_for_a_claim_let_the_open_block_go_on():
    world = World(7, hard_bytes=40_000)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None and loader._driver._flow.stream is not None)
    tasks, asked = loader._driver.tasks, []
    claim = tasks.claim
    tasks.claim = lambda act, **given: asked.append((act, given))
    for _ in range(60):
        world.send(loader)
        world.run(turns=200)
    assert len(asked) == 1
    assert world.run(lambda: loader.acked_seq == world.sent[-1].wal_seq)
    assert loader._driver._flow.length > 4_500
    tasks.claim = claim
    claim(asked[0][0], **asked[0][1])
    assert world.run(lambda: loader.record.open.number > 0)
    world.send(loader)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    world.run()
    assert len(check_partition(world)) == 2


@pytest.mark.parametrize("place", ["nodes", "peers"])
def test_a_loader_that_meets_what_nobody_thought_of_says_so_and_waits_for_nothing(place):
    world = World(8)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None and loader._driver._flow.stream is not None)
    receipt = world.send(loader)
    loader._driver._flow.stream.close()

    def surprise(*_, **__):
        raise ZeroDivisionError(place)

    if place == "nodes":
        loader._driver.tasks._ask_for_room = surprise
        for machine in world.machines.values():
            machine.die()
            machine.start()
    else:
        loader._driver._send_frame = surprise
    with pytest.raises(ZeroDivisionError):
        world.run()
    world.run()
    with pytest.raises(ClosedError, match="ZeroDivisionError"):
        receipt.wait(0)
    with pytest.raises(ClosedError):
        world.send(loader)
