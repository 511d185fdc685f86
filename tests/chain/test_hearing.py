"""A loader does without nodes that do not answer it, for a while."""

from __future__ import annotations

import pytest
from chain_oracle import check_partition
from chain_world import World

from quiver.chain.loading.hearing import QUIET_NS, Hearing
from quiver.chain.placing import Node
from quiver.errors import FencedError, RemoteError
from quiver.testing import ManualClock

NODES = [Node(name, 1, 2) for name in "abc"]


def names(nodes):
    return "".join(node.name for node in nodes)


def asked(hearing, name, error):
    with pytest.raises(type(error)), hearing.asked(name):
        raise error


def test_who_does_not_answer_is_left_out_until_it_does_or_time_is_over():
    clock = ManualClock()
    hearing = Hearing(clock)
    assert names(hearing.heard_first(NODES)) == "abc"
    hearing.ask("b")
    assert names(hearing.heard_first(NODES)) == "ac"
    with hearing.asked("b"):
        pass
    assert names(hearing.heard_first(NODES)) == "abc"
    asked(hearing, "c", RemoteError("silence"))
    assert names(hearing.heard_first(NODES)) == "ab"
    clock.step(QUIET_NS / 1e9)
    assert names(hearing.heard_first(NODES)) == "abc"


def test_a_refusal_is_an_answer():
    hearing = Hearing(ManualClock())
    hearing.ask("a")
    asked(hearing, "a", FencedError("no"))
    assert names(hearing.heard_first(NODES)) == "abc"


def test_if_nobody_is_heard_all_are_tried():
    hearing = Hearing(ManualClock())
    for name in "abc":
        hearing.ask(name)
    assert names(hearing.heard_first(NODES)) == "abc"


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("seed", range(4))
def test_a_node_that_only_the_loader_does_not_reach_is_not_in_the_next_chain(seed, place):
    world = World(seed, rf=3, nodes=5)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    world.send(loader)
    assert world.run(lambda: world.sent[-1].is_replicated)
    lost = loader.record.open.locations[place]
    for other in [loader.client.name, *world.machines]:
        if other != lost:
            world.cut_link(other, lost)
    world.send(loader)
    assert world.run(lambda: world.sent[-1].is_replicated, turns=20_000)
    assert lost in {node.name for node in world.nodes()}
    assert lost not in loader.record.open.locations
    assert len(loader.record.open.locations) == 3
    world.heal()
    loader.end()
    assert world.run(lambda: loader._driver.is_closed, turns=20_000)
    world.run()
    check_partition(world)


@pytest.mark.parametrize("seed", range(4))
def test_a_node_that_is_back_is_heard_though_its_time_is_not_over(seed):
    world = World(seed, rf=3, nodes=3)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    lost = loader.record.open.locations[-1]
    others = [loader.client.name, *(each for each in world.machines if each != lost)]
    for other in others:
        world.cut_link(other, lost)
    tasks, asked = loader._driver.tasks, []
    listen, tasks._listen = tasks._listen, lambda name, *_: asked.append(name)
    world.send(loader)
    assert world.run(lambda: world.sent[-1].is_replicated, turns=20_000)
    assert set(asked) == {lost}
    assert tasks._hearing.is_quiet(lost)
    listen(lost)
    world.run(turns=20)
    assert tasks._hearing.is_quiet(lost)
    world.heal()
    listen(lost)
    assert world.run(lambda: not tasks._hearing.is_quiet(lost))
