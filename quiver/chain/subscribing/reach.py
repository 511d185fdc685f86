"""What it takes to get at partitions: a cluster, as far as subscribers need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quiver.chain.loading import Loader, LoaderRules
from quiver.chain.metadata import Metadata
from quiver.chain.peers import Peers
from quiver.chain.reading import ChainMessage, Silence
from quiver.chain.record import Partition
from quiver.clock import Clock
from quiver.slots import SlotTable

__all__ = ["Reach"]


@dataclass(frozen=True, slots=True)
class Reach:
    """A cluster's doors."""

    metadata: Metadata
    peers: Peers
    clock: Clock
    partitions: Callable[[], list[str]]
    """Those with data; no subscriber's own."""
    slots: Callable[[str], SlotTable | None]
    load: Callable[[str, LoaderRules], Loader]
    """Begin to take the partition of a subscriber."""
    follow: Callable[[str], Iterator[ChainMessage | Silence]]
    """Read all of a partition that is visible; it ends."""

    def partition(self, name: str) -> Partition:
        """Give a partition to one thread."""
        return Partition(self.metadata, name, clock=self.clock)
