"""Copies that are wanted, in the order in which they are made. Pure.

One copy left, then fewer than there should be; in each first what is live: blocks that readers at
the end of a partition are about to reach, newest first, then history. New writes come before all of
it: a node that repairs lets appends pass, and what is open is sealed, not repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


@dataclass(frozen=True, slots=True)
class Held:
    """A sealed block, and what is known of its partition."""

    partition: str
    block: Block
    is_live: bool
    """Its partition is written to, or read at its end."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A block that wants copies."""

    partition: str
    number: int
    want: Want
    present: tuple[str, ...]
    """Locations that are there, in the order of the chain: copied from the last of them."""
    missing: int


def repairs(held: Iterable[Held], gone_since: Mapping[str, int], *, now_ns: int) -> list[Repair]:
    """Give what is to be repaired, first things first.

    ``gone_since`` has the nodes that do not serve, each with the time of the monotonic clock since
    when. A node that vanished a moment ago is waited for, unless one copy is left. A block of which
    nobody is there is not in it: nothing can be copied.
    """
    wanted = [one for each in held if (one := _wanted(each, gone_since, now_ns)) is not None]
    return [one for _, one in sorted(wanted, key=lambda pair: pair[0])]


def _wanted(
    held: Held, gone_since: Mapping[str, int], now_ns: int
) -> tuple[tuple[int, bool, int, str], Repair] | None:
    block = held.block
    present = tuple(name for name in block.locations if name not in gone_since)
    missing = block.rf - len(present)
    if missing <= 0 or not present:
        return None
    is_last = len(present) == 1
    awaited = sum(
        now_ns - gone_since[name] < START_DELAY_NS for name in block.locations if name in gone_since
    )
    if not is_last and missing <= awaited:
        return None
    want = Want.LAST_COPY if is_last else Want.LIVE if held.is_live else Want.HISTORY
    repair = Repair(held.partition, block.number, want, present, missing)
    return (want, not held.is_live, -block.end, held.partition), repair
