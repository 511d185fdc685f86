"""Segments of one block that are not the same, and copies that are not what was sealed."""

from __future__ import annotations

import blake3
import pytest
from chain_links import Link
from chain_tended import blocks_of, check_segments, whole_world
from chain_world import Client

from quiver.chain.copies.names import LOG, SEGMENT, file_of
from quiver.chain.peers import BlockName
from quiver.chain.placing import START_DELAY_NS
from quiver.chain.sealing import Sealed
from quiver.chain.tending import Tender
from quiver.errors import DamagedEntry
from quiver.wal.format import frame_at

LATER = 10 * START_DELAY_NS


@pytest.fixture
def world():
    return whole_world(13, rf=3, nodes=4, rounds=5)


@pytest.fixture
def tender(world):
    client = Client("auditor")
    return Tender(
        world.partition(), "core_0", peers=lambda name: Link(world, client, name),
        random=world.lot.random,
    )  # fmt: skip


def tend(world, tender, *, now_ns=0, gone=()):
    nodes = {node.name: node for node in world.nodes()}
    return tender.tend(nodes, dict.fromkeys(gone, 0), now_ns=now_ns)


def make_otherwise(world, node, name, block):
    """Have a node make another segment of the same rows, as another version might."""
    machine = world.machines[node]
    machine.node.cut(name, end_of(block))
    made = machine.node.finish(name)
    path = file_of(name, SEGMENT)
    file = machine.disk.open(path, writable=True)
    size = file.size()
    file.write(size, b"more")
    data = file.read(0, size + 4)
    file.close()
    copy = machine.copies[name]
    other = made._replace(digest=blake3.blake3(data).digest(), size=size + 4)
    copy._put(copy._state._replace(finished=other))
    return other


def end_of(block):
    return Sealed(block.length, block.last_seq, block.start, block.end, ())


def test_what_most_of_them_made_is_noted_not_what_the_last_one_did(world, tender):
    block = blocks_of(world)[0]
    name = BlockName("core_0", block.number)
    other = make_otherwise(world, block.locations[-1], name, block)
    tend(world, tender)
    assert blocks_of(world)[0].digest != other.digest
    check_segments(world, 3)


def test_a_segment_that_nobody_has_any_more_is_named_anew_after_a_while(world, tender):
    block = blocks_of(world)[0]
    name = BlockName("core_0", block.number)
    first, *others = block.locations
    made = world.machines[first].node
    made.cut(name, end_of(block))
    finished = made.finish(name)
    world.partition().amend(
        block.number, lambda b: b._replace(rows=finished.rows, digest=finished.digest)
    )
    for node in others:
        make_otherwise(world, node, name, block)
    world.machines[first].die()
    done = tend(world, tender, gone=[first])
    (told,) = {str(e.error) for e in done if isinstance(e.error, DamagedEntry)}
    assert f"block {block.number} of core_0" in told
    assert finished.digest.hex() in told
    tend(world, tender, now_ns=LATER, gone=[first])
    tend(world, tender, now_ns=LATER, gone=[first])
    now = blocks_of(world)[0]
    assert now.digest != finished.digest
    assert len(now.locations) == 3
    assert first not in now.locations
    world.machines[first].start()
    tend(world, tender, now_ns=2 * LATER)
    tend(world, tender, now_ns=3 * LATER)
    tend(world, tender, now_ns=4 * LATER)
    for block in blocks_of(world):
        for node in block.locations:
            data = b"".join(world.machines[node].node.segment(BlockName("core_0", block.number)))
            assert blake3.blake3(data).digest() == block.digest


def test_a_location_whose_log_is_not_what_was_sealed_copies_the_segment(world, tender):
    block = blocks_of(world)[0]
    name = BlockName("core_0", block.number)
    short = world.machines[block.locations[0]]
    short.die()
    state = short.copies[name]._state._replace(sealed=None, finished=None)
    short.start()
    copy = short.copies[name]
    copy._put(state)
    first = next(copy._log.read(0, copy.holding.length))
    copy._log.cut(*first_entry(first))
    short.die()
    short.start()
    done = tend(world, tender)
    assert ("copy", short.name) in [(e.act, e.node) for e in done if e.error is None]
    check_segments(world, 3)
    assert short.disk.stat(file_of(name, LOG)) is None
    assert [e for e in tend(world, tender) if e.error is not None] == []


def first_entry(data):
    frame = frame_at(data, 0, 1 << 30)
    return frame.end, frame.wal_seq
