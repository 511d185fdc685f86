"""What is written down of a subscriber, in the order in which it happened. Pure."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = [
    "Acked",
    "Joined",
    "LaneSnapshot",
    "Nacked",
    "Record",
    "Rejected",
    "Snapshot",
    "Taken",
]


class Joined(NamedTuple):
    """A partition is the subscriber's from a block on; of it, what is of a time or later."""

    partition: str
    floor: int
    start_ns: int | None = None
    next_seq: int | None = None
    """What the block at the floor should begin with; None if nobody knows."""


class Taken(NamedTuple):
    """The next block of a partition came, with so many bundles; no block lies between."""

    partition: str
    block: int
    bundle_count: int
    first_seq: int
    end_seq: int
    """One more than the ``wal_seq`` of its last bundle."""


class Acked(NamedTuple):
    """So many bundles of a block, from one on, are done with."""

    partition: str
    block: int
    bundle_first: int
    bundle_count: int


class Nacked(NamedTuple):
    """So many deliveries of a bundle failed; it comes again from a wall time on."""

    partition: str
    block: int
    bundle_index: int
    attempt: int
    not_before_ns: int


class Rejected(NamedTuple):
    """A bundle was given up: a dead letter, which stays where it is."""

    partition: str
    block: int
    bundle_index: int
    wal_seq: int
    time_ns: int
    attempt: int
    reason: str


class LaneSnapshot(NamedTuple):
    """All of the above that counts still, of one partition."""

    partition: str
    floor: int
    """Of blocks below it all is done with."""
    start_ns: int | None
    next_number: int
    next_seq: int | None
    """What the next block should begin with; None if nobody knows."""
    blocks: tuple[tuple[Taken, tuple[tuple[int, int], ...]], ...]
    """Blocks from the floor on, each with the runs (first, count) that are done with."""
    nacks: tuple[Nacked, ...] = ()
    letters: tuple[Rejected, ...] = ()


class Snapshot(NamedTuple):
    """All there is to know: what was written before it means nothing any more."""

    wants_all: bool
    """Of each partition that there ever is, not only of those that are named."""
    is_gone: bool
    """The subscriber is no more."""
    lanes: tuple[LaneSnapshot, ...]
    is_paused: bool = False
    """Nothing is delivered to it for now."""


Record: TypeAlias = Joined | Taken | Acked | Nacked | Rejected | Snapshot
