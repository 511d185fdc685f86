"""What subscribers did, between ack.log and the registry: replay at a start, checkpoint later."""

from __future__ import annotations

from collections.abc import Sequence

from quiver.acks import (
    Ack,
    AckLog,
    Checkpoint,
    DeadLetter,
    Dropped,
    Floor,
    Lease,
    Nack,
    NackState,
    Pause,
    Record,
    Register,
    Rename,
    SegmentState,
    SubscriberState,
    Unregister,
)
from quiver.acks import Replay as AckReplay
from quiver.acks.format import FRAME_SIZE
from quiver.acks.opening import LOG_NAME
from quiver.disk import Disk, lacks_descriptors
from quiver.engine.core import Core, RecoveryReport
from quiver.errors import CapacityError, DamagedEntry, QuiverError
from quiver.segment import Catalog
from quiver.subscriber import NackSnapshot, Registry, SegmentSnapshot, SubscriberSnapshot
from quiver.wal import ACTIVE_NAME

__all__ = [
    "append",
    "apply",
    "checkpoint",
    "open_outcomes",
    "restore_registry",
    "snapshot_of",
    "sync_segments",
]


def open_outcomes(
    disk: Disk, folder: str, *, has_segments: bool, report: RecoveryReport, strict: bool
) -> tuple[AckLog, Floor, AckReplay]:
    """Open ack.log, and give what is in it and below which numbers nothing is ever again."""
    missing = _missing(disk, folder, has_segments=has_segments)
    if missing is not None and strict:
        raise missing
    report.damage += [] if missing is None else [missing]
    acks, replay = AckLog.open(disk, f"{folder}/acks", f"{folder}/quarantine", strict=strict)
    report.damage += replay.damage
    floor = (replay.checkpoint or Checkpoint()).floor
    for record in replay.records:
        if isinstance(record, Floor):
            floor = Floor(
                max(floor.next_segment_seq, record.next_segment_seq),
                max(floor.next_wal_seq, record.next_wal_seq),
            )
    return acks, _above(floor, replay), replay


def restore_registry(replay: AckReplay, catalog: Catalog) -> Registry:
    """Bring every subscriber to where it was, over the segments that are there."""
    registry = Registry()
    start = replay.checkpoint or Checkpoint()
    segments = {info.segment_seq: info.bundle_count for info in catalog}
    registry.restore([snapshot_of(state) for state in start.subscribers], segments)
    for record in replay.records:
        if not isinstance(record, Floor):
            apply(registry, record)
    return registry


def _missing(disk: Disk, folder: str, *, has_segments: bool) -> DamagedEntry | None:
    """Tell of an ack.log that is missing: it is made before the first bundle is taken."""
    path = f"{folder}/acks/{LOG_NAME}"
    if disk.stat(path) is None and (has_segments or disk.stat(f"{folder}/wal/{ACTIVE_NAME}")):
        return DamagedEntry(
            "ack.log is missing",
            path=disk.locate(path),
            hint="subscribers and what they acked are forgotten: each starts anew",
        )
    return None


def _above(floor: Floor, replay: AckReplay) -> Floor:
    """Raise the floor above every segment that an outcome speaks of, whether it is there or not."""
    seen = [
        record.segment_seq
        for record in replay.records
        if isinstance(record, (Ack, DeadLetter, Dropped, Nack))
    ]
    if replay.checkpoint is not None:
        for state in replay.checkpoint.subscribers:
            seen += [segment.segment_seq for segment in state.segments]
            seen.append(state.floor_segment_seq - 1)
    return Floor(max(floor.next_segment_seq, max(seen, default=-1) + 1), floor.next_wal_seq)


