"""Claims of loaders that are gone before they had a block: nobody else would get the partition."""

from __future__ import annotations

from typing import Final

from quiver.chain.record import Partition, Record, released
from quiver.chain.tending.orphans import CLAIMED, ORPHAN_NS
from quiver.clock import Clock
from quiver.disk import fresh_name

__all__ = ["CLAIM_NS", "Claims"]

CLAIM_NS: Final = CLAIMED * ORPHAN_NS


class Claims:
    """Claims of partitions that have no open block. Not safe for threads.

    One of a partition that has an open block ends with that, as an orphan.
    """

    def __init__(self, *, clock: Clock, after_ns: int = CLAIM_NS) -> None:
        """End those that are the same for so long, whose owner may wait for nodes with room."""
        self._clock = clock
        self._after_ns = after_ns
        self._since: dict[str, tuple[int, int]] = {}

    def look(self, partition: Partition, record: Record) -> None:
        """End the claim of a partition if its time is over; to be called every few seconds.

        Whoever made it and lives is told so when he commits. Raises what the metadata raise.
        """
        name, now = partition.name, self._clock.monotonic_ns()
        if not record.sealing_by or record.open is not None:
            self._since.pop(name, None)
            return
        epoch, since = self._since.get(name, (record.epoch, now))
        since = since if epoch == record.epoch else now
        self._since[name] = record.epoch, since
        if now - since >= self._after_ns:
            by = fresh_name()
            partition.change(
                lambda known: released(known, by) if known.epoch == record.epoch else known
            )
