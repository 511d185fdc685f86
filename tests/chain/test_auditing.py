"""Nodes look after a chain: one audits, orphans are sealed, who is left gives what he has."""

from __future__ import annotations

import threading

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import check_partition, life_of
from chain_tended import blocks_of, check_segments
from chain_watch import Watch, Watched
from chain_world import Client, World

from quiver.chain.peers import BlockName
from quiver.chain.serving import AuditRules
from quiver.chain.tending import ORPHAN_NS, Orphans, seal_open
from quiver.errors import ConfigError, LockedError, MissingError, RemoteError, TornEntry


def orphaned():
    """A block that is open, and its loader gone; all was acknowledged."""
    world = World(31, rf=3, nodes=4)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for _ in range(5):
        world.send(loader)
    assert world.run(lambda: world.sent[-1].is_replicated)
    loader.client.die()
    loader.abandon()
    return world


@pytest.fixture
def world():
    made = World(14, rf=2, nodes=5)
    life_of(made, FAULTS["none"], rounds=12)
    return made


# auditing ----------------------------------------------------------------------------------------


def test_r36_one_audits_and_another_takes_over_when_it_is_gone(world):
    watch = Watch(world)
    (first,) = watch.auditors()
    watch.audit()
    assert all(block.digest for block in blocks_of(world))
    world.machines[first].die()
    watch.seconds(7)
    second = [name for name in watch.auditors() if name != first]
    assert len(second) == 1


def test_r35_a_node_that_is_gone_for_good_is_made_up_for_without_anybody_asking(world):
    watch = Watch(world)
    watch.audit()
    lost = next(name for name in blocks_of(world)[0].locations if name not in watch.auditors())
    world.machines[lost].die()
    watch.seconds(5)  # Its counter stands still; one copy is left of what it had.
    watch.audit()
    for block in blocks_of(world):
        assert lost not in block.locations
        assert len(block.locations) == block.rf == 2
    assert sum(check_segments(world, 2)) == len(world.sent)


def test_a_purge_is_carried_out_on_nodes_and_in_the_metadata(world):
    watch = Watch(world)
    watch.audit()
    world.partition().purge(1 << 62)
    watch.audit()
    assert all(not machine.node.status().holdings for machine in world.machines.values())


def test_what_fails_for_one_partition_is_told_and_the_others_go_on(world):
    watch = Watch(world)
    (auditor,) = watch.auditors()
    world.metadata.cas("aaa/record", None, b"damaged")
    watch.nodes[auditor].auditing.audit()
    assert len(watch.nodes[auditor].auditing.faults) == 1
    assert all(block.digest for block in blocks_of(world))


def test_a_record_that_cannot_be_read_stops_no_node_that_has_the_block_open():
    world = orphaned()
    opened = world.partition().read().open
    watch = Watch(world)
    record = world.metadata.get("core_0/record")
    damaged = world.metadata.cas("core_0/record", record.revision, b"damaged")
    for name in opened.locations:
        auditing = watch.nodes[name].auditing
        auditing.audit()
        told = 2 if auditing.is_auditor else 1  # It is read once more by who tends all.
        assert [type(each) for each in auditing.faults] == [TornEntry] * told
    world.metadata.cas("core_0/record", damaged, record.data)
    watch.audit()
    watch.seconds(31)
    watch.audit()
    assert world.partition().read().open is None


@pytest.mark.parametrize("name", ["every_seconds", "orphan_seconds"])
@pytest.mark.parametrize("seconds", [0, 1.2e10])
def test_times_are_positive_and_not_of_geology(name, seconds):
    with pytest.raises(ConfigError):
        AuditRules(**{name: seconds})


def test_no_error_of_whatever_kind_ends_the_audit(monkeypatch):
    """It kept the lease, and nobody audited from then on."""
    world = World(7)
    auditing = next(iter(Watch(world).nodes.values())).auditing
    passes, told = [], threading.Event()

    def audit():
        passes.append(len(auditing.faults))
        if len(passes) > 2:
            told.set()
        raise MemoryError("malloc of size 3360000000 failed")

    monkeypatch.setattr(auditing, "audit", audit)
    monkeypatch.setattr(auditing, "_rules", AuditRules(every_seconds=1e-3))
    auditing.start()
    try:
        assert told.wait(60)
    finally:
        auditing.stop(seconds=60)
    assert passes[1:3] == [1, 1]
    [fault] = auditing.faults
    assert isinstance(fault, RemoteError)
    assert "MemoryError: malloc of size" in fault.message


# leaving -----------------------------------------------------------------------------------------


def test_a_node_that_is_to_be_left_gets_nothing_and_gives_what_it_has(world):
    watch = Watch(world)
    watch.audit()
    left = blocks_of(world)[0].locations[0]
    assert watch.nodes["a"].members.marked() == frozenset()
    watch.nodes["a"].members.mark(left)
    watch.seconds(1)
    assert watch.nodes[left].is_left
    assert left not in {node.name for node in watch.nodes["a"].members.nodes()}
    watch.audit()
    for block in blocks_of(world):
        assert left not in block.locations
        assert len(block.locations) == 2
    assert sum(check_segments(world, 2)) == len(world.sent)
    watch.seconds(31)
    watch.audit()
    watch.seconds(31)
    watch.audit()
    assert world.machines[left].node.status().holdings == ()
    watch.nodes["a"].members.unmark(left)
    assert watch.nodes["a"].members.marked() == frozenset()
    with pytest.raises(MissingError):
        watch.nodes["a"].members.mark("nobody")


