"""What must be so of a partition that was tended: segments in the place of logs."""

from __future__ import annotations

import blake3
from chain_faults import FAULTS
from chain_oracle import life_of
from chain_world import World

from quiver.chain.peers import BlockName
from quiver.segment import open_bytes

__all__ = ["blocks_of", "check_segments", "whole_world"]


def whole_world(seed, *, rf, nodes, rounds):
    """Lead lives without faults until each block of one has all its copies.

    In others an answer came so late, by lot, that a block went on without that node.
    """
    for each in range(seed, seed + 50):
        world = World(each, rf=rf, nodes=nodes)
        life_of(world, FAULTS["none"], rounds=rounds)
        if all(len(block.locations) == rf for block in blocks_of(world)):
            return world
    raise AssertionError("none of fifty lives has all copies")


def blocks_of(world):
    partition = world.partition()
    return list(partition.blocks_now(partition.read()))


def check_segments(world, rf=None):
    """Each location that is alive has the segment of the record; gives the numbers in it."""
    found = []
    for block in blocks_of(world):
        assert rf is None or len(block.locations) == rf
        copies = set()
        for location in block.locations:
            machine = world.machines[location]
            if not machine.is_dead:
                data = b"".join(machine.node.segment(BlockName("core_0", block.number)))
                assert blake3.blake3(data).digest() == block.digest
                copies.add(data)
        (data,) = copies
        reader = open_bytes(data, place="here")
        found.append(reader.bundle_count)
    return found
