"""Locations for a block: of two nodes at random the emptier one, and no two on one host. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["FILL_MAX", "Chosen", "Node", "Random", "choose", "host_of"]

FILL_MAX: Final = 0.85
_TRIES: Final = 16
"""An order in which no two are a pair that failed may be missed at first."""


class Random(Protocol):
    """Where chance comes from; ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int:
        """Give a whole number from 0 up to, and without, ``stop``."""
        ...


@dataclass(frozen=True, slots=True)
class Node:
    """A node that serves."""

    name: str
    free_bytes: int
    total_bytes: int
    host: str = ""
    """What fails as one: nodes of one host do not get the same block. Empty: a host of its own."""

    @property
    def is_full(self) -> bool:
        """Whether it gets no more blocks."""
        return self.total_bytes - self.free_bytes >= FILL_MAX * self.total_bytes


@dataclass(frozen=True, slots=True)
class Chosen:
    """Locations for a block, in the order of the chain."""

    locations: tuple[str, ...]
    is_under_replicated: bool
    """There are fewer than wanted; a node that joins fills them up."""


def choose(
    nodes: Sequence[Node],
    count: int,
    random: Random,
    *,
    kept: Sequence[str] = (),
    avoid: Collection[tuple[str, str]] = (),
) -> Chosen:
    """Choose until ``count`` nodes have a block, ``kept`` among them; new ones come before those.

    Pairs of ``avoid`` are not made neighbours, and no full node and no second one of a host is
    taken: rather fewer copies than these. ``kept`` is taken as it is.
    """
    by_name = {node.name: node for node in nodes}
    left = [node for node in nodes if not node.is_full and node.name not in kept]
    hosts = {host_of(by_name[name]) for name in kept if name in by_name}
    broken = {frozenset(pair) for pair in avoid}
    wanted = max(count - len(kept), 0)
    best: list[str] = []
    for _ in range(_TRIES if broken else 1):
        found: list[str] = []
        taken = set(hosts)
        while len(found) < wanted:
            behind = found[0] if found else kept[0] if kept else ""
            fit = [
                node
                for node in left
                if host_of(node) not in taken and frozenset((node.name, behind)) not in broken
            ]
            if not fit:
                break
            node = _emptier(fit, random)
            found.insert(0, node.name)
            taken.add(host_of(node))
        best = max(best, found, key=len)
        if len(best) == wanted:
            break
    return Chosen((*best, *kept), len(best) < wanted)


def _emptier(fit: Sequence[Node], random: Random) -> Node:
    """Take two at random, and of them the one with more room."""
    one = random.randrange(len(fit))
    if len(fit) == 1:
        return fit[one]
    other = (one + 1 + random.randrange(len(fit) - 1)) % len(fit)
    return max(fit[one], fit[other], key=lambda node: node.free_bytes)


def host_of(node: Node) -> tuple[bool, str]:
    """Say what fails as one with a node; a host and a node may have the same name."""
    return (True, node.host) if node.host else (False, node.name)
