"""Passes over all partitions: what each of them wants is done by its ``Tender``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from quiver.chain.membership import list_partitions
from quiver.chain.metadata import Metadata
from quiver.chain.peers import Peer
from quiver.chain.placing import Node
from quiver.chain.placing.choose import Random
from quiver.chain.record import Partition
from quiver.chain.tending.tender import Done, Tender
from quiver.clock import Clock
from quiver.errors import MissingError, QuiverError

__all__ = ["Audited", "Auditor", "Nodes"]


class Nodes(Protocol):
    """The nodes that there are; ``membership.Members`` are such."""

    def __call__(self, name: str) -> Peer:
        """Give a node by its name."""
        ...

    def nodes(self) -> list[Node]:
        """Give those on which blocks are placed."""
        ...

    def gone_since(self) -> dict[str, int]:
        """Give those that do not serve, with the monotonic time since when."""
        ...

    def leaving(self) -> frozenset[str]:
        """Give those that answer yet, and are to be left."""
        ...


class Audited(NamedTuple):
    """What a pass did, or could not do, for one partition."""

    partition: str
    done: tuple[Done, ...]


def _always() -> bool:
    return True


class Auditor:
    """Tends all partitions, a pass at a time. Not safe for threads."""

    def __init__(self, metadata: Metadata, nodes: Nodes, *, clock: Clock, random: Random) -> None:
        """Take the nodes; whoever looks at them goes on to look each second or so."""
        self._metadata = metadata
        self._nodes = nodes
        self._clock = clock
        self._random = random
        self._tenders: dict[str, Tender] = {}
        self._swept: dict[str, int] = {}

    def audit(
        self,
        *,
        gone_since: Mapping[str, int] | None = None,
        may_go_on: Callable[[], bool] = _always,
    ) -> Iterator[Audited]:
        """Do one pass, partition after partition, as long as one may.

        ``gone_since`` are nodes that are gone, if not those that fell silent. What fails for a
        partition is told with it. Raises what the metadata raise when partitions are listed.
        """
        names = list_partitions(self._metadata)
        for gone in self._tenders.keys() - set(names):
            del self._tenders[gone]
        for name in names:
            if not may_go_on():
                return
            try:
                done = self._tend(name, gone_since)
            except QuiverError as error:
                done = [Done("tend", -1, "", error)]
            yield Audited(name, tuple(done))

    def _tend(self, name: str, gone_since: Mapping[str, int] | None) -> list[Done]:
        partition = Partition(self._metadata, name, clock=self._clock)
        if name not in self._tenders:
            self._tenders[name] = Tender(partition, name, peers=self._nodes, random=self._random)
        nodes = {node.name: node for node in self._nodes.nodes()}
        gone = self._nodes.gone_since() if gone_since is None else gone_since
        done = self._tenders[name].tend(
            {each: node for each, node in nodes.items() if each not in gone},
            gone,
            now_ns=self._clock.monotonic_ns(),
            leaving=self._nodes.leaving() - set(gone_since or ()),
        )
        try:
            record = partition.read()
        except MissingError:
            return done
        if record.purged_below != self._swept.get(name, 0):
            partition.sweep(record)
            self._swept[name] = record.purged_below
        return done
