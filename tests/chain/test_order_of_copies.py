"""R39: copies of all partitions are made in one order, whatever the partitions are called."""

from __future__ import annotations

import random

from memory_peer import Kept, MemoryPeer

from quiver.chain.metadata import BucketMetadata
from quiver.chain.peers import BlockName, Finished, Route
from quiver.chain.placing import START_DELAY_NS, Node
from quiver.chain.record import Block, Open, Partition
from quiver.chain.sealing import Copy
from quiver.chain.tending import Auditor
from quiver.errors import MissingError
from quiver.ship.objects import MemoryBucket
from quiver.testing import ManualClock

DIGEST = b"d" * 32


class Peer(MemoryPeer):
    """Notes what it is asked to copy."""

    def fetch(self, block, source, finished):
        super().fetch(block, source, finished)
        self.peers.copied.append(block)


class Nodes:
    """Nodes that serve, but for some that are gone, and some that are to be left."""

    def __init__(self, names, gone, left):
        self.known = {name: Peer(name, self) for name in names}
        self.gone, self.left = gone, left
        self.copied = []

    def __call__(self, name):
        if name in self.gone:
            raise MissingError(name)
        return self.known[name]

    def nodes(self):
        there = [name for name in self.known if name not in (*self.gone, *self.left)]
        return [Node(name, 1 << 40, 1 << 41) for name in there]

    def gone_since(self):
        return dict(self.gone)

    def leaving(self):
        return frozenset(self.left)


def chain_of(given, *, gone="", left=""):
    """Have partitions with finished blocks; gives an auditor, and the nodes."""
    clock = ManualClock()
    metadata = BucketMetadata(MemoryBucket())
    nodes = Nodes("abcdefghxyz", dict.fromkeys(gone, -START_DELAY_NS), left)
    for name, (is_open, held) in given.items():
        partition = Partition(metadata, name, clock=clock)
        partition.create(3)
        blocks = []
        for number, (locations, end) in sorted(held.items()):
            one = Block(number, 1, end, end, 4, number, 3, tuple(locations), digest=DIGEST)
            blocks.append(one)
            for location in set(locations) - set(gone):
                block = BlockName(name, number)
                kept = Kept(Route(block, 1, (location,)), "", Copy(1, 4), bytearray(b"abcd"))
                kept.finished = Finished(0, DIGEST, 4)
                nodes.known[location].blocks[block] = kept
        last = blocks[-1]

        def put(record, blocks=tuple(blocks), last=last, is_open=is_open):
            opened = Open(last.number + 1, last.end, ("x", "y", "z")) if is_open else None
            return record._replace(
                change=2,
                epoch=1,
                next_number=last.number + 1 + is_open,
                end=last.end,
                last_seq=last.last_seq,
                open=opened,
                recent=blocks,
            )

        partition.change(put)
    return Auditor(metadata, nodes, clock=clock, random=random.Random(1)), nodes


IDLE = {0: ("acf", 1), 1: ("abc", 10), 2: ("abc", 20), 3: ("deh", 30)}
BUSY = {6: ("acg", 4), 7: ("abd", 5), 8: ("abe", 6), 9: ("def", 7)}


def test_r39_new_writes_come_first_then_live_reads_then_history_over_all_partitions():
    """One copy left, newest first and live before all; then live; then who is to be left."""
    auditor, nodes = chain_of({"aaa": (False, IDLE), "zzz": (True, BUSY)}, gone="ac", left="h")
    told = [(name, done[0].number) for name, done in auditor.audit() if done[0].act == "copy"]
    wanted = [("zzz", 6), ("aaa", 2), ("aaa", 1), ("aaa", 0), ("zzz", 8), ("zzz", 7), ("aaa", 3)]
    assert told == wanted
    assert list(dict.fromkeys(nodes.copied)) == [BlockName(*each) for each in wanted]


def test_r39_what_is_wanted_more_by_then_comes_first_in_the_next_pass():
    auditor, nodes = chain_of({"aaa": (False, IDLE), "zzz": (True, BUSY)}, gone="a")
    list(auditor.audit(copied_max=1))
    assert auditor.is_behind
    assert set(nodes.copied) == {BlockName("zzz", 8)}
    nodes.copied.clear()
    nodes.gone["c"] = -START_DELAY_NS
    list(auditor.audit(copied_max=1))
    assert set(nodes.copied) == {BlockName("zzz", 6)}
    list(auditor.audit())
    assert not auditor.is_behind
