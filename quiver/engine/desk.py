"""What the delivery of bundles needs to know of a core, whoever has that.

There are two: the store that has the core open and writes outcomes to ack.log, and a subscriber in
another process, which only reads, and whose outcomes go to its inbox.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from quiver.acks import Record
from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk
from quiver.engine.listeners import Listeners
from quiver.engine.readers import OpenedSegment, Readers
from quiver.errors import DamageError
from quiver.events import Events
from quiver.manifest import StoreManifest
from quiver.metrics import Metrics
from quiver.segment import Catalog
from quiver.subscriber import Claim, Registry

__all__ = ["Desk", "Outlet"]


class Outlet(Protocol):
    """Where outcomes go. Called with the lock of the desk held, before the registry is told."""

    def append(self, records: Sequence[Record]) -> None:
        """Write outcomes of bundles; all of them, or none if this raises."""
        ...

    def write_off(self, claim: Claim, error: DamageError, *, opened: OpenedSegment | None) -> None:
        """Resolve a damaged bundle, or its segment if that could not be opened; keep a copy."""
        ...

    def give_up(self, claim: Claim, outcome: int, *, opened: OpenedSegment, reason: str) -> None:
        """Write that bundles are given up, once they are set aside."""
        ...


class Desk(Protocol):
    """One core, as it is seen by a subscription; see ``Core`` for what each of these is."""

    number: int
    disk: Disk
    manifest: StoreManifest
    config: Config
    clock: Clock
    lock: threading.RLock
    changed: threading.Condition
    change_count: int
    listeners: Listeners
    catalog: Catalog
    registry: Registry
    readers: Readers
    metrics: Metrics
    events: Events
    outlet: Outlet
    missing_segments: set[int]
    unread_counts: dict[int, int]
    forgotten: deque[Claim]

    def announce(self) -> None:
        """Wake whoever waits for a bundle."""
        ...

    def check_process(self) -> None:
        """Raise ClosedError in a forked child; takes no lock, since the child may find it taken."""
        ...

    def refuse_nested(self) -> None:
        """Raise CapacityError in a thread that is in the middle of another call, further up."""
        ...

    def check(self) -> None:
        """Raise if nothing more can be done here."""
        ...

    def check_open(self) -> None:
        """Raise ClosedError if it was closed."""
        ...

    def break_off(self, error: BaseException) -> None:
        """Stop everything: an act was broken off, and nobody knows how far it came."""
        ...

    def whole(self) -> AbstractContextManager[None]:
        """Stop everything if what is inside is broken off by anything but a QuiverError."""
        ...
