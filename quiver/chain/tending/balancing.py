"""Blocks that move from fuller nodes to emptier ones: copied, listed there, then dropped here.

A block is listed at its new place, and no more at the old one, by one swap, once the new copy is
durable and checked; the old one is dropped by a pass that finds it listed nowhere for a while. So
there are never fewer copies than before, and readers see one place or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from quiver.chain.membership import list_partitions
from quiver.chain.metadata import Metadata
from quiver.chain.peers import BlockName, Finished, Holding
from quiver.chain.placing import BEGIN, Move, Node, Placed, balance, skew
from quiver.chain.record import Block, Partition
from quiver.chain.tending.finishing import Done
from quiver.chain.tending.nodes import Nodes
from quiver.clock import Clock
from quiver.errors import MissingError, QuiverError
from quiver.units import SECOND

__all__ = ["MOVES_MAX", "Balancer"]

MOVES_MAX: Final = 4
"""So many in a pass, one after the other."""
_REST_NS: Final = 60 * SECOND
"""So long nobody looks again when there was nothing that fits."""
_AVOID_NS: Final = 600 * SECOND
"""So long two nodes are left alone of which one did not get a block from the other."""

_Held = dict[str, dict[BlockName, Holding]]


class Balancer:
    """Moves blocks, some in each pass. Not safe for threads."""

    def __init__(
        self, metadata: Metadata, nodes: Nodes, *, clock: Clock, moves_max: int = MOVES_MAX
    ) -> None:
        """Take the nodes; nothing is asked yet."""
        self._metadata = metadata
        self._nodes = nodes
        self._clock = clock
        self._moves_max = moves_max
        self._is_moving = False
        self._rests_until_ns = 0
        self._failed: dict[tuple[str, str], int] = {}
        self.faults: dict[str, QuiverError] = {}
        """Of the last look: partitions whose record could not be read, which stay as they are."""

    def due(self) -> list[Move]:
        """Give the moves of a pass; nobody is asked as long as nodes are as full as each other.

        Raises what the metadata raise.
        """
        self.faults = {}
        nodes = self._nodes.nodes()
        if not self._is_moving and skew(nodes) <= BEGIN:
            return []
        if self._clock.monotonic_ns() < self._rests_until_ns:
            return []
        moves = self.plan(is_moving=self._is_moving)
        self._is_moving = bool(moves)
        if not moves:
            self._rests_until_ns = self._clock.monotonic_ns() + _REST_NS
        return moves

    def plan(self, *, is_moving: bool) -> list[Move]:
        """Ask all nodes what they have, and give the next moves; see ``balance``."""
        now = self._clock.monotonic_ns()
        self._failed = {pair: at for pair, at in self._failed.items() if now - at < _AVOID_NS}
        nodes, placed = self._found()
        return balance(
            nodes, placed, moves_max=self._moves_max, is_moving=is_moving, avoid=self._failed
        )

    def rooms(self) -> list[Node]:
        """Ask all nodes what room they have; what is deleted anyway counts as free."""
        return self._found()[0]

    def _found(self) -> tuple[list[Node], list[Placed]]:
        nodes, held = self._asked()
        placed: list[Placed] = []
        self.faults = {}
        for name in list_partitions(self._metadata):
            try:
                placed += list(self._placed(name, nodes, held))
            except QuiverError as error:  # Its blocks stay where they are; others may move.
                self.faults[name] = error
        return list(nodes.values()), placed

    def move(self, move: Move) -> list[Done]:
        """Copy a block to where it goes, and list it there alone; gives what was done.

        Nothing is, if its copies are not any more where they were, or it was purged.
        """
        name = BlockName(move.partition, move.number)
        partition = Partition(self._metadata, move.partition, clock=self._clock)
        try:
            block = partition.block(partition.read(), move.number)
        except MissingError:
            return []
        except QuiverError as error:
            return [Done("move", move.number, move.source, error)]
        if not _is_movable(block, move):
            return []
        others = tuple(each for each in block.locations if each != move.source)
        finished = Finished(block.rows, block.digest, move.size)
        sources = (*reversed(others), move.source)
        done = self._fetched(name, sources, move.target, finished=finished)
        if done[-1].error is not None:
            return done
        locations = (move.target, *others)  # The last one stays last: readers are not moved.

        def relocate(known: Block) -> Block:
            return (
                known._replace(locations=locations) if known.locations == block.locations else known
            )

        try:
            if partition.amend(move.number, relocate).locations == locations:
                done.append(Done("move", move.number, move.source))
                # An auditor may have dropped it before it was listed.
                again = self._fetched(name, sources, move.target, finished=finished)
                done += [each for each in again if each.error is not None]
        except QuiverError as error:  # It was purged since, or nobody knows.
            done.append(Done("list", move.number, move.target, error))
        return done

    def _fetched(
        self, name: BlockName, sources: tuple[str, ...], target: str, *, finished: Finished
    ) -> list[Done]:
        """Have it copied from whoever can; the last act says whether it was."""
        failed = []
        for source in sources:
            try:
                self._nodes(target).fetch(name, source, finished)
            except QuiverError as error:
                self._failed[source, target] = self._clock.monotonic_ns()
                failed.append(Done("copy", name.number, target, error))
            else:
                return [*failed, Done("copy", name.number, target)]
        return failed

    def _asked(self) -> tuple[dict[str, Node], _Held]:
        """Ask the nodes what they have, and what room; who does not answer is left alone."""
        nodes, held = {}, {}
        for node in self._nodes.nodes():
            try:
                said = self._nodes(node.name).status()
            except QuiverError:
                continue  # A pass over the partitions tells it.
            nodes[node.name] = replace(
                node, free_bytes=said.free_bytes, total_bytes=said.total_bytes
            )
            held[node.name] = {each.name: each for each in said.holdings}
        return nodes, held

    def _placed(self, name: str, nodes: dict[str, Node], held: _Held) -> Iterator[Placed]:
        """Give blocks of which all copies are there; count as free what is deleted anyway."""
        partition = Partition(self._metadata, name, clock=self._clock)
        record = partition.read()
        below = record.open.number if record.open is not None else record.next_number
        unlisted = {
            node: {each.number for each in has if each.partition == name and each.number < below}
            for node, has in held.items()
        }
        for block in partition.blocks_now(record):
            key = BlockName(name, block.number)
            for location in block.locations:
                unlisted.get(location, set()).discard(block.number)
            shunned = tuple(node for node, numbers in unlisted.items() if block.number in numbers)
            size = _size(block, key, held)
            if size:
                yield Placed(name, block.number, block.end, size, block.locations, shunned)
        for node, numbers in unlisted.items():
            freed = sum(_bytes(held[node][BlockName(name, number)]) for number in numbers)
            known = nodes[node]
            free = min(known.free_bytes + freed, known.total_bytes)
            nodes[node] = replace(known, free_bytes=free)


def _is_movable(block: Block, move: Move) -> bool:
    there = block.locations
    return bool(block.digest) and move.source in there and move.target not in there


def _size(block: Block, name: BlockName, held: Mapping[str, Mapping[BlockName, Holding]]) -> int:
    """Give the size of the segment if all locations have it; 0: the block stays where it is."""
    size = 0
    for location in block.locations:
        holding = held.get(location, {}).get(name)
        finished = holding.finished if holding is not None else None
        if finished is None or finished.digest != block.digest:
            return 0
        size = finished.size
    return size


def _bytes(holding: Holding) -> int:
    return holding.finished.size if holding.finished is not None else holding.length
