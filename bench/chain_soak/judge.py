"""What must be so of a cluster whatever happened to it, once all faults are taken back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import blake3

from bench.chain_soak.pauses import Acks
from bench.chain_soak.readers import Reader
from bench.chain_soak.settings import LIFE, PATIENCE, value_of
from quiver.chain.cluster import Cluster
from quiver.chain.peers import BlockName, Holding
from quiver.chain.record import Block, Partition, Record
from quiver.clock import SystemClock
from quiver.errors import QuiverError

__all__ = ["Verdict", "judge_values", "wanting"]


@dataclass
class Verdict:
    """What was found."""

    problems: list[str] = field(default_factory=list)
    committed: dict[str, list[int]] = field(default_factory=dict)
    blocks: int = 0
    copies: int = 0
    seconds: float = 0.0
    """Until each block had all of its copies, and nobody had one too many."""


def judge_values(
    committed: Sequence[int], acked: Mapping[int, int], sent: Mapping[int, int]
) -> list[str]:
    """Hold what is there against what was acknowledged and sent, by the lives of loaders."""
    problems = [
        f"{before} is followed by {number}: twice, or out of order"
        for before, number in pairwise(committed)
        if before >= number
    ]
    there: dict[int, list[int]] = {}
    for number in committed:
        there.setdefault(number // LIFE, []).append(number)
    for life, numbers in there.items():
        if max(numbers) > sent.get(life, -1):
            problems.append(f"{max(numbers)} was never sent")
        missing = set(range(life * LIFE, max(numbers))) - set(numbers)
        if missing:
            problems.append(f"of life {life} {len(missing)} are missing, as {min(missing)}")
    for life, last in acked.items():
        found = max(there.get(life, ()), default=life * LIFE - 1)
        if last > found:
            problems.append(f"life {life}: acknowledged up to {last}, there up to {found}")
    return problems


def judge_readers(readers: Sequence[Reader], committed: Mapping[str, Sequence[int]]) -> list[str]:
    """Hold what live cursors gave against what is there."""
    problems = []
    for reader in readers:
        reader.wait(committed, PATIENCE)
        problems += [f"a cursor failed: {fault}" for fault in reader.faults]
        for name in reader.partitions:
            found, there = reader.found[name], committed[name]
            if found != there:
                at = next(
                    (
                        n
                        for n, each in enumerate(zip(found, there, strict=False))
                        if each[0] != each[1]
                    ),
                    -1,
                )
                problems.append(
                    f"a cursor of {', '.join(reader.partitions)} gave {len(found)} of {name}, "
                    f"{len(there)} are there; the first that differs: {at}"
                )
    return problems


def wanting(cluster: Cluster, partitions: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """Say what wants to be finished, copied or deleted; nothing, when all is as it should be.

    An empty room for the block that comes next may be there: a loader that fills a block makes it
    ahead, and the next loader takes it, or nodes drop it once its number is passed.
    """
    said = []
    following = {name: _record(cluster, name).next_number for name in partitions}
    members = {each.name for each in cluster.members.look()}
    held: dict[str, set[tuple[str, int]]] = {}
    for node in nodes:
        if node not in members:
            return [f"{node} is not there"]
        found = cluster.members(node).status()
        holdings = [each for each in found.holdings if not _is_room(each, following)]
        held[node] = {(each.name.partition, each.name.number) for each in holdings}
        said += [f"{node} has a log of {each.name}" for each in holdings if each.finished is None]
    listed: dict[str, set[tuple[str, int]]] = {node: set() for node in nodes}
    for name in partitions:
        for block in _blocks(cluster, name):
            if not block.digest:
                said.append(f"block {block.number} of {name} is not finished")
            if len(block.locations) != min(block.rf, len(nodes)):
                said.append(f"block {block.number} of {name} is on {', '.join(block.locations)}")
            for node in block.locations:
                listed[node].add((name, block.number))
    for node in nodes:
        said += [f"{node} lacks {each}" for each in sorted(listed[node] - held[node])]
        said += [
            f"{node} has {each}, and is not listed" for each in sorted(held[node] - listed[node])
        ]
    return said


def judge(
    cluster: Cluster,
    nodes: Sequence[str],
    acks: Mapping[str, Acks],
    *,
    readers: Sequence[Reader],
    seconds: float,
) -> Verdict:
    """Wait until copies are restored, and look at all of it."""
    verdict = Verdict()
    begun = time.monotonic()
    while said := _asked(cluster, list(acks), nodes):
        if time.monotonic() - begun > seconds:
            verdict.problems += [f"after {seconds:.0f} s: {each}" for each in said[:10]]
            break
        time.sleep(0.25)
    verdict.seconds = time.monotonic() - begun
    for name, told in acks.items():
        told.look()
        try:
            with cluster.cursor(name) as cursor:
                committed = [value_of(message) for message in cursor]
        except QuiverError as error:
            verdict.problems.append(f"{name} cannot be read: {error}")
            committed = []
        verdict.committed[name] = committed
        found = judge_values(committed, told.acked, told.sent)
        verdict.problems += [f"{name}: {each}" for each in found]
        _judge_copies(cluster, name, verdict)
    verdict.problems += judge_readers(readers, verdict.committed)
    return verdict


def _asked(cluster: Cluster, partitions: Sequence[str], nodes: Sequence[str]) -> list[str]:
    try:
        return wanting(cluster, partitions, nodes)
    except QuiverError as error:
        return [f"{type(error).__name__}: {error}"]


def _is_room(holding: Holding, following: Mapping[str, int]) -> bool:
    is_empty = holding.finished is None and not holding.length
    return is_empty and holding.name.number == following.get(holding.name.partition)


def _record(cluster: Cluster, name: str) -> Record:
    return Partition(cluster.metadata, name, clock=SystemClock()).read()


def _blocks(cluster: Cluster, name: str) -> list[Block]:
    partition = Partition(cluster.metadata, name, clock=SystemClock())
    return list(partition.blocks_now(partition.read()))


def _judge_copies(cluster: Cluster, name: str, verdict: Verdict) -> None:
    """Read each copy of each block: the same bytes, and ranges that follow each other."""
    last: Block | None = None
    for block in _blocks(cluster, name):
        verdict.blocks += 1
        if last is not None and not last.end < block.start:
            verdict.problems.append(
                f"{name}: block {block.number} begins before {last.number} ends"
            )
        last = block
        digests = set()
        for node in block.locations:
            try:
                pieces = cluster.members(node).segment(BlockName(name, block.number))
                digests.add(blake3.blake3(b"".join(pieces)).digest())
                verdict.copies += 1
            except QuiverError as error:
                verdict.problems.append(f"{name}: block {block.number} at {node}: {error}")
        if digests != {block.digest}:
            verdict.problems.append(f"{name}: copies of block {block.number} differ")