def apply(registry: Registry, record: Record) -> None:
    """Apply one record. What it speaks of may be gone meanwhile; then nothing happens."""
    if isinstance(record, (Ack, Dropped, DeadLetter)):
        registry.replay_resolved(
            record.subscriber_id,
            record.segment_seq,
            record.bundle_first,
            count=record.bundle_count,
            is_dead=isinstance(record, DeadLetter),
        )
    elif isinstance(record, Nack):
        nack = NackSnapshot(
            record.segment_seq,
            record.bundle_index,
            record.attempt,
            record.not_before_ns,
            record.at_ns,
        )
        registry.replay_nack(record.subscriber_id, nack)
    elif isinstance(record, Register):
        registry.replay_register(
            record.subscriber_id,
            record.name,
            start_segment_seq=record.start_segment_seq,
            start_bundle_index=record.start_bundle_index,
        )
    elif isinstance(record, Unregister):
        registry.replay_unregister(record.subscriber_id)
    elif isinstance(record, Rename):
        registry.replay_rename(record.subscriber_id, record.name)
    elif isinstance(record, Pause):
        registry.replay_paused(record.subscriber_id, paused=record.paused)
    elif isinstance(record, Lease):
        registry.replay_lease(record.subscriber_id, record.lease)
    if isinstance(record, (Ack, Nack, DeadLetter, Register, Lease)):
        registry.replay_seen(record.subscriber_id, record.at_ns)


def append(core: Core, records: Sequence[Record]) -> None:
    """Append to ack.log, durable with the next sync; a checkpoint first if there is no more room.

    All records before these must have been applied to the registry. If the disk refuses the
    checkpoint the log grows above ``acks.max_size``, and the next append tries again. On a full
    disk the records go into the room that is kept for them.
    """
    incoming = len(records) * FRAME_SIZE
    if core.acks.file_bytes + incoming > core.config.acks.max_size and core.acks.has_records:
        try:
            checkpoint(core)
        except QuiverError as error:
            core.check()
            core.metrics.add("quiver.acks.checkpoint_failures")
            core.events.begin("acks.checkpoint_failed", error=error)
    try:
        core.acks.append(records)
    except CapacityError:
        if core.reserve is None or not core.reserve.lend_to_acks(incoming):
            raise
        core.acks.append(records)
    core.acks_unsynced = True
    core.metrics.add("quiver.acks.records", len(records))


def sync_segments(core: Core) -> None:
    """Return once no segment that was deleted comes back with a power cut.

    A folder that could not even be opened was not synced in part: that may be tried again.
    """
    if not core.segments_unsynced:
        return
    try:
        core.disk.sync_dir(core.path("segments"))
    except QuiverError as error:
        if not lacks_descriptors(error):
            core.fault = error
        raise
    core.segments_unsynced = False


def checkpoint(core: Core) -> None:
    """Write what every subscriber did as a snapshot and start ack.log afresh.

    Of segments that are gone nothing is in it: should one come back, all of it would be open.
    """
    sync_segments(core)
    subscribers = tuple(_state(snapshot) for snapshot in core.registry.snapshot())
    floor = Floor(core.next_segment_seq, core.covered_wal_seq + 1)
    core.acks.checkpoint(Checkpoint(core.acks.record_seq, floor, subscribers))
    core.acks_unsynced = False
    core.events.end("acks.checkpoint_failed")
    core.events.info(
        "acks.checkpoint", record_seq=core.acks.record_seq, subscriber_count=len(subscribers)
    )


def snapshot_of(state: SubscriberState) -> SubscriberSnapshot:
    """Give what a checkpoint says of a subscriber as the registry takes it."""
    return SubscriberSnapshot(
        state.subscriber_id,
        state.name,
        state.floor_segment_seq,
        tuple(SegmentSnapshot(s.segment_seq, s.bundle_count, s.runs) for s in state.segments),
        tuple(
            NackSnapshot(n.segment_seq, n.bundle_index, n.attempt, n.not_before_ns)
            for n in state.nacks
        ),
        paused=state.paused,
        last_seen_ns=state.last_seen_ns,
        dead_letter_count=state.dead_letter_count,
        lease=state.lease,
    )


def _state(snapshot: SubscriberSnapshot) -> SubscriberState:
    return SubscriberState(
        snapshot.subscriber_id,
        snapshot.name,
        snapshot.floor,
        tuple(SegmentState(s.segment_seq, s.bundle_count, s.runs) for s in snapshot.segments),
        tuple(
            NackState(n.segment_seq, n.bundle_index, n.attempt, n.not_before_ns)
            for n in snapshot.nacks
        ),
        paused=snapshot.paused,
        last_seen_ns=snapshot.last_seen_ns,
        dead_letter_count=snapshot.dead_letter_count,
        lease=snapshot.lease,
    )
