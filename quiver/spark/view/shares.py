"""What each task reads of a collection: some of its buckets, whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from quiver.spark.partitions import Shares
from quiver.upsert.persist import Snapshot

__all__ = ["Range", "Share", "share_out"]


class Range(NamedTuple):
    """Which times are read: the state as of one, then changes of ``first`` to ``last``."""

    state: int | None = None
    """As of this epoch; None for no state."""
    first: int = 0
    last: int = -1
    """The last epoch whose changes are read; below ``first`` if none is."""

    @property
    def has_changes(self) -> bool:
        """Whether any epoch's changes are in it."""
        return self.first <= self.last


class Share(NamedTuple):
    """What one task reads, and all that it has to know of the collection."""

    snapshot: Snapshot
    buckets: tuple[int, ...]
    range: Range


def share_out(sizes: Mapping[int, int], *, bytes_max: int, count_min: int) -> list[tuple[int, ...]]:
    """Pack buckets into partitions of about ``bytes_max`` at most, in order, none of them cut.

    ``sizes`` has about how many bytes of each are read; one that has none is left out. The number
    of partitions is a multiple of ``count_min``, unless they would be tiny.
    """
    shares = Shares(sum(sizes.values()), bytes_max=bytes_max, count_min=count_min)
    found: list[list[int]] = [[] for _ in range(shares.count)]
    start = 0
    for bucket, size in sorted(sizes.items()):
        if not size:
            continue
        found[shares.owner(start + size / 2)].append(bucket)
        start += size
    return [tuple(share) for share in found if share]
