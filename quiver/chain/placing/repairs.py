"""Copies that are wanted, in the order in which they are made. Pure.

One copy left, then fewer than there should be, then what nodes have that are to be left; in each
first what is live: blocks that readers at the end of a partition are about to reach, newest first,
then history. New writes come before all of it: a node that repairs lets appends pass, and what is
open is sealed, not repaired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from quiver.chain.record import Block

__all__ = ["START_DELAY_NS", "Held", "Repair", "Want", "repairs"]

START_DELAY_NS: Final = 30_000_000_000
"""A node that vanished may only start anew."""


class Want(IntEnum):
    """How much a copy is wanted; the smallest first."""

    LAST_COPY = 0
    LIVE = 1
    HISTORY = 2
    LEAVING = 3
    """It has its copies, some of them on nodes that are to be left."""

    @property
    def words(self) -> str:
        """Say it."""
        return ("last copy", "live", "history", "node is left")[self]


@dataclass(frozen=True, slots=True)
class Held:
    """A sealed block, and what is known of its partition."""

    partition: str
    block: Block
    is_live: bool
    """Its partition is written to, or read at its end."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A block that wants copies; those of all partitions are made in one ``order``."""

    order: tuple[int, bool, int, str]
    partition: str
    number: int
    want: Want
    present: tuple[str, ...]
    """Locations that are there, in the order of the chain: copied from the last of them."""
    missing: int


def repairs(
    held: Iterable[Held],
    gone_since: Mapping[str, int],
    *,
    now_ns: int,
    leaving: Collection[str] = (),
) -> list[Repair]:
    """Give what is to be repaired, first things first.

    ``gone_since`` has the nodes that do not serve, each with the time of the monotonic clock since
    when. A node that vanished a moment ago is waited for, unless one copy is left. Copies of those
    ``leaving`` are there, and are moved. A block of which nobody is there is not in it: nothing can
    be copied.
    """
    wanted = (_wanted(each, gone_since, leaving, now_ns=now_ns) for each in held)
    return sorted((each for each in wanted if each is not None), key=lambda one: one.order)


def _wanted(
    held: Held, gone_since: Mapping[str, int], leaving: Collection[str], *, now_ns: int
) -> Repair | None:
    block = held.block
    there = [name for name in block.locations if name not in gone_since]
    present = tuple(name for name in there if name not in leaving)
    missing = block.rf - len(there)
    awaited = sum(
        now_ns - gone_since[name] < START_DELAY_NS for name in block.locations if name in gone_since
    )
    if not there:
        return None
    if missing > 0 and len(there) == 1:
        want = Want.LAST_COPY
    elif missing > awaited:
        want = Want.LIVE if held.is_live else Want.HISTORY
    elif len(present) < len(there):
        want = Want.LEAVING
    else:
        return None
    order = (want, not held.is_live, -block.end, held.partition)
    return Repair(order, held.partition, block.number, want, present, block.rf - len(present))
