"""Open blocks whose loader is gone: a location sees that nothing comes, and after a while ends one.

A loader that lives has a stream to the first location, with a heartbeat each quarter of a second; a
chain that breaks it ends by itself within seconds. So a block to which nobody speaks, of which the
record says the same for half a minute, has no loader. A claim that is not committed may be that of
one who waits for nodes with room: it is left alone for ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from quiver.chain.metadata import Metadata
from quiver.chain.peers import BlockName, Holding
from quiver.chain.record import Partition, Record
from quiver.chain.tending.closing import is_same
from quiver.clock import Clock
from quiver.errors import MissingError, QuiverError

__all__ = ["CLAIMED", "ORPHAN_NS", "Orphan", "Orphans"]

ORPHAN_NS: Final = 30_000_000_000
CLAIMED: Final = 10
"""So many times as long, a claim waits."""


class Orphan(NamedTuple):
    """A partition whose open block is to be ended, and its record."""

    partition: Partition
    record: Record


class Orphans:
    """The open blocks of one node that nobody writes. Not safe for threads."""

    def __init__(
        self,
        node: str,
        metadata: Metadata,
        *,
        is_fed: Callable[[BlockName], bool],
        clock: Clock,
        after_ns: int = ORPHAN_NS,
    ) -> None:
        """Watch the blocks of a node; ``is_fed`` says whether a block has a stream there."""
        self._node = node
        self._metadata = metadata
        self._is_fed = is_fed
        self._clock = clock
        self._after_ns = after_ns
        self._since: dict[str, tuple[Record, int]] = {}
        self.faults: list[QuiverError] = []
        """Of the last look: records that could not be read."""

    def look(self, holdings: Iterable[Holding]) -> list[Orphan]:
        """Give those whose time is over; to be called every few seconds.

        The first location comes first: each one behind it waits once more as long, in case those
        before it are gone as well. A record that cannot be read keeps no other block waiting.
        """
        now = self._clock.monotonic_ns()
        logs = [each.name for each in holdings if each.finished is None]
        fed = {name.partition for name in logs if self._is_fed(name)}
        before, self._since, self.faults = self._since, {}, []
        found = []
        for name in sorted({name.partition for name in logs} - fed):
            partition = Partition(self._metadata, name, clock=self._clock)
            try:
                record = partition.read()
            except MissingError:
                continue
            except QuiverError as error:
                self.faults.append(error)
                continue
            place = self._place(record, name, logs)
            if place < 0:
                continue
            known, since = before.get(name, (record, now))
            since = since if is_same(known, record) else now
            self._since[name] = record, since
            waits = (place + 1) * (CLAIMED if record.sealing_by else 1)
            if now - since >= waits * self._after_ns:
                found.append(Orphan(partition, record))
        return found

    def _place(self, record: Record, name: str, logs: Iterable[BlockName]) -> int:
        """Say where in the chain of the open block this node is; -1: it has nothing of it."""
        opened = record.open
        if opened is None or BlockName(name, opened.number) not in logs:
            return -1
        return opened.locations.index(self._node) if self._node in opened.locations else -1
