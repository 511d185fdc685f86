"""How long nothing is acknowledged when a node, or a link, of a chain fails."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

import quiver
from bench.chain.links import Links
from bench.chain.nodes import PATIENCE, Nodes
from bench.chain.writing import SMALL_BYTES, bundle_of
from bench.kit import Bench
from quiver.chain import Loader, LoaderRules
from quiver.chain.cluster import Cluster

__all__ = ["faults"]

_NAMES: Final = ("n1", "n2", "n3", "n4")
_PLACES: Final = {"head": 0, "middle": 1, "tail": 2}
_GOAL_SECONDS: Final = 1.5
_BEFORE: Final = 30
_BEHIND: Final = 0.7
"""Seconds for which it is written when acknowledgements came again: none is to stop behind that."""


class Fault(NamedTuple):
    """What is done to one of a chain's nodes, and how that is undone."""

    name: str
    act: Callable[[tuple[str, ...]], object]
    undo: Callable[[tuple[str, ...]], object]


def faults(bench: Bench) -> None:
    """Measure each fault at each place, in a partition of its own."""
    with (
        Links(_NAMES) as links,
        Nodes(bench.folder / "faults", _NAMES, links=links, audit="5s") as nodes,
    ):
        found: dict[str, list[float]] = {}
        for turn in range(bench.rounds):
            for fault in _faults(nodes, links):
                name = f"{fault.name.replace(' ', '_').replace(',', '')}_{turn}"
                found.setdefault(fault.name, []).append(_pause(nodes.metadata, fault, name))
    bench.more["pauses"] = found
    for name, pauses in found.items():
        bench.add(
            f"longest pause of acks, {name}: by {_GOAL_SECONDS} s",
            pauses,
            [_GOAL_SECONDS] * len(pauses),
            wanted=("at most", 1.0),
            s_median=statistics.median(pauses),
            s_most=max(pauses),
        )


def _faults(nodes: Nodes, links: Links) -> list[Fault]:
    made = []
    for place, at in _PLACES.items():
        made += [
            Fault(
                f"kill -9 of the {place}",
                lambda chain, at=at: nodes.kill(chain[at]),
                lambda chain, at=at: nodes.restart(chain[at]),
            ),
            Fault(
                f"SIGSTOP of the {place}",
                lambda chain, at=at: nodes.pause(chain[at]),
                lambda chain, at=at: nodes.resume(chain[at]),
            ),
            Fault(
                f"link of the {place} cut",
                lambda chain, at=at: links.cut(chain[at]),
                lambda _: links.heal(),
            ),
        ]
    for first, second in pairwise(_PLACES):
        made.append(
            Fault(
                f"{first} and {second} cut off from each other",
                lambda chain, at=_PLACES[first]: links.cut(chain[at], chain[at + 1]),
                lambda _: links.heal(),
            )
        )
    return made


def _pause(metadata: str, fault: Fault, partition: str) -> float:
    """Write one entry after the other; the longest wait for one behind the fault."""
    with quiver.connect(metadata) as cluster:
        loader = cluster.loader(partition, ["events"], rules=LoaderRules(rf=3))
        loader.wait_open(PATIENCE)
        _write(loader, count=_BEFORE)
        record = loader.record
        if record is None or record.open is None:
            raise SystemExit(f"{partition} has no open block")
        chain = record.open.locations
        try:
            fault.act(chain)
            longest = 0.0
            last = begun = time.monotonic()
            while last - begun < longest + _BEHIND:
                _write(loader, count=1)
                now = time.monotonic()
                longest, last = max(longest, now - last), now
            return longest
        finally:
            fault.undo(chain)
            loader.abandon()
            _await_all(cluster)


def _write(loader: Loader, *, count: int) -> None:
    bundle = bundle_of(SMALL_BYTES)
    for _ in range(count):
        loader.send(bundle).wait(PATIENCE)


def _await_all(cluster: Cluster) -> None:
    """Wait until all nodes are held for serving again."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        cluster.members.look()
        if {node.name for node in cluster.members.nodes()} == set(_NAMES):
            return
        time.sleep(0.1)
    raise SystemExit("a node does not serve again")
