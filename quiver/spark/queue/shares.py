"""What each task reads of a queue: some batches, and of these what was appended in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quiver.ship.consumer import Descriptor
from quiver.spark.partitions import Shares

__all__ = ["UNKNOWN_BYTES", "Share", "share_out", "size_of"]

UNKNOWN_BYTES: Final = 64 << 20
"""How large a batch counts whose entry does not say it: others flush at that size."""


class Share(NamedTuple):
    """What one task reads."""

    descriptors: tuple[Descriptor, ...]
    since_ns: int | None = None
    until_ns: int | None = None
    epoch: int | None = None
    """Of the consumer that planned it; None if whoever reads only looks."""

    def has(self, time_ns: int | None) -> bool:
        """Whether what was appended then is in the range of times; without a time it is."""
        if time_ns is None:
            return True
        after = self.since_ns is None or self.since_ns <= time_ns
        return after and (self.until_ns is None or time_ns < self.until_ns)


def size_of(descriptor: Descriptor) -> int:
    """Say how many bytes are fetched for a batch."""
    known = descriptor.byte_count
    return UNKNOWN_BYTES if known is None else max(1, known)


def share_out(
    descriptors: Sequence[Descriptor], *, bytes_max: int, count_min: int
) -> list[tuple[Descriptor, ...]]:
    """Pack batches into partitions of about ``bytes_max`` at most, in order, none of them cut.

    Their number is a multiple of ``count_min``, unless they would be tiny.
    """
    sizes = [size_of(descriptor) for descriptor in descriptors]
    shares = Shares(sum(sizes), bytes_max=bytes_max, count_min=count_min)
    found: list[list[Descriptor]] = [[] for _ in range(shares.count)]
    start = 0
    for descriptor, size in zip(descriptors, sizes, strict=True):
        found[shares.owner(start + size / 2)].append(descriptor)
        start += size
    return [tuple(share) for share in found if share]
