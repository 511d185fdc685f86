"""Nodes and a loader in threads, on disks of this machine: the same, as they run for real."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import pyarrow as pa
import pytest
from copies_kit import BLOCK, LAYOUT, SLOTS, entry, frame

from quiver.chain.copies import BlockCopy, Copies, CopyRules
from quiver.chain.loading import Loader, LoaderRules, Surroundings
from quiver.chain.metadata import BucketMetadata
from quiver.chain.node import LocalNode
from quiver.chain.peers import Ack, BlockName, Entries, NodeState, Route
from quiver.chain.placing import Node
from quiver.chain.record import Partition
from quiver.chain.sealing import Sealed
from quiver.chain.workers import ThreadWorkers
from quiver.clock import SystemClock
from quiver.disk import LocalDisk
from quiver.errors import (
    ClosedError,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    RemoteError,
)
from quiver.ship.objects import MemoryBucket

ROUTE = Route(BLOCK, 5, ("a", "b", "c"))
SECONDS = 60


class Chain:
    """Three nodes, each below its folder."""

    def __init__(self, tmp_path):
        self.workers = ThreadWorkers()
        self.deaf = set()
        self.nodes = {}
        for name in "abc":
            folder = tmp_path / name
            folder.mkdir()
            self.nodes[name] = LocalNode(
                name,
                Copies(LocalDisk(folder), CopyRules(name)),
                peers=self.peer,
                workers=self.workers,
                room=lambda: (1 << 40, 1 << 40),
                hears=lambda block: block not in self.deaf,
                live_seconds=0.01,
            )

    def peer(self, name):
        if name not in self.nodes:
            raise MissingError(f"no node {name}", path=name)
        return self.nodes[name]

    def prepare(self, route=ROUTE):
        for name in route.chain:
            self.nodes[name].prepare(route, LAYOUT)

    def around(self, metadata):

        def nodes():
            return [Node(name, 1 << 40, 1 << 40) for name in self.nodes]

        clock = SystemClock()
        return Surroundings(metadata, self.peer, nodes, self.workers, clock, random.Random(1))


class Told:
    """What a stream says, and a way to wait for it."""

    def __init__(self):
        self.acks, self.faults = [], []
        self.changed = threading.Condition()

    def acked(self, ack):
        with self.changed:
            self.acks.append(ack)
            self.changed.notify_all()

    def broken(self, error):
        with self.changed:
            self.faults.append(error)
            self.changed.notify_all()

    def wait(self, is_so):
        with self.changed:
            assert self.changed.wait_for(is_so, SECONDS)


@pytest.fixture
def chain(tmp_path):
    made = Chain(tmp_path)
    yield made
    for node in made.nodes.values():
        node.close()


def opened(chain, route=ROUTE, at="a"):
    told = Told()
    stream = chain.nodes[at].stream(route, acked=told.acked, broken=told.broken)
    return stream, told


def read(chain, name, block=BLOCK):
    return b"".join(map(bytes, chain.nodes[name].read(block, 0)))


def test_r24_r25_entries_go_down_the_chain_and_acks_come_back(chain):
    chain.prepare()
    stream, told = opened(chain)
    data = b""
    for seq in range(1, 40):
        stream.send(frame(len(data), seq))
        data += entry(seq)
    told.wait(lambda: told.acks and told.acks[-1].length == len(data))
    assert told.acks[-1].last_seq == 39
    assert told.acks == sorted(told.acks)
    assert read(chain, "c") == data
    assert {h.length for n in chain.nodes.values() for h in n.status().holdings} == {len(data)}
    stream.close()
    with pytest.raises(ClosedError):
        stream.send(frame(len(data), 40))
    assert told.faults == []


def test_r27_what_comes_while_a_node_syncs_is_written_and_not_passed_on(chain, monkeypatch):
    chain.prepare()
    stream, told = opened(chain)
    syncing, may_end = threading.Event(), threading.Event()
    sync = BlockCopy.sync

    def slow(copy, **named):
        syncing.set()
        assert may_end.wait(SECONDS)
        return sync(copy, **named)

    monkeypatch.setattr(BlockCopy, "sync", slow)
    bodies = [entry(seq, rows=10_000) for seq in (1, 2)]  # Of less who brings it syncs it, too.
    first = Entries(ROUTE.epoch, 0, 1, memoryview(bodies[0]))
    second = Entries(ROUTE.epoch, len(bodies[0]), 2, memoryview(bodies[1]))
    stream.send(first)
    assert syncing.wait(SECONDS)
    stream.send(second)
    lengths = {name: node._copies[BLOCK]._log.extent.length for name, node in chain.nodes.items()}
    assert lengths == {"a": len(first.body) + len(second.body), "b": 0, "c": 0}
    assert not told.acks
    may_end.set()
    told.wait(lambda: told.acks and told.acks[-1].last_seq == 2)


def test_r23_r24_a_node_takes_entries_from_the_one_before_it_alone(chain):
    chain.prepare()
    for at, route, first in (
        ("b", ROUTE, "a"),
        ("c", ROUTE, "a"),
        ("c", ROUTE._replace(sender="a"), "a"),
        ("a", ROUTE._replace(sender="b"), "a"),
    ):
        with pytest.raises(InputError, match="not from") as raised:
            opened(chain, route, at)
        assert raised.value.hint == f"write to {first}"
    with pytest.raises(InputError, match="not in the chain"):
        opened(chain, ROUTE._replace(chain=("b", "c")))
    with pytest.raises(InputError, match="room for"):
        opened(chain, ROUTE._replace(chain=("a", "b")))


def test_a_node_behind_that_has_no_room_is_named(chain):
    for name in "ab":
        chain.nodes[name].prepare(ROUTE, LAYOUT)
    with pytest.raises(RemoteError) as raised:
        opened(chain)
    assert raised.value.path == "c"


def test_r26_an_open_block_is_read_at_the_tail(chain):
    chain.prepare()
    for name in "ab":
        with pytest.raises(InputError, match="its tail is c"):
            read(chain, name)


def test_a_tail_that_does_not_hear_its_chain_serves_nobody(chain):
    chain.prepare()
    stream, told = opened(chain)
    stream.send(frame(0, 1))
    told.wait(lambda: told.acks)
    reader = chain.nodes["c"].read(BLOCK, 0, live=True)
    assert next(reader) == entry(1)
    chain.deaf.add(BLOCK)
    with pytest.raises(RemoteError, match="does not hear") as raised:
        next(reader)
    assert raised.value.retryable
    chain.deaf.clear()
    assert read(chain, "c") == entry(1)


def test_a_fence_breaks_the_stream_all_the_way(chain):
    chain.prepare()
    _, told = opened(chain)
    chain.nodes["b"].fence(BLOCK, 7)
    told.wait(lambda: told.faults)
    assert isinstance(told.faults[0], FencedError)
    assert len(told.faults) == 1
    for name, epoch in (("b", 6), ("b", 5)):
        with pytest.raises(FencedError):
            chain.nodes[name].fence(BLOCK, epoch)
    with pytest.raises(FencedError):
        opened(chain)


def test_what_is_wrong_breaks_the_stream_with_its_reason(chain):
    chain.prepare()
    stream, told = opened(chain)
    for late in (frame(5, 1), frame(0, 1)):
        with pytest.raises(InputError, match="for byte 5"):
            stream.send(late)
    told.wait(lambda: told.faults)
    assert len(told.faults) == 1


def test_a_newer_stream_ends_the_older_one(chain):
    chain.prepare()
    _, told = opened(chain)
    stream, newer = opened(chain)
    told.wait(lambda: told.faults)
    stream.send(frame(0, 1))
    newer.wait(lambda: newer.acks)


def test_r40_a_node_lets_in_when_it_serves(chain):
    chain.prepare()
    node = chain.nodes["a"]
    for state in NodeState:
        node.state = state
        if state is not NodeState.SERVING:
            with pytest.raises(RemoteError, match=state.value):
                opened(chain)
            with pytest.raises(RemoteError, match=state.value):
                node.prepare(ROUTE, LAYOUT)


def test_r21_a_segment_is_fetched_whole(chain):
    chain.prepare()
    stream, told = opened(chain)
    stream.send(frame(0, 1, 2))
    told.wait(lambda: told.acks)
    ends = chain.nodes["a"].fence(BLOCK, 7)
    from quiver.chain.sealing import Sealed

    sealed = Sealed(ends.length, ends.last_seq, ends.start, ends.end, ("a", "b"))
    finished = []
    for name in "ab":
        chain.nodes[name].cut(BLOCK, sealed)
        finished.append(chain.nodes[name].finish(BLOCK))
    assert finished[0] == finished[1]
    chain.nodes["c"].drop(BLOCK)
    for _ in range(2):
        chain.nodes["c"].fetch(BLOCK, "a", finished[0])
    for name in "abc":
        chain.nodes[name].settle(BLOCK, finished[0])
    assert len({b"".join(node.segment(BLOCK)) for node in chain.nodes.values()}) == 1
    with pytest.raises(MissingError):
        read(chain, "a")


BATCH = pa.record_batch({"n": pa.array(range(50), pa.int64())})


def test_r3_r9_r13_r22_loaders_load_blocks_side_by_side(chain):
    metadata = BucketMetadata(MemoryBucket())
    rules = LoaderRules(rf=3, soft_bytes=20_000, hard_bytes=100_000)
    loaders = [
        Loader(chain.around(metadata), name, SLOTS, rules=rules) for name in ("core_0", "core_1")
    ]
    for loader in loaders:
        loader.wait_open(SECONDS)
        with pytest.raises(LockedError):
            Loader(chain.around(metadata), loader._partition, SLOTS).wait_open(SECONDS)
    receipts = [(loader, loader.send({"events": BATCH})) for _ in range(150) for loader in loaders]
    assert receipts[-1][1].wait(SECONDS) == 149
    for loader in loaders:
        loader.flush(SECONDS)
    assert all(receipt.is_replicated for _, receipt in receipts)
    times = [receipt.time_ns for loader, receipt in receipts if loader is loaders[0]]
    assert times == sorted(set(times))
    for loader in loaders:
        assert loader.record.open is not None
        loader.close(SECONDS)
        with pytest.raises(ClosedError):
            loader.send({"events": BATCH})
        partition = Partition(metadata, loader._partition, clock=SystemClock())
        record = partition.read()
        blocks = list(partition.blocks(record))
        assert record.open is None
        assert record.last_seq == blocks[-1].last_seq == 149
        assert len(blocks) > 2
        for before, after in pairwise(blocks):
            assert before.end < after.start
        # R10: the limit, and no more than what came until the next place was ready.
        assert all(block.length >= 20_000 for block in blocks[:-1])


def test_r3_r7_a_chain_that_stands_still_holds_up_no_other_partition(chain):
    metadata = BucketMetadata(MemoryBucket())
    rules = LoaderRules(rf=3, is_rising=False)
    still, other = (
        Loader(chain.around(metadata), name, SLOTS, rules=rules) for name in ("core_0", "core_1")
    )
    still.send({"events": BATCH}, time_ns=1_000).wait(SECONDS)
    tail = chain.nodes[still.record.open.locations[-1]]
    held = []

    def send():  # The stream may be given it by whoever brings it, and these nodes do not return.
        held.append(still.send({"events": BATCH}, time_ns=2_000))

    sending = threading.Thread(target=send)
    with tail._copies[BlockName("core_0", still.record.open.number)]._lock:
        sending.start()
        for given in (1, 2, 2):
            other.send({"events": BATCH}, time_ns=given).wait(SECONDS)
        assert not any(each.is_replicated for each in held)
    sending.join(SECONDS)
    held[0].wait(SECONDS)
    for loader in (still, other):
        loader.close(SECONDS)


def test_r2_who_takes_over_goes_on_where_the_other_one_was(chain):
    metadata = BucketMetadata(MemoryBucket())
    first = Loader(chain.around(metadata), "core_0", SLOTS)
    for _ in range(5):
        last = first.send({"events": BATCH})
    last.wait(SECONDS)
    second = Loader(chain.around(metadata), "core_0", SLOTS, rules=LoaderRules(takes_over=True))
    assert second.send({"events": BATCH}).wait(SECONDS) == 5
    with pytest.raises(FencedError):
        for _ in range(50):
            first.send({"events": BATCH}).wait(SECONDS)
    with pytest.raises(FencedError):
        first.close(SECONDS)
    second.abandon()
    with pytest.raises(ClosedError):
        second.send({"events": BATCH})


def test_a_loader_that_is_told_wrongly_says_so(chain):
    around = chain.around(BucketMetadata(MemoryBucket()))
    with pytest.raises(InputError, match="hard_bytes"):
        Loader(around, "core_0", SLOTS, rules=LoaderRules(hard_bytes=1))
    loader = Loader(around, "core_0", SLOTS)
    with pytest.raises(InputError, match="gives times"):
        loader.send({"events": BATCH}, time_ns=5)
    loader.send({"events": BATCH}).wait(SECONDS)
    loader.close(SECONDS)
    loader.close(SECONDS)


def test_r28_a_partition_keeps_the_rf_that_it_was_made_with(chain):
    metadata = BucketMetadata(MemoryBucket())
    for rf in (2, 3):
        loader = Loader(chain.around(metadata), "core_0", SLOTS, rules=LoaderRules(rf=rf))
        loader.wait_open(SECONDS)
        assert loader.record.rf == 2
        assert len(set(loader.record.open.locations)) == 2
        loader.close(SECONDS)


def test_the_tail_says_what_all_have_until_its_block_or_its_epoch_ends(chain):
    chain.prepare()
    stream, told = opened(chain)
    acks = chain.nodes["c"].acks(BLOCK, ROUTE.epoch)
    assert next(acks) == Ack(0, -1)
    stream.send(frame(0, 1))
    told.wait(lambda: told.acks)
    assert next(acks) == Ack(len(entry(1)), 1)
    assert next(acks) == Ack(len(entry(1)), 1)  # Nothing is new; it is there.
    for name, why in (("a", "its tail is c"), ("b", "its tail is c")):
        with pytest.raises(InputError) as raised:
            next(chain.nodes[name].acks(BLOCK, ROUTE.epoch))
        assert why in str(raised.value)
    chain.nodes["c"].fence(BLOCK, ROUTE.epoch + 1)
    with pytest.raises(FencedError):
        next(acks)
    end = chain.nodes["c"].fence(BLOCK, ROUTE.epoch + 1)
    chain.nodes["c"].cut(BLOCK, Sealed(end.length, end.last_seq, end.start, end.end, ("c",)))
    assert list(chain.nodes["c"].acks(BLOCK, ROUTE.epoch + 1)) == []
