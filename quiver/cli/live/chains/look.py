"""What one look at a chain sees, as values: nothing in here knows a wire or a screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ChainLook", "NodeSeen", "PartitionSeen", "WantSeen"]


class NodeSeen(NamedTuple):
    """One node; ``fault`` is why it did not answer, and counts are those of one that did."""

    name: str
    address: str
    host: str
    state: str
    is_reached: bool
    free_bytes: int
    total_bytes: int
    is_auditor: bool = False
    """It looks after all."""
    copy_count: int = 0
    log_count: int = 0
    """Of these, those that are no segments yet."""
    head_count: int = 0
    """Open blocks that it takes from their loaders."""
    tail_count: int = 0
    """Open blocks that it acknowledges and is read for."""
    fault: str = ""

    @property
    def fill(self) -> float:
        """How full its disk is, as a share."""
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_well(self) -> bool:
        """Whether it serves, and answers."""
        return self.is_reached and self.state == "serving"


class PartitionSeen(NamedTuple):
    """One partition; ``fault`` is why nothing is known of it."""

    name: str
    state: str = ""
    writer: str = ""
    rf: int = 0
    block_count: int = 0
    sealed_bytes: int = 0
    open_number: int | None = None
    chain: tuple[str, ...] = ()
    """Where the open block is, first to last."""
    lengths: tuple[int | None, ...] = ()
    """What each of these has of it; None: it does not say."""
    wanted_count: int = 0
    """Blocks with fewer copies than RF on nodes that answer."""
    lost_count: int = 0
    """Those of them without any."""
    fault: str = ""

    @property
    def open_bytes(self) -> int | None:
        """What the first one has of the open block."""
        return self.lengths[0] if self.lengths else None

    @property
    def lag_bytes(self) -> int | None:
        """What the first one has of the open block and the last one does not."""
        if not self.lengths or self.lengths[0] is None or self.lengths[-1] is None:
            return None
        return max(self.lengths[0] - self.lengths[-1], 0)

    @property
    def byte_count(self) -> int:
        """Entries of all blocks."""
        return self.sealed_bytes + (self.open_bytes or 0)


class WantSeen(NamedTuple):
    """A block that wants copies."""

    partition: str
    number: int
    want: str
    present: tuple[str, ...]
    rf: int


@dataclass(frozen=True, slots=True)
class ChainLook:
    """A chain at one moment. ``problem`` is why there is nothing of it to see.

    ``at_ns`` is wall time, ``monotonic_ns`` is for differences, ``took_ns`` is what looking took.
    """

    at_ns: int
    monotonic_ns: int
    took_ns: int = 0
    nodes: tuple[NodeSeen, ...] = ()
    partitions: tuple[PartitionSeen, ...] = ()
    wants: tuple[WantSeen, ...] = ()
    """Those that are made next, in order (R39); not all of them."""
    want_count: int = 0
    problem: str | None = None

    @property
    def faults(self) -> Iterator[str]:
        """Go through all that is wrong."""
        if self.problem is not None:
            yield self.problem
        yield from (f"{each.name}: {each.fault}" for each in self.nodes if each.fault)
        yield from (f"{each.name}: {each.fault}" for each in self.partitions if each.fault)
