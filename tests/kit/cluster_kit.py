"""Nodes of a chain in this process, and what is written to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from chain_wire_kit import PATIENCE

from quiver.chain.cluster import Cluster
from quiver.chain.membership import Member
from quiver.chain.metadata import BucketMetadata
from quiver.chain.serving import AuditRules, ServedNode
from quiver.chain.wire import WireOptions
from quiver.clock import SystemClock
from quiver.disk import LocalDisk
from quiver.ship.objects import MemoryBucket

__all__ = ["STEADY", "Nodes", "row", "running", "value_of"]

STEADY = WireOptions(silence=PATIENCE, isolation=2 * PATIENCE, timeout=PATIENCE, prompt=PATIENCE)
_ROOM = (1 << 40, 1 << 41)


def row(number: int, size: int = 10) -> dict[str, pa.RecordBatch]:
    """One bundle that can be told from all others."""
    return {"events": pa.record_batch({"n": [number], "text": ["x" * size]})}


def value_of(message) -> int:
    return message.bundle["events"]["n"][0].as_py()


class Nodes:
    """Some nodes with metadata in memory."""

    def __init__(self, folder: Path, options: WireOptions) -> None:
        self.folder = folder
        self.options = options
        self.metadata = BucketMetadata(MemoryBucket())
        self.audit = AuditRules()
        self.served: dict[str, ServedNode] = {}
        self.disks: dict[str, LocalDisk] = {}
        self.capacities: dict[str, int] = {}
        """Of nodes that are to be no larger; others have more room than they will ever need."""
        self._count = itertools.count()

    def held(self, name: str) -> int:
        """Give the size of all segments and logs of a node."""
        holdings = self.served[name].node.holdings()
        return sum(each.finished.size if each.finished else each.length for each in holdings)

    def start(self, name: str) -> ServedNode:
        folder = self.folder / name
        self.disks[name] = LocalDisk(str(folder), create=True)
        made = ServedNode(
            self.disks[name],
            self.metadata,
            name,
            listen="127.0.0.1:0",
            room=lambda: _ROOM,
            clock=SystemClock(),
            options=self.options,
            audit=self.audit,
            capacity=self.capacities.get(name, 0),
        )
        made.start()
        self.served[name] = made
        return made

    def stop(self, name: str) -> None:
        self.served.pop(name).close()
        self.disks.pop(name).close()

    def cluster(self) -> Cluster:
        return Cluster(self.metadata, options=self.options)

    def members(self) -> list[Member]:
        return self.cluster().members.look()

    def close(self) -> None:
        for name in list(self.served):
            self.stop(name)


@contextmanager
def running(
    folder: Path, *names: str, options: WireOptions = STEADY, audit: AuditRules | None = None
) -> Iterator[Nodes]:
    nodes = Nodes(folder, options)
    nodes.audit = audit or nodes.audit
    try:
        for name in names:
            nodes.start(name)
        yield nodes
    finally:
        nodes.close()
