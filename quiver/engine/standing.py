"""Where the subscribers of a core stand, read from outside: no lock, and nothing is changed.

What the store knows is in ack.log. A subscriber in another process leaves what it did in its inbox,
and until the store folds that in, the log knows less than the inbox; how much is told too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from quiver.acks import Inbox, Register, list_inbox, read_inbox
from quiver.acks.opening import LOG_BYTES_MAX, LOG_NAME
from quiver.acks.replay import read_log
from quiver.clock import Clock, SystemClock
from quiver.disk import Disk
from quiver.engine.beside import AcksState, read_acks
from quiver.engine.core import core_folder
from quiver.engine.inboxes import inbox_folder
from quiver.engine.lifecycle import Lag, lag_of
from quiver.errors import DamageError, MissingError, QuiverError, StorageError, VersionError
from quiver.segment import Catalog
from quiver.subscriber import Registry

__all__ = ["Pinned", "Standing", "Standings", "Warn", "read_standings"]

Warn = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Pinned:
    """What may be deleted as soon as a subscriber is no more."""

    segment_count: int = 0
    bundle_count: int = 0
    byte_count: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one subscriber stands in one core."""

    core: int
    lag: Lag
    oldest_open_ns: int | None
    last_seen_ns: int | None
    is_registered: bool
    """False if it asked in its inbox to be registered, and no store has heard of it yet."""
    was_seen: bool
    """Whether anything of it was written down since it was registered, as far as is known."""
    unfolded_count: int
    """Open bundles that its inbox has an outcome of."""
    pinned: Pinned
    gap_count: int
    """Runs of open bundles."""

    @property
    def name(self) -> str:
        """Whose it is."""
        return self.lag.subscriber

    @property
    def subscriber_id(self) -> int | None:
        """Its id in ack.log; None if it has none yet."""
        return self.lag.subscriber_id if self.is_registered else None


@dataclass(slots=True)
class Standings:
    """All subscribers of one core, in order of name."""

    core: int
    acks: AcksState
    catalog: Catalog
    inboxes: dict[str, Inbox]
    registered_ns: dict[int, int]
    clock: Clock = field(default_factory=SystemClock)

    @property
    def registry(self) -> Registry:
        """All whom ack.log and its checkpoint know."""
        return self.acks.registry

    def __iter__(self) -> Iterator[Standing]:
        """Go through those that the log knows, and those that wait to be registered."""
        known = self.registry.names()
        waiting = [name for name in self.inboxes if name not in self.registry]
        found = [self._standing(name, is_registered=True) for name in known]
        for name in waiting:
            inbox = self.inboxes[name]
            self.registry.replay_register(
                self.registry.next_id(),
                name,
                start_segment_seq=inbox.start_segment_seq,
                start_bundle_index=inbox.start_bundle_index,
            )
            found.append(self._standing(name, is_registered=False))
            self.registry.unregister(name)
        return iter(sorted(found, key=lambda standing: standing.name))

    @property
    def unfolded_count(self) -> int:
        """Outcomes of bundles that a store is going to fold in."""
        return sum(standing.unfolded_count for standing in self)

    def _standing(self, name: str, *, is_registered: bool) -> Standing:
        lag = lag_of(cast("Any", self), name)  # It needs no more of a desk than is here.
        open_segments = self.registry.progress(name).open_segments
        oldest = self.catalog.get(open_segments[0]).ingestion_ns_min if open_segments else None
        inbox = self.inboxes.get(name)
        at_ns = 0 if inbox is None else inbox.at_ns
        return Standing(
            self.core,
            lag,
            oldest,
            max(lag.last_seen_ns, at_ns) or None,
            is_registered=is_registered,
            was_seen=inbox is not None
            or self.registered_ns.get(lag.subscriber_id) != lag.last_seen_ns,
            unfolded_count=0 if inbox is None else self._unfolded(name, inbox),
            pinned=self._pinned(self.registry.needed_only_by(name)) if is_registered else Pinned(),
            gap_count=self.registry.progress(name).gap_count,
        )

    def freed(self, name: str, first_segment_seq: int) -> Pinned:
        """Count what nobody needs any more once a subscriber, new or not, starts at a segment."""
        if name in self.registry:
            candidates = self.registry.needed_only_by(name)
        else:  # While nobody has subscribed nothing is deleted.
            candidates = [] if self.registry.names() else [i.segment_seq for i in self.catalog]
        return self._pinned([seq for seq in candidates if seq < first_segment_seq])

    def _pinned(self, segments: Iterable[int]) -> Pinned:
        found = [self.catalog.get(seq) for seq in segments]
        counts = sum(info.bundle_count for info in found), sum(info.file_bytes for info in found)
        return Pinned(len(found), *counts)

    def _unfolded(self, name: str, inbox: Inbox) -> int:
        progress = self.registry.progress(name)
        runs = [(each.segment_seq, *run) for each in inbox.segments for run in each.runs]
        runs += [(each.segment_seq, each.bundle_index, 1) for each in inbox.dead_letters]
        return sum(count for run in runs for _, count in progress.open_within(*run))


def read_standings(
    disk: Disk,
    core: int,
    catalog: Catalog,
    *,
    store_id: str,
    warn: Warn,
    clock: Clock | None = None,
) -> Standings:
    """Read where the subscribers of a core stand; ``warn`` is told of inboxes nobody can read.

    ``catalog`` has the segments that are there.
    """
    acks = read_acks(disk, core, {i.segment_seq: i.bundle_count for i in catalog})
    folder = inbox_folder(core_folder(core))
    inboxes = {}
    for stat in list_inbox(disk, folder):
        try:
            inbox = read_inbox(disk, folder, stat.name, store_id=store_id)
        except MissingError:
            continue  # Removed since it was listed.
        except (DamageError, VersionError, StorageError) as error:
            warn(_refused(disk.locate(f"{folder}/{stat.name}"), error))
            continue
        if _counts(inbox, acks.registry):
            inboxes[inbox.name] = inbox
    registered = _registered(disk, core)
    return Standings(core, acks, catalog, inboxes, registered, clock or SystemClock())


def _refused(place: str, error: QuiverError) -> str:
    return f"quiver: passed over {place}: {error.message}"


def _counts(inbox: Inbox, registry: Registry) -> bool:
    """Whether a store would fold it in: it is of a subscriber who is there, or of a new one."""
    if inbox.name not in registry:
        return inbox.subscriber_id == 0
    member = registry.member(inbox.name)
    return inbox.subscriber_id in (0, member.subscriber_id) and inbox.lease >= member.lease


def _registered(disk: Disk, core: int) -> dict[int, int]:
    """Read when each subscriber was registered, as far as the log still says."""
    try:
        file = disk.open(f"{core_folder(core)}/acks/{LOG_NAME}")
    except MissingError:
        return {}
    with closing(file):
        content = read_log(file.read(0, LOG_BYTES_MAX))
    records = [record for _, record in content.entries]
    return {r.subscriber_id: r.at_ns for r in records if isinstance(r, Register)}
