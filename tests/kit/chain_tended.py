"""What must be so of a partition that was tended: segments in the place of logs."""

from __future__ import annotations

import blake3

from quiver.chain.peers import BlockName
from quiver.segment import open_bytes

__all__ = ["blocks_of", "check_segments"]


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
