"""Passes over all partitions: what each wants is done by its ``Tender``, copies in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from quiver.chain.membership import list_partitions
from quiver.chain.metadata import Metadata
from quiver.chain.placing import Node
from quiver.chain.placing.choose import Random
from quiver.chain.record import Partition
from quiver.chain.tending.balancing import Balancer
from quiver.chain.tending.claims import CLAIM_NS, Claims
from quiver.chain.tending.nodes import Nodes
from quiver.chain.tending.tender import Done, Mend, Tender
from quiver.clock import Clock
from quiver.errors import MissingError, QuiverError

__all__ = ["Audited", "Auditor"]


class Audited(NamedTuple):
    """What a pass did, or could not do, for one partition."""

    partition: str
    done: tuple[Done, ...]


def _always() -> bool:
    return True


class Auditor:
    """Tends all partitions, a pass at a time. Not safe for threads."""

    def __init__(
        self,
        metadata: Metadata,
        nodes: Nodes,
        *,
        clock: Clock,
        random: Random,
        claim_ns: int = CLAIM_NS,
    ) -> None:
        """Take the nodes; whoever looks at them goes on to look each second or so."""
        self._metadata = metadata
        self._nodes = nodes
        self._clock = clock
        self._random = random
        self._tenders: dict[str, Tender] = {}
        self._swept: dict[str, int] = {}
        self._claims = Claims(clock=clock, after_ns=claim_ns)
        self._balancer = Balancer(metadata, nodes, clock=clock)
        self.is_behind = False
        """Whether the last pass left copies to the next one, for it had made enough."""

    def audit(
        self,
        *,
        gone_since: Mapping[str, int] | None = None,
        may_go_on: Callable[[], bool] = _always,
        copied_max: int | None = None,
    ) -> Iterator[Audited]:
        """Do one pass as long as one may: what waits for nobody, then copies, then balance.

        Copies of all partitions are made in one order (R39), ``copied_max`` blocks at most, so that
        what is wanted more by then comes first in the next pass; blocks move for balance when no
        copy is wanted that could be made. ``gone_since`` are nodes that are gone, if not those that
        fell silent. What fails for a partition is told with it. Raises what the metadata raise when
        partitions are listed.
        """
        names = list_partitions(self._metadata)
        for gone in self._tenders.keys() - set(names):
            del self._tenders[gone]
        self.is_behind = False
        mends: list[Mend] = []
        for name in names:
            if not may_go_on():
                return
            done, wanted = self._look_after(name, gone_since)
            mends += wanted
            yield Audited(name, tuple(done))
        mends.sort(key=lambda each: each.order)
        tried = 0
        for audited in self._mended(mends, gone_since, copied_max=copied_max):
            tried += 1
            yield audited
            if not may_go_on():
                return
        for name in names:
            if dropped := self._drop_unlisted(name):
                yield Audited(name, tuple(dropped))
        if not tried and may_go_on():
            yield from self._balanced(may_go_on)

    def _mended(
        self,
        mends: Sequence[Mend],
        gone_since: Mapping[str, int] | None,
        *,
        copied_max: int | None,
    ) -> Iterator[Audited]:
        """Make copies as long as there may be more; what nobody can take is not told."""
        copied = 0
        for mend in mends:
            self.is_behind = copied_max is not None and copied >= copied_max
            if self.is_behind:
                return
            if acts := self._mend(mend, gone_since):
                copied += any(each.error is None for each in acts)
                yield Audited(mend.partition, tuple(acts))

    def _look_after(
        self, name: str, gone_since: Mapping[str, int] | None
    ) -> tuple[list[Done], list[Mend]]:
        partition = Partition(self._metadata, name, clock=self._clock)
        if name not in self._tenders:
            self._tenders[name] = Tender(partition, name, peers=self._nodes, random=self._random)
        gone = self._nodes.gone_since() if gone_since is None else gone_since
        try:
            done, mends = self._tenders[name].look_after(
                self._serving(gone_since),
                gone,
                now_ns=self._clock.monotonic_ns(),
                leaving=self._nodes.leaving() - set(gone_since or ()),
            )
        except QuiverError as error:
            return [Done("tend", -1, "", error)], []
        try:
            record = partition.read()
            self._claims.look(partition, record)
            if record.purged_below != self._swept.get(name, 0):
                partition.sweep(record)
                self._swept[name] = record.purged_below
        except MissingError:
            pass
        except QuiverError as error:
            done = [*done, Done("tend", -1, "", error)]
        return done, mends

    def _serving(self, gone_since: Mapping[str, int] | None) -> dict[str, Node]:
        gone = self._nodes.gone_since() if gone_since is None else gone_since
        return {node.name: node for node in self._nodes.nodes() if node.name not in gone}

    def _mend(self, mend: Mend, gone_since: Mapping[str, int] | None) -> list[Done]:
        try:
            return mend.act(self._serving(gone_since))
        except QuiverError as error:
            return [Done("copy", mend.number, "", error)]

    def _drop_unlisted(self, name: str) -> list[Done]:
        try:
            return self._tenders[name].drop_unlisted(self._clock.monotonic_ns())
        except QuiverError as error:
            return [Done("drop", -1, "", error)]

    def _balanced(self, may_go_on: Callable[[], bool]) -> Iterator[Audited]:
        try:
            moves = self._balancer.due()
        except QuiverError as error:
            yield Audited("", (Done("balance", -1, "", error),))
            return
        for name, fault in self._balancer.faults.items():
            yield Audited(name, (Done("balance", -1, "", fault),))
        for move in moves:
            if not may_go_on():
                return
            if done := self._balancer.move(move):
                yield Audited(move.partition, tuple(done))
