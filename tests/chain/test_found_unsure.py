"""The last entry that a tail finds at a start: shown if all others have it, whom it asks."""

from __future__ import annotations

from contextlib import suppress

import pytest
from copies_kit import BLOCK, LAYOUT, entry, frame

from quiver.chain.copies import Copies, CopyRules
from quiver.chain.node import LocalNode
from quiver.chain.peers import Route
from quiver.chain.workers import ThreadWorkers
from quiver.errors import MissingError, QuiverError, RemoteError
from quiver.testing import MemoryDisk

ROUTE = Route(BLOCK, 5, ("a", "b", "c"))


class Nodes:
    """Three nodes in memory."""

    def __init__(self):
        self.disks = {name: MemoryDisk() for name in "abc"}
        self.nodes = {}
        self.gone = set()
        for name in self.disks:
            self.start(name)

    def start(self, name):
        self.disks[name].forget_locks()
        self.nodes[name] = LocalNode(
            name,
            Copies(self.disks[name], CopyRules(name)),
            peers=self.peer,
            workers=ThreadWorkers(),
            room=lambda: (1 << 40, 1 << 40),
            live_seconds=0,
        )
        return self.nodes[name]

    def peer(self, name):
        if name in self.gone:
            raise RemoteError(f"{name} is gone", path=name)
        return self.nodes[name]

    def put(self, name, *seqs):
        """Have a node hold entries, synced, whatever the others have."""
        node = self.nodes[name]
        with suppress(QuiverError):
            node.prepare(ROUTE, LAYOUT)
        copy = node._copies[BLOCK]
        stream = copy.begin(ROUTE)
        for seq in seqs:
            entries = frame(copy.holding.length, seq)
            copy.append(stream, entries, copy.look_at(entries))
            copy.sync()


@pytest.fixture
def nodes():
    return Nodes()


def read(node):
    return b"".join(map(bytes, node.read(BLOCK, 0)))


@pytest.mark.parametrize("how", ["read", "live", "acks"])
def test_r25_it_is_shown_if_all_others_have_it(nodes, how):
    for name in "abc":
        nodes.put(name, 1, 2)
    tail = nodes.start("c")
    whole = entry(1) + entry(2)
    if how == "read":
        assert read(tail) == whole
    elif how == "live":
        came = b""
        for piece in tail.read(BLOCK, 0, live=True):
            came += bytes(piece)
            if len(came) == len(whole):
                break
        assert came == whole
    else:
        acks = tail.acks(BLOCK, ROUTE.epoch)
        assert next(ack for ack in acks if ack.length >= len(whole)).last_seq == 2


def test_r25_it_is_not_shown_if_one_of_them_lacks_it(nodes):
    nodes.put("a", 1)
    nodes.put("b", 1, 2)
    nodes.put("c", 1, 2)
    assert read(nodes.start("c")) == entry(1)


def test_r25_it_is_shown_as_well_if_somebody_seals_and_came_no_further(nodes):
    for name in "abc":
        nodes.put(name, 1, 2)
    nodes.nodes["a"].fence(BLOCK, 6)
    nodes.nodes["b"].fence(BLOCK, 7)
    assert read(nodes.start("c")) == entry(1) + entry(2)
    assert [node.holdings()[0].epoch for node in nodes.nodes.values()] == [6, 7, 5]


@pytest.mark.parametrize("why", ["one has nothing", "one is gone"])
def test_r25_while_nobody_knows_a_reader_is_told_so_and_a_live_one_waits(nodes, why):
    for name in "bc" if why == "one has nothing" else "abc":
        nodes.put(name, 1, 2)
    if why == "one is gone":
        nodes.gone.add("a")
    tail = nodes.start("c")
    with pytest.raises(RemoteError, match="whether all have its last entry") as caught:
        read(tail)
    assert caught.value.retryable
    live = tail.read(BLOCK, 0, live=True)
    assert next(live) == entry(1)
    assert next(live) == next(live) == b""
    if why == "one is gone":
        nodes.gone.clear()
        assert next(piece for piece in live if piece) == entry(2)


def test_r25_another_node_at_the_address_of_one_is_not_taken_for_it(nodes, monkeypatch):
    """The power of a's machine went before it had synced; b was started where a was."""
    nodes.put("a", 1)
    nodes.put("b", 1, 2)
    nodes.put("c", 1, 2)
    tail, peer = nodes.start("c"), nodes.peer
    monkeypatch.setattr(tail, "_peers", lambda name: peer("b" if name == "a" else name))
    with pytest.raises(RemoteError, match="b answers where a should be") as caught:
        read(tail)
    assert caught.value.retryable
    monkeypatch.setattr(tail, "_peers", peer)
    assert read(tail) == entry(1)


def test_whoever_is_not_the_tail_asks_nobody(nodes, monkeypatch):
    nodes.put("b", 1, 2)
    middle = nodes.start("b")
    monkeypatch.setattr(nodes, "peer", pytest.fail)
    with pytest.raises(QuiverError, match="its tail is c"):
        read(middle)
    with pytest.raises(MissingError):
        read(nodes.nodes["a"])


def test_a_tail_that_has_a_stream_asks_nobody(nodes, monkeypatch):
    for name in "abc":
        nodes.nodes[name].prepare(ROUTE, LAYOUT)
    head = nodes.nodes["a"]
    stream = head.stream(ROUTE, acked=lambda _: None, broken=lambda _: None)
    copy = nodes.nodes["c"]._copies[BLOCK]
    monkeypatch.setattr(copy.readers, "show", lambda *_, **__: None)
    stream.send(frame(0, 1))
    while copy.holding.length == 0:
        pass
    monkeypatch.setattr(LocalNode, "fence", pytest.fail)
    assert read(nodes.nodes["c"]) == b""
    head.close()


def test_r25_without_a_thread_to_ask_the_next_look_asks(nodes, monkeypatch):
    for name in "abc":
        nodes.put(name, 1, 2)
    tail = nodes.start("c")

    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(ThreadWorkers, "spawn", no_thread)
        live = tail.read(BLOCK, 0, live=True)
        with pytest.raises(RuntimeError):
            list(live)
    live = tail.read(BLOCK, len(entry(1)), live=True)
    assert next(piece for piece in live if piece) == entry(2)
