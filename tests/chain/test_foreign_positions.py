"""Positions that are of another partition are refused, and skip nothing silently."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_links import Link
from chain_oracle import life_of
from chain_world import Client, World
from copies_kit import SLOTS

from quiver.chain.placing import START_DELAY_NS
from quiver.chain.reading.following import Followed, follow
from quiver.chain.reading.message import ChainPosition
from quiver.chain.tending import Tender
from quiver.errors import InputError


def tended(world):
    client = Client("auditor")
    Tender(
        world.partition(), "core_0", peers=lambda name: Link(world, client, name),
        random=world.lot.random,
    ).tend({node.name: node for node in world.nodes()}, {}, now_ns=START_DELAY_NS)  # fmt: skip


@pytest.fixture(scope="module", params=["logs", "segments"])
def world(request):
    made = World(15, rf=2, nodes=5)
    life_of(made, FAULTS["none"], rounds=12)
    if request.param == "segments":
        tended(made)
    return made


def read(world, after, *, live=False):
    client = Client("reader")
    asked = Followed(
        world.metadata, lambda name: Link(world, client, name), world.clock, "core_0",
        lambda: SLOTS, start_ns=-(1 << 63), end_ns=(1 << 63) - 1, live=live, after=after,
    )  # fmt: skip
    return follow(asked)


def test_each_position_of_its_own_goes_on_behind_it(world):
    sent = [(each.time_ns, each.wal_seq) for each in world.sent]
    for at, place in enumerate(sent):
        found = [(m.time_ns, m.wal_seq) for m in read(world, ChainPosition(*place))]
        assert found == sent[at + 1 :]


@pytest.mark.parametrize("live", [False, True], ids=["history", "live"])
@pytest.mark.parametrize(
    ("later_ns", "more"), [(0, 5), (0, -5), (1, 0), (-1, 0)], ids=["ahead", "behind", "+1", "-1"]
)
def test_one_of_another_chain_is_refused(world, live, later_ns, more):
    some = world.sent[len(world.sent) // 2]
    foreign = ChainPosition(some.time_ns + later_ns, some.wal_seq + more)
    with pytest.raises(InputError, match="never was at bundle"):
        list(read(world, foreign, live=live))
