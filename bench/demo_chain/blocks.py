"""The map: which node has which block, who reads it at the end, and what was copied anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

__all__ = ["BlockMap", "MappedBlock", "Mark", "legend", "lines", "mark", "merged"]


class Mark(Enum):
    """What a node has of a block, and how that is written."""

    NONE = "·"
    COPY = "o"
    TAIL = "T"
    NEW = "+"
    LOST = "x"


class MappedBlock(NamedTuple):
    """One block."""

    number: int
    locations: tuple[str, ...]
    """First to last: the last one is the tail, which readers prefer."""


@dataclass(frozen=True)
class BlockMap:
    """All blocks of a partition at one moment."""

    nodes: tuple[str, ...]
    away: frozenset[str]
    """Nodes that are gone, with all that they have."""
    blocks: tuple[MappedBlock, ...]
    rf: int = 0
    """How many copies of each block there should be."""

    def copies(self, block: MappedBlock) -> int:
        """How many can be read."""
        return sum(node not in self.away for node in block.locations)


def merged(early: BlockMap | None, late: BlockMap) -> BlockMap:
    """Give a later map with blocks as they were in an earlier one, if they were there."""
    known = {block.number: block for block in early.blocks} if early else {}
    return replace(late, blocks=tuple(known.get(each.number, each) for each in late.blocks))


def mark(now: BlockMap, block: MappedBlock, node: str, before: BlockMap | None = None) -> Mark:
    """Say what a node has of a block; new is what it did not have ``before``."""
    if node not in block.locations:
        return Mark.NONE
    if node in now.away:
        return Mark.LOST
    old = {each.number: each.locations for each in before.blocks} if before else {}
    if before and node not in old.get(block.number, ()):
        return Mark.NEW
    return Mark.TAIL if node == block.locations[-1] else Mark.COPY


def lines(now: BlockMap, before: BlockMap | None = None) -> list[str]:
    """Draw a map in text: a line for each node, a sign for each block."""
    wide = max(len(node) for node in (*now.nodes, "copies"))
    found = [
        f"{node:<{wide}}  {_signs([mark(now, block, node, before).value for block in now.blocks])}"
        + ("  lost" if node in now.away else "")
        for node in now.nodes
    ]
    counts = _signs([str(now.copies(block)) for block in now.blocks])
    return [*found, f"{'copies':<{wide}}  {counts}"]


def legend() -> str:
    """Say what the signs mean."""
    return (
        f"{Mark.COPY.value} a copy   {Mark.TAIL.value} the tail's, which readers prefer   "
        f"{Mark.LOST.value} lost with its node   {Mark.NEW.value} copied anew"
    )


def _signs(signs: Sequence[str]) -> str:
    return " ".join(signs)
