"""What there is of each station at this moment, as numbers: what gauges and screens are made of.

``stats_of`` takes them from a core that is open; ``quiver.observe`` reads the same numbers from the
folder of a store that another process writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quiver.disk import folder_bytes
from quiver.engine.budget import sharers
from quiver.engine.core import Core
from quiver.engine.dead_letters import FOLDER as DEAD_LETTERS
from quiver.engine.lifecycle import Lag, lag_of

_ASIDE: Final = ("acks", "quarantine", DEAD_LETTERS)

__all__ = ["CoreStats", "SubscriberStats", "stats_of"]


@dataclass(frozen=True, slots=True)
class SubscriberStats:
    """Where one subscriber stands in one core."""

    lag: Lag
    gap_count: int
    """Runs of bundles in segments that it has not resolved."""
    claimed_count: int | None = None
    """Bundles in its hands in the process that writes the store; None if nobody knows."""
    unfolded_count: int = 0
    """Open bundles that its inbox has an outcome of; an open store takes them over each tick."""
    is_registered: bool = True
    """False if it asked in its inbox to be registered, and no store has heard of it yet."""

    @property
    def name(self) -> str:
        """Whose it is."""
        return self.lag.subscriber


@dataclass(frozen=True, slots=True)
class CoreStats:
    """One core, in the order of the flow.

    ``next_wal_seq`` and ``next_segment_seq`` only grow, also over restarts: by how much is how many
    bundles were appended and segments finalized.
    """

    core: int
    at_ns: int
    """When it was looked at, in wall time."""
    next_wal_seq: int
    wal_bytes: int
    wal_files: int
    open_bundles: int
    """Bundles that are in no segment yet."""
    open_bytes: int
    """Their payloads."""
    open_age_ns: int | None
    """How long ago the oldest of them came; None if there is none."""
    next_segment_seq: int
    segments: int
    segment_bytes: int
    segment_disk_bytes: int
    """What their files take on the disk."""
    subscribers: tuple[SubscriberStats, ...]
    acks_log_bytes: int
    acks_bytes: int
    """ack.log, its checkpoint, and the inboxes of subscribers in other processes."""
    quarantine_bytes: int
    dead_letter_bytes: int
    reserve_bytes: int
    """Room that is taken in advance, so that a full disk can be emptied."""
    cap_bytes: int | None
    """An even share of ``retention.size_cap``; None if there is no cap, or nobody knows."""
    is_stopped: bool | None = None
    """Whether the store gave up after a write that left the state of the disk unknown; None if
    nobody knows."""

    @property
    def used_bytes(self) -> int:
        """What counts for the cap, but for a few small files."""
        aside = self.acks_bytes + self.quarantine_bytes + self.dead_letter_bytes
        aside += self.reserve_bytes
        return self.wal_bytes + self.segment_disk_bytes + aside


def stats_of(core: Core) -> CoreStats:
    """Look at an open core, also one that gave up.

    Holds its lock for a moment, and for each subscriber once more: what it costs is what each has
    open. Folders with few files in them are listed, without the lock.
    """
    aside = {name: folder_bytes(core.disk, core.path(name)) for name in _ASIDE}
    cap, count = core.config.retention.size_cap, len(sharers(core.disk, core.number))
    subscribers = []
    with core.lock:
        names = core.registry.names()
    for name in names:
        with core.lock:
            if name in core.registry:  # Nobody has unregistered it meanwhile.
                lag, gap_count = lag_of(core, name), core.registry.progress(name).gap_count
                subscribers.append(SubscriberStats(lag, gap_count, lag.claimed_count))
    with core.lock:
        waiting = core.waiting
        opened = [part.opened_ns for part in waiting if part.opened_ns is not None]
        return CoreStats(
            core=core.number,
            at_ns=core.clock.wall_ns(),
            next_wal_seq=core.next_wal_seq,
            wal_bytes=core.log.disk_bytes,
            wal_files=core.log.file_count,
            open_bundles=sum(part.bundle_count for part in waiting),
            open_bytes=sum(part.payload_bytes for part in waiting),
            open_age_ns=core.clock.monotonic_ns() - min(opened) if opened else None,
            next_segment_seq=core.next_segment_seq,
            segments=len(core.catalog),
            segment_bytes=core.catalog.segment_bytes,
            segment_disk_bytes=core.catalog.allocated_bytes,
            subscribers=tuple(subscribers),
            acks_log_bytes=core.acks.file_bytes,
            acks_bytes=aside["acks"],
            quarantine_bytes=aside["quarantine"],
            dead_letter_bytes=aside[DEAD_LETTERS],
            reserve_bytes=0 if core.reserve is None else core.reserve.held_bytes,
            cap_bytes=cap // count if cap else None,
            is_stopped=core.broken is not None,
        )
