"""Carry out what retention decides: evict, drop, finalize early, refuse.

Deletion has one order: outcomes durable, with the floor below which no sequence is used again,
then unlink, then the folder synced, then forget. A crash anywhere between only repeats work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from quiver.acks import DROPPED_SIZE, Dropped, Floor
from quiver.disk import remove
from quiver.engine.core import Core
from quiver.engine.outcomes import append
from quiver.errors import CapacityError, QuiverError
from quiver.retention import Drop, Evict, FinalizeEarly, Throttle, decide
from quiver.wal import Apart

__all__ = [
    "delete_segments",
    "evict",
    "make_room",
    "reclaim",
    "sync_acks",
    "write_off_segment",
]


def make_room(core: Core, incoming_bytes: int, *, finalize: Callable[[Core], object]) -> None:
    """Make sure that ``incoming_bytes`` more stay below the size cap; CapacityError if they cannot.

    Does nothing when the cap is far, so that an append pays a few additions only.
    """
    cap = core.config.retention.size_cap
    if not cap or _used_bytes(core) + incoming_bytes <= cap:
        return
    for action in decide(core.usage(), core.config.retention, incoming_bytes=incoming_bytes):
        if isinstance(action, Evict):
            delete_segments(core, [action.segment_seq])
        elif isinstance(action, Drop):
            _drop(core, action.segment_seq)
        elif isinstance(action, FinalizeEarly):
            finalize(core)
        elif isinstance(action, Throttle):
            core.metrics.add("quiver.wal.throttled_appends")
            raise CapacityError(
                f"the store is full: {action.needed_bytes:,} bytes above its cap of {cap:,}",
                hint="let subscribers ack and call maintain(), or raise retention.size_cap",
            )


def _used_bytes(core: Core) -> int:
    return core.log.live_bytes + core.acks.file_bytes + core.catalog.segment_bytes


def evict(core: Core) -> int:
    """Delete every segment that all subscribers have finished; give how many."""
    done = core.registry.finished_segments()
    delete_segments(core, done)
    core.metrics.add("quiver.retention.evicted_segments", len(done))
    return len(done)


def _drop(core: Core, segment_seq: int) -> None:
    """Delete a segment that subscribers still need, after writing down that they lost it."""
    write_off_segment(core, segment_seq, DROPPED_SIZE)
    core.metrics.add("quiver.segment.dropped")
    delete_segments(core, [segment_seq])


def write_off_segment(core: Core, segment_seq: int, reason: int) -> None:
    """Record every bundle of a segment that is still open as dropped, for every subscriber."""
    now = core.clock.wall_ns()
    ids = core.registry.ids
    records = [
        Dropped(subscriber_id, segment_seq, first, count, now, reason)
        for name, subscriber_id in ids.items()
        for first, count in core.registry.progress(name).open_runs(segment_seq)
    ]
    append(core, records)
    for name in ids:
        count = core.registry.drop(name, segment_seq)
        core.metrics.add("quiver.subscriber.dropped_bundles", count, label=name)


def delete_segments(core: Core, segment_seqs: Sequence[int]) -> None:
    """Delete segments whose outcomes are all written, for good."""
    if not segment_seqs:
        return
    _raise_floor(core)
    sync_acks(core)
    for segment_seq in segment_seqs:
        core.readers.forget(segment_seq)
        remove(core.disk, core.catalog.get(segment_seq).path)
        core.catalog.remove(segment_seq)
        core.registry.remove_segment(segment_seq)
    try:
        core.disk.sync_dir(core.path("segments"))
    except QuiverError as error:
        core.fault = error
        raise


def reclaim(core: Core, *, apart: Apart = contextlib.nullcontext) -> None:
    """Give the part of the WAL back that segments hold; what fails may be tried again.

    The floor goes first: without the log, a damaged segment would be the only one to tell the last
    wal_seq. What may take long is done bit by bit in the context of ``apart``.
    """
    covered_end = core.log.locate(core.covered_end)
    if covered_end > core.log.truncated or core.config.wal.durability == "segment":
        _raise_floor(core)
    core.log.truncate(covered_end, apart=apart)


def _raise_floor(core: Core) -> None:
    """Make durable below which numbers no segment and no bundle is ever again."""
    floor = Floor(core.next_segment_seq, core.covered_wal_seq + 1)
    if floor != core.floor:
        append(core, [floor, floor])
        sync_acks(core)
        core.floor = floor


def sync_acks(core: Core) -> None:
    """Return once every outcome given so far survives a power cut."""
    if core.acks_unsynced:
        try:
            core.acks.sync()
        except QuiverError as error:
            core.fault = error
            raise
        core.acks_unsynced = False
