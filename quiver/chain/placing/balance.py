"""Which blocks move from fuller nodes to emptier ones. Pure.

What is compared is how full nodes are, as a share. Moving begins when two nodes are further apart
than ``BEGIN`` and goes on until they are as near as ``REST``, or nothing fits. No move turns the
order of two nodes round; so each makes the sum of squares smaller that is least when all are as
full as each other, and there is no way back to where one was: it comes to rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quiver.chain.placing.choose import FILL_MAX, Node, host_of

__all__ = ["BEGIN", "REST", "Move", "Placed", "balance", "skew"]

BEGIN: Final = 0.20
REST: Final = 0.05


class Placed(NamedTuple):
    """A block that is sealed and finished, and all of its locations are there and have it."""

    partition: str
    number: int
    end: int
    """Ingestion time of its last entry in ns: what is newer is deleted later."""
    size: int
    locations: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    """Who has a copy that is about to be deleted: it must not come back there meanwhile."""


class Move(NamedTuple):
    """A block that is copied to a node, listed there, and listed no more where it was."""

    partition: str
    number: int
    source: str
    target: str
    size: int


@dataclass(slots=True)
class _Load:
    node: Node
    used: int

    @property
    def fill(self) -> float:
        return self.used / self.node.total_bytes

    def fill_with(self, size: int) -> float:
        return (self.used + size) / self.node.total_bytes


def skew(nodes: Iterable[Node]) -> float:
    """Say how far the fullest and the emptiest node are apart, as a share of a disk."""
    fills = [load.fill for load in _loads(nodes)]
    return max(fills, default=0.0) - min(fills, default=0.0)


def balance(
    nodes: Sequence[Node],
    placed: Iterable[Placed],
    *,
    moves_max: int,
    is_moving: bool = False,
    avoid: Collection[tuple[str, str]] = (),
) -> list[Move]:
    """Give the next moves, at most so many; none: it is at rest.

    ``free_bytes`` of ``nodes`` is what will be free once copies are deleted that nobody lists.
    ``is_moving`` says that the last plan had moves. A block goes to no host that has one of its
    other copies, to no node that would be too full, and not where none of its locations can be
    reached: pairs of ``avoid`` do not reach each other. The newest go first.
    """
    if not is_moving and skew(nodes) <= BEGIN:
        return []
    loads = _loads(nodes)
    known = {load.node.name: load.node for load in loads}
    broken = {frozenset(pair) for pair in avoid}
    blocks: dict[str, list[Placed]] = {name: [] for name in known}
    for block in sorted(placed, key=lambda each: (-each.end, each.partition, each.number)):
        if all(location in known for location in block.locations):
            for location in block.locations:
                blocks[location].append(block)
    moves: list[Move] = []
    while len(moves) < moves_max:
        found = _next_move(loads, blocks, known=known, broken=broken)
        if found is None:
            break
        move, block = found
        moves.append(move)
        for location in block.locations:
            blocks[location].remove(block)
        for load in loads:
            name = load.node.name
            load.used += move.size * ((name == move.target) - (name == move.source))
    return moves


def _loads(nodes: Iterable[Node]) -> list[_Load]:
    return [
        _Load(node, node.total_bytes - node.free_bytes) for node in nodes if node.total_bytes > 0
    ]


def _next_move(
    loads: Sequence[_Load],
    blocks: dict[str, list[Placed]],
    *,
    known: dict[str, Node],
    broken: Collection[frozenset[str]],
) -> tuple[Move, Placed] | None:
    """Find the move between the two nodes that are furthest apart, of those that have one."""
    pairs = [
        (source, target) for source in loads for target in loads if source.fill - target.fill > REST
    ]
    pairs.sort(key=lambda pair: (pair[1].fill - pair[0].fill, pair[0].node.name, pair[1].node.name))
    for source, target in pairs:
        for block in blocks[source.node.name]:
            if _fits(block, source, target, known=known, broken=broken):
                name, to = source.node.name, target.node.name
                return Move(block.partition, block.number, name, to, block.size), block
    return None


def _fits(
    block: Placed,
    source: _Load,
    target: _Load,
    *,
    known: dict[str, Node],
    broken: Collection[frozenset[str]],
) -> bool:
    name = target.node.name
    if name in block.locations or name in block.unlisted or block.size <= 0:
        return False
    filled = target.fill_with(block.size)
    if filled >= FILL_MAX or filled > source.fill_with(-block.size):
        return False
    others = [known[each] for each in block.locations if each != source.node.name]
    if host_of(target.node) in map(host_of, others):
        return False
    return any(frozenset((each, name)) not in broken for each in block.locations)