def test_blocks_of_a_node_that_is_left_stay_as_long_as_nobody_else_has_room():
    world = World(17, rf=2, nodes=2)
    life_of(world, FAULTS["none"], rounds=6)
    watch = Watch(world)
    watch.audit()
    watch.nodes["a"].members.mark("b")
    watch.seconds(1)
    watch.audit()
    assert {frozenset(block.locations) for block in blocks_of(world)} == {frozenset("ab")}
    world.join("c")
    watch.nodes["c"] = Watched(world, "c", watch.fed)
    for name in "ab":
        watch.nodes[name].members.add_own(Link(world, world.machines[name], "c"))
    watch.seconds(1)
    watch.audit()
    assert {frozenset(block.locations) for block in blocks_of(world)} == {frozenset("ac")}
    assert sum(check_segments(world, 2)) == len(world.sent)


# orphans -----------------------------------------------------------------------------------------


def test_a_block_whose_loader_is_gone_is_sealed_after_a_while_and_no_sooner():
    world = orphaned()
    watch = Watch(world)
    watch.audit()
    watch.seconds(25)
    watch.audit()
    assert world.partition().read().open is not None
    watch.seconds(10)
    watch.audit()
    watch.audit()
    assert sum(check_segments(world, 3)) == len(world.sent)
    (block,) = blocks_of(world)
    assert block.last_seq == len(world.sent) - 1
    assert block.digest  # And finished in the same pass, or in the next one.


def test_a_block_that_has_a_stream_is_nobodys_orphan():
    world = orphaned()
    watch = Watch(world)
    watch.fed.add(BlockName("core_0", world.partition().read().open.number))
    for _ in range(5):
        watch.seconds(20)
        watch.audit()
    assert world.partition().read().open is not None


def orphans_of(world, name):
    node = world.machines[name].node
    found = Orphans(name, world.metadata, is_fed=lambda _: False, clock=world.clock)
    return lambda: found.look(node.status().holdings)


def test_each_location_waits_longer_than_the_one_before_it():
    world = orphaned()
    looks = [orphans_of(world, name) for name in world.partition().read().open.locations]
    due = []
    for _ in range(4):
        due.append([bool(look()) for look in looks])
        world.clock.step(ORPHAN_NS / 1e9)
    assert due == [[False] * 3, [True, False, False], [True, True, False], [True] * 3]


def test_whoever_took_over_meanwhile_is_left_alone():
    world = orphaned()
    look = orphans_of(world, world.partition().read().open.locations[0])
    look()
    world.clock.step("20s")
    loader = world.loader("second", takes_over=True)
    assert world.run(lambda: loader.record is not None)
    world.clock.step("20s")
    assert look() == []


def test_a_claim_that_is_not_committed_waits_ten_times_as_long():
    world = orphaned()
    name = world.partition().read().open.locations[0]
    loader = world.loader("second", takes_over=True)
    assert world.run(lambda: world.partition().read().sealing_by == loader.by)
    loader.client.die()
    look = orphans_of(world, name)
    look()
    world.clock.step("290s")
    assert look() == []
    world.clock.step("11s")
    ((partition, record),) = look()
    seal_open(partition, record, by="x", peers=lambda n: Link(world, Client("x"), n))
    check_partition(world)


def test_who_comes_too_late_seals_nothing():
    world = orphaned()
    seen = world.partition().read()

    def peers(name):
        return Link(world, Client("auditor"), name)

    seal_open(world.partition(), seen, by="one", peers=peers)
    with pytest.raises(LockedError):
        seal_open(world.partition(), seen, by="two", peers=peers)
    check_partition(world)


def test_nothing_is_invented_when_no_location_answers():
    world = orphaned()
    seen = world.partition().read()
    for name in seen.open.locations:
        world.machines[name].die()

    def peers(name):
        return Link(world, Client("auditor"), name)

    with pytest.raises(RemoteError, match="no location"):
        seal_open(world.partition(), seen, by="one", peers=peers)
    claimed = world.partition().read()
    assert claimed.open == seen.open
    world.heal()
    seal_open(world.partition(), claimed, by="two", peers=peers)
    check_partition(world)


def test_one_location_that_answers_is_enough():
    world = orphaned()
    seen = world.partition().read()
    for name in seen.open.locations[:-1]:
        world.machines[name].die()
    seal_open(world.partition(), seen, by="one", peers=lambda n: Link(world, Client("auditor"), n))
    (block,) = blocks_of(world)
    assert block.locations == seen.open.locations[-1:]
    assert block.last_seq == len(world.sent) - 1


def test_a_block_without_entries_is_dropped_and_not_recorded():
    world = World(33, rf=2)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    loader.client.die()
    seen = world.partition().read()
    seal_open(world.partition(), seen, by="one", peers=lambda n: Link(world, Client("auditor"), n))
    assert blocks_of(world) == []
    assert all(not each.node.status().holdings for each in world.machines.values())
