"""Carry out what retention decides: expire, evict, finalize early, drop, refuse.

Deletion has one order: outcomes durable, with the floor below which no sequence is used again,
then unlink, then the folder synced, then forget. A crash anywhere between only repeats work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from quiver.acks import DROPPED_AGE, DROPPED_SIZE, Dropped, Floor
from quiver.disk import remove
from quiver.engine.ages import expired_segments
from quiver.engine.census import least_bytes, measure_aside, usage, used_bytes
from quiver.engine.core import Core
from quiver.engine.outcomes import append, checkpoint, sync_segments
from quiver.engine.saving import without_last_copies
from quiver.engine.tally import count_dropped, count_evicted, count_expired, unresolved
from quiver.engine.timekeeping import keep_times
from quiver.errors import CapacityError, QuiverError
from quiver.retention import Action, Drop, DropOpen, Evict, Expire, FinalizeEarly, Throttle, decide
from quiver.segment import SegmentInfo
from quiver.units import SECOND
from quiver.wal import Apart

__all__ = [
    "delete_segments",
    "drop_surplus",
    "give_way",
    "keep_house",
    "make_room",
    "raise_floor",
    "reclaim",
    "refuse_aside",
    "rest",
    "sync_acks",
    "write_off_segment",
]

_ACKS_BYTES_MIN = 16 << 10
"""How long ack.log must be at the cap for a checkpoint: less would be one for every few acks."""
_ROUNDS = 4
_IDLE_NS = 60 * SECOND
"""How often room is made for one append: what is done lets others in, and so may need repeating."""


def make_room(
    core: Core,
    incoming_bytes: int,
    *,
    fold: Callable[[Core], object],
    finalize: Callable[[Core], object],
    drop_open: Callable[[Core], object],
) -> None:
    """Make sure that ``incoming_bytes`` more stay below the size cap; CapacityError if they cannot.

    Does nothing when the cap is far, so that an append pays a few additions only. May let go of the
    lock in between. Before anything is dropped ``fold`` hears what others acked meanwhile.
    """
    if not core.config.retention.size_cap:
        return
    _refuse_while_reserve_is_short(core)
    has_heard = False
    for _ in range(_ROUNDS):
        # Once in the log, and once in the segment that is written before the log is given back.
        incoming = incoming_bytes + max(_beyond_reserve(core, incoming_bytes), 0)
        used = used_bytes(core)
        cap = core.budget.allowed(used, incoming)
        if used + incoming <= cap:
            _note_room(core)
            return
        drops = core.config.retention.size_cap_policy == "drop_oldest"
        if drops and least_bytes(core, incoming_bytes) > cap:
            break  # It would not fit into an empty store: nothing is dropped for it.
        core.log.squeeze()
        if _shorten_acks(core):
            continue
        if drops and not has_heard:
            has_heard = True
            fold(core)
        found = usage(core, expired=expired_segments(core))
        actions = decide(
            found, core.config.retention, cap=cap, incoming_bytes=incoming, keep_headroom=False
        )
        if actions and isinstance(actions[0], Throttle):
            break  # There is nothing to be done.
        carry_out(core, actions, finalize=finalize, drop_open=drop_open, reason="size")
        core.check()
        core.check_open()
    _refuse(core, used + incoming, cap)


def _shorten_acks(core: Core) -> bool:
    """Begin ack.log anew if that gives some blocks back; whether it was done."""
    if core.acks.file_bytes < _ACKS_BYTES_MIN:
        return False
    try:
        checkpoint(core)
    except QuiverError as error:
        core.check()
        core.events.begin("acks.checkpoint_failed", error=error)
        return False
    measure_aside(core)
    return True


def _beyond_reserve(core: Core, incoming_bytes: int) -> int:
    """Say how much of what comes makes the next segment larger than what is kept for it."""
    target = 0 if core.reserve is None else core.reserve.target_bytes
    waiting = sum(part.payload_bytes for part in core.waiting)
    return min(waiting + incoming_bytes - target, incoming_bytes)


def _refuse_while_reserve_is_short(core: Core) -> None:
    reserve = core.reserve
    if reserve is not None and reserve.is_short:
        _throttle(core)
        raise CapacityError(
            f"the disk is full: of {reserve.target_bytes:,} bytes that are kept for the next "
            f"segment there is room for {reserve.held_bytes:,}",
            hint="make room on the disk or let subscribers ack, and call maintain()",
        )


def _refuse(core: Core, needed_bytes: int, cap: int) -> None:
    _throttle(core)
    raise CapacityError(
        f"the store is full: {max(needed_bytes - cap, 1):,} bytes above its cap of {cap:,}",
        hint="let subscribers ack and call maintain(), or raise retention.size_cap",
    )


def refuse_aside(core: Core, byte_count: int) -> None:
    """Raise CapacityError if so much more, set aside, would pass the cap by more than a segment.

    A segment at most it may: at the cap, giving up a bundle may be what lets its segment go.
    """
    if not core.config.retention.size_cap:
        return
    needed = used_bytes(core) + byte_count
    most = core.budget.allowed(needed - byte_count, byte_count) + core.config.segment.target_size
    if needed > most:
        raise CapacityError(
            f"the store is full: with what is to be set aside it would pass {most:,} bytes",
            hint="take away what lies in dead_letters/, or raise retention.size_cap",
        )


def _throttle(core: Core) -> None:
    if not core.throttled:
        core.throttled = True
        policy = core.config.retention.size_cap_policy
        core.metrics.add("quiver.retention.size_emergencies", label=policy)
        core.events.warning("retention.throttled")


def _note_room(core: Core) -> None:
    if core.throttled:
        core.throttled = False
        core.events.info("retention.resumed")


def carry_out(
    core: Core,
    actions: Sequence[Action],
    *,
    finalize: Callable[[Core], object],
    drop_open: Callable[[Core], object],
    reason: str,
) -> None:
    """Do what was decided, but for the throttling; ``reason`` is why what is finished goes."""
    # First what nobody has to be told of: on a full disk that makes room for what is written down.
    _delete_finished(core, [a.segment_seq for a in actions if isinstance(a, Evict)], reason)
    for action in actions:
        if isinstance(action, Expire):
            _drop(core, action.segment_seq, DROPPED_AGE)
        elif isinstance(action, Drop) and core.budget.may_drop:
            _drop(core, action.segment_seq, DROPPED_SIZE)
        elif isinstance(action, DropOpen) and core.budget.may_drop:
            drop_open(core)
        elif isinstance(action, FinalizeEarly) and any(p.bundle_count for p in core.waiting):
            finalize(core)


def keep_house(core: Core, *, wanted: bool = False) -> int:
    """Delete what is too old, and what all subscribers have finished; give how many segments.

    ``wanted``: others need the room, so what is finished is not kept for a while.
    """
    core.kept_segments.clear()
    old = expired_segments(core)
    done = core.registry.finished_segments()
    if not old and not done:
        return 0
    retention = core.config.retention
    cap = core.budget.allowed(used_bytes(core), 0) if retention.size_cap else 0
    wanted = wanted or _is_disk_full(core)
    actions = decide(usage(core, expired=old), retention, cap=cap, keep_headroom=not wanted)
    before = len(core.catalog)
    safe = [action for action in actions if isinstance(action, (Expire, Evict))]
    reason = "size" if wanted else "steady"
    carry_out(core, safe, finalize=_nothing, drop_open=_nothing, reason=reason)
    return before - len(core.catalog)


def give_way(core: Core) -> int:
    """Drop the oldest of what others have a right to, under ``drop_oldest``; give how many.

    What is in no segment yet is left alone.
    """
    retention = core.config.retention
    if not retention.size_cap or retention.size_cap_policy != "drop_oldest":
        return 0
    return drop_surplus(core, core.budget.surplus(used_bytes(core)))


def drop_surplus(core: Core, surplus: int) -> int:
    """Do that with so many bytes, or a little more."""
    if surplus <= 0:
        return 0
    found = usage(core)
    cap = max(found.total_bytes - surplus, 1)
    actions = decide(found, core.config.retention, cap=cap, keep_headroom=False)
    before = len(core.catalog)
    _delete_finished(core, [a.segment_seq for a in actions if isinstance(a, Evict)], "size")
    for action in actions:
        if isinstance(action, Drop):
            _drop(core, action.segment_seq, DROPPED_SIZE)
    return before - len(core.catalog)


def _is_disk_full(core: Core) -> bool:
    """Whether the disk had no room for something that the store has to write."""
    is_full, core.had_no_room = _lacks_room(core), False
    return is_full


def _lacks_room(core: Core) -> bool:
    is_short = core.reserve is not None and core.reserve.is_short
    return core.had_no_room or is_short or isinstance(core.finalize_failure, CapacityError)


def _nothing(_: Core) -> None:
    """Do without an act that is not among those asked for."""


def _delete_finished(core: Core, segment_seqs: Sequence[int], reason: str) -> None:
    """Delete segments that nobody needs; they may have gone while the lock was not held."""
    there = [core.catalog.get(seq) for seq in segment_seqs if seq in core.catalog]
    try:
        with core.whole():
            delete_segments(core, [info.segment_seq for info in there])
    finally:
        count_evicted(core, [i for i in there if i.segment_seq not in core.catalog], reason)


def _drop(core: Core, segment_seq: int, reason: int) -> None:
    """Delete a segment that subscribers still need, after writing down that they lost it."""
    if segment_seq not in core.catalog:
        return
    info = core.catalog.get(segment_seq)
    needed_count = unresolved(core, segment_seq)
    with core.whole():
        lost = write_off_segment(core, segment_seq, reason)
        if lost:  # Now: should the file not go, nobody needs it when that is tried again.
            _tell_dropped(core, info, reason, needed_count=needed_count, lost=lost)
        delete_segments(core, [segment_seq])
        if not lost:
            _tell_dropped(core, info, reason, needed_count=needed_count, lost=lost)
        if reason == DROPPED_AGE:
            count_expired(core, info)


def _tell_dropped(
    core: Core, info: SegmentInfo, reason: int, *, needed_count: int, lost: dict[str, int]
) -> None:
    """Count a segment that goes although somebody needed it, or is too old, and say so."""
    segment_seq, by_age = info.segment_seq, reason == DROPPED_AGE
    label = "age" if by_age else "size"
    count_dropped(core, label, bundle_count=needed_count, byte_count=info.file_bytes)
    if by_age:
        core.events.warning(
            "retention.expired",
            segment_seq=segment_seq,
            bundle_count=info.bundle_count,
            file_bytes=info.file_bytes,
            lost=lost,
        )
    else:
        core.events.warning(
            "retention.dropped",
            segment_seq=segment_seq,
            bundle_count=info.bundle_count,
            file_bytes=info.file_bytes,
            lost=lost,
        )


def write_off_segment(core: Core, segment_seq: int, reason: int) -> dict[str, int]:
    """Record every bundle of a segment that is still open as dropped, for every subscriber.

    Gives how many that were, by name of the subscriber.
    """
    now, ids = core.clock.wall_ns(), core.registry.ids
    records = [
        Dropped(subscriber_id, segment_seq, first, count, now, reason)
        for name, subscriber_id in ids.items()
        for first, count in core.registry.progress(name).open_runs(segment_seq)
    ]
    append(core, records)
    lost = {}
    for name in ids:
        count = core.registry.drop(name, segment_seq)
        if count:
            core.metrics.add("quiver.subscriber.dropped_bundles", count, label=name)
            lost[name] = count
    return lost


def delete_segments(core: Core, segment_seqs: Sequence[int]) -> None:
    """Delete segments whose outcomes are all written, for good.

    One that the disk keeps does not keep the others; the first refusal is raised at the end.
    """
    if not segment_seqs:
        return
    raise_floor(core)
    sync_acks(core)
    segment_seqs, refusal = without_last_copies(core, segment_seqs)
    keep_times(core, (core.catalog.get(seq).ingestion_ns_max for seq in segment_seqs))
    for segment_seq in segment_seqs:
        core.readers.forget(segment_seq)
        try:
            remove(core.disk, core.catalog.get(segment_seq).path)
        except QuiverError as error:
            refusal = refusal or error
            core.kept_segments.add(segment_seq)
            continue
        core.catalog.remove(segment_seq)
        core.registry.remove_segment(segment_seq)
    core.segments_unsynced = True
    try:
        sync_segments(core)
    except QuiverError:
        if core.fault is not None:  # Otherwise the next tick tries it again, and tells.
            raise
    core.announce()  # An append may wait for the room.
    if refusal is not None:
        raise refusal


def reclaim(core: Core, *, apart: Apart = contextlib.nullcontext) -> None:
    """Give the part of the WAL back that segments hold; what fails may be tried again.

    The floor goes first: without the log, a damaged segment would be the only one to tell the last
    wal_seq, as it is from the start if it was taken in. What takes long is done in ``apart``.
    """
    covered_end = core.log.locate(core.covered_end)
    is_taken = covered_end == core.log.end and core.covered_wal_seq >= core.floor.next_wal_seq
    is_due = is_taken or covered_end > core.log.truncated
    if is_due or core.config.wal.durability == "segment":
        raise_floor(core)
    try:
        core.log.truncate(covered_end, apart=apart)
    except CapacityError:  # To say what is given back takes a block.
        if core.reserve is None or not core.reserve.lend_to_acks(0):
            raise
        core.log.truncate(covered_end, apart=apart)


def rest(core: Core) -> None:
    """Keep no room of the log for what comes if the disk has none, or nothing came for a minute."""
    if core.config.wal.reclaim != "recycle":
        return
    now_ns, end = core.clock.monotonic_ns(), core.log.end
    if end != core.last_end[0]:
        core.last_end = end, now_ns
    if now_ns - core.last_end[1] >= _IDLE_NS or _lacks_room(core):
        core.log.squeeze()


def raise_floor(core: Core) -> None:
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
