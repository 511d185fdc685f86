"""A node's part in looking after all of a chain: it watches, and audits while it has the lease."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quiver.chain.membership import Members
from quiver.chain.metadata import Metadata
from quiver.chain.peers import BlockName, Peer, as_fault
from quiver.chain.placing import AUDITOR, Lease
from quiver.chain.tending import CLAIMED, ORPHAN_NS, Auditor, Orphans, seal_open
from quiver.clock import Clock
from quiver.disk import fresh_name
from quiver.errors import ConfigError, LockedError, QuiverError
from quiver.units import SECOND

__all__ = ["AuditRules", "Auditing"]

_LOOK_SECONDS: Final = 1.0
_TOLD_MAX: Final = 100
_COPIED_MAX: Final = 16
"""Blocks in a pass; what is wanted more by then comes first in the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRules:
    """How often what is done; the same on all nodes."""

    every_seconds: float = 5.0
    """Between passes over all partitions, on the node that has the lease."""
    orphan_seconds: float = ORPHAN_NS / SECOND
    """So long a block that nobody writes stays open for its loader to come back."""

    def __post_init__(self) -> None:
        """Check the times; raises ConfigError."""
        if self.every_seconds <= 0 or self.orphan_seconds <= 0:
            raise ConfigError("times of an auditor are positive")
        if max(self.every_seconds, self.orphan_seconds) > threading.TIMEOUT_MAX:
            raise ConfigError("an auditor that waits for centuries audits nothing")


class Auditing:
    """Watches who serves, seals orphans of this node, and audits all while the lease is its own.

    Two who audit at once do no harm: all that they agree on changes by a swap.
    """

    def __init__(
        self,
        node: Peer,
        metadata: Metadata,
        members: Members,
        *,
        is_fed: Callable[[BlockName], bool],
        left: Callable[[], None],
        clock: Clock,
        rules: AuditRules,
    ) -> None:
        """Take a node; ``left`` is called again and again while the node is to be left."""
        self._node = node
        self._metadata = metadata
        self._members = members
        self._left = left
        self._clock = clock
        self._rules = rules
        self._lease = Lease(metadata, AUDITOR, f"{node.name}.{fresh_name()}", clock=clock)
        orphan_ns = int(rules.orphan_seconds * SECOND)
        self._auditor = Auditor(
            metadata,
            members,
            clock=clock,
            random=secrets.SystemRandom(),
            claim_ns=CLAIMED * orphan_ns,
        )
        self._orphans = Orphans(
            node.name,
            metadata,
            is_fed=is_fed,
            clock=clock,
            after_ns=orphan_ns,
        )
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.faults: list[QuiverError] = []
        """What could not be done, as of the last time."""

    @property
    def is_auditor(self) -> bool:
        """Whether the lease is held."""
        return self._lease.is_held

    def start(self) -> None:
        """Do all of it from now on, by two threads: a pass may take long."""
        for name, seconds, act in (
            ("quiver-watch", _LOOK_SECONDS, self.watch),
            ("quiver-audit", self._rules.every_seconds, self.audit),
        ):
            thread = threading.Thread(target=self._run, args=(seconds, act), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, *, seconds: float = 2.0) -> None:
        """Begin nothing more; waits no longer than this for a pass that is under way."""
        self._over.set()
        for thread in self._threads:
            thread.join(seconds)

    def watch(self) -> None:
        """See who serves, and take part in the lease."""
        try:
            self._members.look()
            if self._node.name in self._members.marked():
                self._left()
        finally:
            self._lease.look()  # It is let go of where it cannot be renewed.

    def audit(self) -> None:
        """Seal orphans of this node; and do passes over all partitions if the lease is held.

        More than one while copies are wanted that a pass leaves to the next.
        """
        self._pass()
        while self._auditor.is_behind and self._may_go_on():
            self._pass()

    def _pass(self) -> None:
        faults = self._seal_orphans()
        if self._lease.is_held:
            acts = self._auditor.audit(may_go_on=self._may_go_on, copied_max=_COPIED_MAX)
            for _, done in acts:
                faults += [each.error for each in done if each.error is not None]
        self.faults = faults[:_TOLD_MAX]

    def _may_go_on(self) -> bool:
        return self._lease.is_held and not self._over.is_set()

    def _seal_orphans(self) -> list[QuiverError]:
        faults: list[QuiverError] = []
        for partition, record in self._orphans.look(self._node.status().holdings):
            try:
                seal_open(partition, record, by=fresh_name(), peers=self._members)
            except LockedError:
                continue  # Somebody else was first.
            except QuiverError as error:
                faults.append(error)
        return self._orphans.faults + faults

    def _run(self, seconds: float, act: Callable[[], None]) -> None:
        while not self._over.wait(seconds):
            try:
                act()
            except Exception as error:  # noqa: BLE001 Else the lease is kept, and nobody audits.
                self.faults = [as_fault(error, "a pass", node=self._node.name)]
