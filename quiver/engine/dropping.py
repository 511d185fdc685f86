"""Drop what is in no segment yet, under ``drop_oldest``, when nothing else is left to be dropped.

It gets the number that its segment would have had, so that what is lost is written down for each
subscriber as it is of a segment. Then the log is given back. A crash before the records are durable
drops nothing; one behind them finds the floor above those bundles, and drops them again.
"""

from __future__ import annotations

from quiver.acks import DROPPED_SIZE, Dropped, Floor, Record
from quiver.engine.core import Core
from quiver.engine.forgoing import forgo
from quiver.engine.outcomes import append
from quiver.engine.sealed import seal, try_reclaim, wait_for_writer
from quiver.engine.space import sync_acks
from quiver.engine.tally import count_dropped
from quiver.engine.timekeeping import keep_times

__all__ = ["drop_open", "write_off_open"]


def drop_open(core: Core) -> None:
    """Drop all that waits for a segment.

    If one is being written, wait for that instead, without the lock: it may be all that it takes,
    and is older than what came since.
    """
    has_waited = False
    while core.writer is not None:
        wait_for_writer(core)
        core.check()
        core.check_open()
        has_waited = True
    if has_waited:
        return
    with core.whole():
        if core.sealed is None and core.open_segment.bundle_count:
            seal(core)
        if core.sealed is None:
            return
        if not forgo(core):
            write_off_open(core)
    try_reclaim(core)


def write_off_open(core: Core) -> None:
    """Make it durable that what is sealed is lost, and forget it."""
    sealed = core.sealed
    if sealed is None:
        return
    count, segment_seq = sealed.content.bundle_count, sealed.segment_seq
    now = core.clock.wall_ns()
    ids = core.registry.ids
    lost: list[Record] = [
        Dropped(i, segment_seq, 0, count, now, DROPPED_SIZE) for i in ids.values()
    ]
    floor = Floor(segment_seq + 1, sealed.last_wal_seq + 1)
    keep_times(core)
    # In one piece, the losses before the floor: it must not hide what was not written down.
    append(core, [*lost, floor, floor])
    sync_acks(core)
    core.floor = floor
    core.registry.add_segment(segment_seq, count)
    for name in ids:
        dropped = core.registry.drop(name, segment_seq)
        core.metrics.add("quiver.subscriber.dropped_bundles", dropped, label=name)
    core.registry.remove_segment(segment_seq)
    core.progress.cover(sealed.progress)
    core.next_segment_seq = segment_seq + 1
    core.covered_wal_seq = sealed.last_wal_seq
    core.covered_end = sealed.end
    core.sealed = None
    core.finalize_failure = None
    byte_count = sealed.content.payload_bytes
    count_dropped(core, "size", bundle_count=count, byte_count=byte_count)
    core.events.end("segment.finalize_failed")
    core.events.warning(
        "retention.dropped_open",
        segment_seq=segment_seq,
        bundle_count=count,
        payload_bytes=byte_count,
    )
    core.announce()
