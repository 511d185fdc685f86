"""What whoever looks after copies asks of a node over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chain_wire_kit import BLOCK, CALM, ROUTE
from memory_peer import MemoryPeer

from quiver.chain.peers import BlockName, Damaged, Route
from quiver.chain.wire import RemotePeer, Server, answering, client
from quiver.errors import FencedError


@pytest.fixture
def kept() -> MemoryPeer:
    return MemoryPeer("a")


@pytest.fixture
def peer(kept: MemoryPeer) -> Iterator[RemotePeer]:
    with Server(kept, "127.0.0.1:0", options=CALM) as server:
        yield RemotePeer("a", lambda: server.address, options=CALM)


def test_what_was_condemned_is_dropped_unless_it_is_wanted_again(kept, peer):
    kept.prepare(ROUTE, "")
    token = peer.condemn(BLOCK)
    with pytest.raises(FencedError):
        peer.drop(BLOCK, token + 1)
    assert BLOCK in kept.blocks
    peer.drop(BLOCK, token)
    assert not kept.blocks


def test_a_segment_is_verified_and_damage_is_told(kept, peer, monkeypatch):
    kept.prepare(ROUTE, "")
    kept.blocks[BLOCK].log += b"entry"
    made = peer.finish(BLOCK)
    assert peer.verify(BLOCK) == made
    assert peer.damaged() == (Damaged(BlockName("core_0", 99), "rotten"),)
    many = tuple(Damaged(BlockName("core_0", at), "x" * 5_000) for at in range(2_000))
    monkeypatch.setattr(kept, "damaged", lambda: many)
    told = peer.damaged()
    assert [each.name.number for each in told] == list(range(1_000))
    assert len(told[0].why) < 1_000


@pytest.mark.parametrize("count", range(8))
def test_a_status_comes_in_as_many_answers_as_it_takes(kept, peer, monkeypatch, count):
    monkeypatch.setattr(answering, "HOLDINGS_MAX", 3)
    monkeypatch.setattr(client, "HOLDINGS_MAX", 3)
    for number in range(count):
        block = BlockName(f"core_{number % 2}", number)
        kept.prepare(Route(block, 1, ("a",)), "")
    assert peer.status() == kept.status()
    assert len(peer.status().holdings) == count
