"""Which copies there are of a partition, as its record and its nodes say, and what they are."""

from __future__ import annotations

from typing import NamedTuple

import blake3

from bench.demo_chain.blocks import BlockMap, MappedBlock
from bench.demo_chain.loader import PARTITION, RF
from quiver.chain import Block, Partition
from quiver.chain.cluster import Cluster
from quiver.chain.peers import BlockName
from quiver.clock import SystemClock
from quiver.errors import MissingError, QuiverError

__all__ = ["CopyFound", "Observer"]


class CopyFound(NamedTuple):
    """One copy of a block."""

    block: int
    node: str
    form: str
    """``log`` or ``segment``; ``none`` if it cannot be read."""
    digest: str
    """BLAKE3 of its bytes, or why it cannot be read."""


class Observer:
    """Looks at the partition of the demonstration, and changes nothing."""

    def __init__(self, cluster: Cluster) -> None:
        """Take a connection; nothing is done yet."""
        self._cluster = cluster
        self.partition = Partition(cluster.metadata, PARTITION, clock=SystemClock())

    def blocks(self) -> list[Block]:
        """Give the sealed blocks as they are now."""
        record = self.partition.read()
        found = self.partition.blocks(record)
        return [self.partition.block(record, each.number) for each in found]

    def map(self, nodes: tuple[str, ...], away: frozenset[str]) -> BlockMap:
        """Draw the map as it is now."""
        blocks = (MappedBlock(block.number, block.locations) for block in self.blocks())
        return BlockMap(nodes, away, tuple(blocks), rf=RF)

    def is_restored(self, lost: str) -> bool:
        """Whether each block is a finished segment in as many copies as wanted, none at ``lost``.

        As nodes say what they have: one that does not answer has nothing.
        """
        self._cluster.members.look()
        names = {node.name for node in self._cluster.members.nodes()} - {lost}
        held = {(name, *found) for name in names for found in self._finished(name)}
        return all(
            len(block.locations) >= RF
            and all((node, block.number, block.digest) in held for node in block.locations)
            for block in self.blocks()
        )

    def copies(self) -> list[CopyFound]:
        """Read all copies that the record lists, from the first byte to the last."""
        return [self._copy(block, node) for block in self.blocks() for node in block.locations]

    def _finished(self, node: str) -> list[tuple[int, bytes]]:
        try:
            holdings = self._cluster.members(node).status().holdings
        except QuiverError:
            return []
        return [
            (each.name.number, each.finished.digest)
            for each in holdings
            if each.name.partition == PARTITION and each.finished is not None
        ]

    def _copy(self, block: Block, node: str) -> CopyFound:
        name, peer = BlockName(PARTITION, block.number), self._cluster.members(node)
        try:
            form, data = "segment", b"".join(peer.segment(name))
        except MissingError:
            form = "log"
            try:
                data = b"".join(peer.read(name, 0))
            except QuiverError as error:
                return CopyFound(block.number, node, "none", str(error))
        except QuiverError as error:
            return CopyFound(block.number, node, "none", str(error))
        return CopyFound(block.number, node, form, blake3.blake3(data).hexdigest())
