"""Subscribers that have bundles before their segment is there, and segments that nobody needs then.

::

    ack_early --> numbers, in memory --> all have all:  no file, but acks and a floor, in one piece
                                     '-> otherwise:     a file, acked at once where it is had

So acks speak of places in segments alone, and what a crash forgets comes again. Without a file the
segment has its number all the same, and readers of ack.log find what they find of one that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from quiver.acks import Ack, Floor, Record
from quiver.engine.outcomes import append
from quiver.engine.space import sync_acks
from quiver.engine.timekeeping import keep_times
from quiver.errors import CapacityError, InputError, StorageError
from quiver.units import MILLISECOND, SECOND

if TYPE_CHECKING:
    from quiver.engine.core import Core, Sealed
    from quiver.segment import OpenSegment

__all__ = ["ack_early", "forgo", "is_kept_up", "settle_early"]

_LOOK_NS: Final = 10 * MILLISECOND
_STILL_NS: Final = 100 * MILLISECOND
"""Who takes nothing for so long is not waited for."""
_PATIENCE_NS: Final = 2 * SECOND
_LITTLE: Final = 0.5
"""Of a segment: what is prepared of the first half is prepared of the rest too, needed or not."""
_FILLED: Final = 0.75
"""So much of the next segment may be filled meanwhile: what comes is not to wait for memory."""


def ack_early(core: Core, name: str, wal_seqs: Iterable[int]) -> list[int]:
    """Note that a subscriber has bundles that are in no segment yet.

    Gives those for which it is too late: a segment has them, and they come out of that. Raises
    InputError for a number that no bundle has: it could be given to one that nobody had.
    """
    subscriber_id, wal_seqs = core.registry.member(name).subscriber_id, list(wal_seqs)
    if any(seq >= core.next_wal_seq for seq in wal_seqs):
        raise InputError(
            f"bundle {max(wal_seqs)} was never appended: the next one is {core.next_wal_seq}",
            hint="ack what a receipt or append gave, once it is durable",
        )
    early: list[int] = []
    late: list[int] = []
    for seq in wal_seqs:
        (late if seq <= core.covered_wal_seq else early).append(seq)
    core.early.add(subscriber_id, early)
    if core.sealed is not None:
        core.changed.notify_all()
    return late


def is_kept_up(core: Core, opened: OpenSegment, first: int) -> bool:
    """Whether all subscribers have most of what is open, behind the first so many bundles.

    Of little that is enough of which they have some: the rest is on its way.
    """
    if not core.early or not _may_forgo(core):
        return False
    ids = core.registry.ids.values()
    is_little = opened.payload_bytes < core.config.segment.target_size * _LITTLE
    if is_little and not first and all(core.early.had_by(each) for each in ids):
        return True
    wal_seqs = _numbers(opened)[first:]
    return all(2 * core.early.missing([each], wal_seqs) < len(wal_seqs) for each in ids)


def _numbers(content: OpenSegment) -> list[int]:
    return [bundle.wal_seq for bundle in content.bundles]


def _may_forgo(core: Core) -> bool:
    """Whether nobody but subscribers is there to want a segment."""
    return (
        core.config.retention.steady_state_headroom == 0
        and core.config.wal.durability != "segment"
        and not core.announcer.has_listeners
        and len(core.registry.ids) > 0
    )


def forgo(
    core: Core,
    *,
    is_over: Callable[[], bool] = lambda: True,
    fold: Callable[[Core], object] = lambda _: None,
) -> bool:
    """Do without the file of what is sealed if all subscribers have all of it; whether it was done.

    If they are about to have it, waits for that a little, without the lock, unless ``is_over``.
    ``fold`` hears at last whether somebody came in another process.
    """
    sealed = core.sealed
    if sealed is None or core.writer is not None or not core.early or not _may_forgo(core):
        return False
    if sealed.content.stored_count or sealed.progress:
        return False
    if not _await_all(core, sealed, is_over):
        return False
    fold(core)
    # Meanwhile somebody may have come, or gone, or want to hear of segments.
    if not _may_forgo(core) or _missing(core, sealed):
        return False
    if core.closing or core.broken is not None:
        return False
    with core.whole():
        _forgo(core, sealed)
    return True


def _missing(core: Core, sealed: Sealed) -> int:
    return core.early.missing(core.registry.ids.values(), _numbers(sealed.content))


def _await_all(core: Core, sealed: Sealed, is_over: Callable[[], bool]) -> bool:
    """Wait until all have what is sealed; False if that would take too long, or it was written."""
    began_ns = moved_ns = core.clock.monotonic_ns()
    least = sealed.content.bundle_count * len(core.registry.ids) + 1
    while missing := _missing(core, sealed):
        now_ns = core.clock.monotonic_ns()
        if missing < least:
            least, moved_ns = missing, now_ns
        is_long = now_ns - moved_ns >= _STILL_NS or now_ns - began_ns >= _PATIENCE_NS
        if is_over() or is_long or _is_pressed(core):
            return False
        core.changed.wait(_LOOK_NS / SECOND)
        if core.sealed is not sealed or core.writer is not None:
            return False  # Somebody wanted it at once.
    return True


def _is_pressed(core: Core) -> bool:
    filled_max = core.config.segment.target_size * _FILLED
    is_filled = core.open_segment.payload_bytes > filled_max
    return is_filled or core.closing or core.broken is not None


def _forgo(core: Core, sealed: Sealed) -> None:
    """Make it durable that everybody has what is sealed, and forget it."""
    count, segment_seq = sealed.content.bundle_count, sealed.segment_seq
    now = core.clock.wall_ns()
    acks: list[Record] = [Ack(i, segment_seq, 0, count, now) for i in core.registry.ids.values()]
    floor = Floor(segment_seq + 1, sealed.last_wal_seq + 1)
    encoded = sealed.content.encoded()  # None of it is stored.
    keep_times(core, (bundle.ingestion_ns for bundle in encoded))
    # In one piece, the outcomes before the floor: it must not hide what nobody has.
    append(core, [*acks, floor, floor])
    sync_acks(core)
    core.floor = floor
    core.early.forget(sealed.last_wal_seq)
    core.progress.cover(sealed.progress)
    core.next_segment_seq = segment_seq + 1
    core.covered_wal_seq = sealed.last_wal_seq
    core.covered_end = sealed.end
    core.newest = None
    core.sealed = None
    core.finalize_failure = None
    core.metrics.add("quiver.segment.forgone_segments")
    core.events.end("segment.finalize_failed")
    core.events.info("segment.forgone", segment_seq=segment_seq, bundle_count=count)
    core.announce()


def settle_early(core: Core, sealed: Sealed) -> None:
    """Ack what subscribers have of a segment that was just registered, so that it does not come.

    If ack.log has no room for that, it comes again.
    """
    if not core.early:
        return
    wal_seqs = _numbers(sealed.content)
    now = core.clock.wall_ns()
    for name, subscriber_id in core.registry.ids.items():
        had = core.early.had_by(subscriber_id)
        progress = core.registry.progress(name)
        runs = [
            run
            for first, count in _runs([seq in had for seq in wal_seqs])
            for run in progress.open_within(sealed.segment_seq, first, count)
        ]
        try:
            append(core, [Ack(subscriber_id, sealed.segment_seq, *run, now) for run in runs])
        except (CapacityError, StorageError) as error:
            core.check()
            core.events.warning("subscriber.early_acks_lost", subscriber=name, error=error)
            continue
        for first, count in runs:
            core.registry.resolve(name, sealed.segment_seq, first, count=count)
    core.early.forget(sealed.last_wal_seq)


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Give the runs (first, count) of what is true."""
    found, at = [], 0
    for flag, group in groupby(flags):
        count = sum(1 for _ in group)
        if flag:
            found.append((at, count))
        at += count
    return found
