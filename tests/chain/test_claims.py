"""A claim whose loader never came to a block ends by itself; the partition is anybody's then."""

from __future__ import annotations

import pytest
from chain_watch import Watch
from chain_world import World

from quiver.chain.record import Claim, Following, claimed, committed, released
from quiver.chain.tending import CLAIM_NS, Claims
from quiver.errors import FencedError, LockedError


@pytest.fixture
def world():
    return World(35, rf=2)


def claim_alone(world):
    """Let a loader die between its first claim and its first block."""
    loader, partition = world.loader("first"), world.partition()
    partition.create(2)
    assert world.run(lambda: partition.read().sealing_by == loader.by)
    loader.client.die()
    record = world.partition().read()
    assert record.open is None
    return record


def look(world, claims):
    claims.look(world.partition(), world.partition().read())


def test_a_partition_whose_first_loader_died_at_once_is_anybodys_behind_a_while(world):
    held = claim_alone(world)
    claims = Claims(clock=world.clock)
    look(world, claims)
    world.clock.step("299s")
    look(world, claims)
    with pytest.raises(LockedError):
        world.partition().change(lambda record: claimed(record, "other"))
    world.clock.step("1s")
    look(world, claims)
    record = world.partition().read()
    assert (record.sealing_by, record.writer, record.open) == ("", "", None)
    assert (record.epoch, record.change) == (held.epoch + 1, held.change + 1)
    world.partition().change(lambda record: claimed(record, "other"))


def test_one_who_lives_and_comes_too_late_is_told_so(world):
    held = claim_alone(world)
    claim = Claim(held.epoch, held.sealing_by)
    world.partition().change(lambda record: released(record, "auditor"))
    with pytest.raises(FencedError):
        world.partition().change(
            lambda record: committed(record, claim, None, following=Following(claim.by, ("a",)))
        )


def test_a_newer_claim_waits_anew_and_one_with_a_block_is_left_to_its_nodes(world):
    claim_alone(world)
    claims = Claims(clock=world.clock)
    look(world, claims)
    world.clock.step("200s")
    world.partition().change(lambda record: claimed(record, "other", takes_over=True))
    look(world, claims)
    world.clock.step("200s")
    look(world, claims)
    record = world.partition().read()
    assert record.sealing_by == "other"
    assert released(record._replace(sealing_by=""), "x").change == record.change
    opened = world.partition().change(
        lambda now: committed(
            now, Claim(now.epoch, "other"), None, following=Following("other", ("a",))
        )
    )
    sealing = world.partition().change(lambda now: claimed(now, "third", takes_over=True))
    assert sealing.open == opened.open
    for _ in range(3):
        look(world, claims)
        world.clock.step("300s")
    assert world.partition().read() == sealing


def test_the_claim_that_was_seen_is_ended_and_no_other(world):
    seen = claim_alone(world)
    claims = Claims(clock=world.clock)
    claims.look(world.partition(), seen)
    world.clock.step(CLAIM_NS / 1e9)
    newer = world.partition().change(lambda record: claimed(record, "other", takes_over=True))
    claims.look(world.partition(), seen)
    assert world.partition().read() == newer


def test_the_auditor_does_it(world):
    claim_alone(world)
    watch = Watch(world)
    for _ in range(3):
        watch.seconds(110)
        assert world.partition().read().sealing_by
        watch.audit()
    watch.seconds(110)
    watch.audit()
    assert not world.partition().read().sealing_by
    loader = world.loader("second")
    assert world.run(lambda: loader.record is not None)
    world.send(loader)
    assert world.run(lambda: world.sent[-1].is_replicated)
