"""What a screen of a chain shows: the last look, rates since the one before, and what happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from quiver.cli.live.chains.look import ChainLook, NodeSeen, PartitionSeen
from quiver.cli.output import count
from quiver.units import SECOND

__all__ = ["ChainBoard", "ChainEvent"]

_EVENTS_MAX: Final = 300
_RATES_MAX: Final = 600


class ChainEvent(NamedTuple):
    """One thing that happened not long before ``at_ns``, to a node or a partition."""

    at_ns: int
    about: str
    text: str
    is_alarming: bool = False


class ChainBoard:
    """Looks go in, one after the other; what is to be seen comes out."""

    def __init__(self, place: str, *, interval_ns: int) -> None:
        """Begin with nothing."""
        self.place = place
        self.interval_ns = interval_ns
        self.look: ChainLook | None = None
        """The last look that saw the chain."""
        self.problem: str | None = None
        """Why the last look did not."""
        self.rates: dict[str, float] = {}
        """Bytes in a second, by partition."""
        self.total: float | None = None
        self.history: deque[float] = deque(maxlen=_RATES_MAX)
        self.events: deque[ChainEvent] = deque(maxlen=_EVENTS_MAX)
        """The newest first."""
        self.look_count = 0

    def take(self, look: ChainLook) -> None:
        """Learn what a look saw."""
        self.look_count += 1
        if look.problem is not None:
            if look.problem != self.problem:
                self.events.appendleft(ChainEvent(look.at_ns, "", look.problem, True))
            self.problem, self.total, self.rates = look.problem, None, {}
            return
        before, self.look, self.problem = self.look, look, None
        if before is None:
            return
        self.events.extendleft(_events(before, look))
        seconds = max(look.monotonic_ns - before.monotonic_ns, 1) / SECOND
        known = {each.name: each.byte_count for each in before.partitions if not each.fault}
        self.rates = {
            each.name: max(each.byte_count - known[each.name], 0) / seconds
            for each in look.partitions
            if each.name in known and not each.fault
        }
        self.total = sum(self.rates.values())
        self.history.append(self.total)


def _events(before: ChainLook, after: ChainLook) -> Iterator[ChainEvent]:
    at = after.at_ns
    nodes = {each.name: each for each in before.nodes}
    for node in after.nodes:
        yield from (
            ChainEvent(at, node.name, text, not node.is_well)
            for text in _of_node(nodes.get(node.name), node)
        )
    partitions = {each.name: each for each in before.partitions}
    for partition in after.partitions:
        yield from (
            ChainEvent(at, partition.name, text, bool(partition.lost_count or partition.fault))
            for text in _of_partition(partitions.get(partition.name), partition)
        )
    yield from (
        ChainEvent(at, name, "is gone")
        for name in partitions.keys() - {each.name for each in after.partitions}
    )
    if before.want_count and not after.want_count:
        yield ChainEvent(at, "", "all blocks have their copies")


def _of_node(old: NodeSeen | None, new: NodeSeen) -> Iterator[str]:
    if old is None:
        yield f"is there: {new.state}"
    elif old.state != new.state:
        yield new.state
    elif new.is_auditor and not old.is_auditor:
        yield "looks after all"


def _of_partition(old: PartitionSeen | None, new: PartitionSeen) -> Iterator[str]:
    if old is None:
        yield "begins"
        return
    if new.fault and new.fault != old.fault:
        yield new.fault
    if new.fault or old.fault:
        return
    if new.open_number != old.open_number and new.open_number is not None:
        yield f"block {new.open_number:,} is open on {' > '.join(new.chain)}"
    elif new.open_number is None and old.open_number is not None:
        yield "no block is open"
    if new.wanted_count > old.wanted_count:
        yield f"{count(new.wanted_count, 'block')} with fewer copies than {new.rf}"
    if new.lost_count > old.lost_count:
        yield f"{count(new.lost_count, 'block')} without a copy that answers"
    if new.block_count < old.block_count:
        yield f"{count(old.block_count - new.block_count, 'block')} purged"
