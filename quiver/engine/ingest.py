"""Take a bundle: encode it, write it to the WAL, let it join the open segment; finalize when due.

The order of ``take`` is what makes an append safe: nothing is written before the bundle has passed
every check, and it joins the open segment only after its entry is in the file. Whoever waits for
durability does so outside the lock, so that concurrent appends share one sync.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from quiver.bundle import fingerprint, resolve_bundle
from quiver.engine.core import Core
from quiver.engine.space import make_room, reclaim
from quiver.engine.stored import fetch_stored
from quiver.errors import CapacityError, InputError, QuiverError
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import OpenSegment, SegmentInfo, SegmentLabel, segment_name, write_segment
from quiver.wal import Place, encoded_bytes

__all__ = ["encode", "finalize", "take", "try_reclaim", "write_open_segment"]

_OPEN_BYTES_FACTOR = 2
"""How many times its target the open segment may hold while writing it fails."""


def encode(core: Core, bundle: Mapping[str, Any]) -> tuple[Payload, ...]:
    """Check a bundle and turn its batches into bytes, which share nothing with the caller's.

    Needs no lock. Raises InputError that says what is wrong with the bundle.
    """
    slots = core.manifest.slots
    payloads = []
    for slot_id, batch in resolve_bundle(bundle, slots, core.config.limits).items():
        payloads.append(
            Payload(
                slot_id=slot_id,
                payload_type_id=slots[slot_id].payload_type_id,
                fingerprint=fingerprint(batch.schema),
                row_count=batch.num_rows,
                data=memoryview(encode_stream(batch)),
            )
        )
    entry_bytes = encoded_bytes(EncodedBundle(0, 0, tuple(payloads)))
    if entry_bytes > core.config.limits.entry_bytes:
        raise InputError(
            f"the bundle takes {entry_bytes:,} bytes, the limit is "
            f"{core.config.limits.entry_bytes:,}",
            hint="append it in several bundles, or raise limits.entry_bytes",
        )
    return tuple(payloads)


def take(core: Core, payloads: tuple[Payload, ...]) -> tuple[int, Place]:
    """Write an encoded bundle and give its wal_seq and the place to sync up to.

    Raises CapacityError if there is no room for it, before anything is written.
    """
    core.check()
    with core.whole():
        bundle = EncodedBundle(core.next_wal_seq, max(core.clock.wall_ns(), 0), payloads)
        _check_open_segment(core)
        make_room(core, encoded_bytes(bundle), finalize=finalize)
        if core.config.wal.durability != "segment":
            core.open_end = _append(core, bundle)
        core.next_wal_seq += 1
        core.open_segment.add(bundle, core.clock.monotonic_ns())
        core.metrics.add("quiver.wal.appended_bundles")
        place = core.open_end
        due = core.open_segment.due(core.clock.monotonic_ns())
        if due is not None and core.finalize_failure is None:
            _try_finalize(core)
        return bundle.wal_seq, place


def _append(core: Core, bundle: EncodedBundle) -> Place:
    """Append to the WAL; when one of its caps is hit, finalize once to empty it, then try again."""
    try:
        place = core.log.append(bundle)
    except CapacityError:
        covered_end = core.log.locate(core.covered_end)
        if core.open_segment.bundle_count == 0 and covered_end <= core.log.truncated:
            core.metrics.add("quiver.wal.throttled_appends")
            raise
        finalize(core)
        reclaim(core)
        place = core.log.append(bundle)
    core.metrics.add("quiver.wal.appended_bytes", encoded_bytes(bundle))
    return place


def _check_open_segment(core: Core) -> None:
    """Refuse more while finished data piles up in memory because it cannot be written."""
    failure = core.finalize_failure
    most = _OPEN_BYTES_FACTOR * core.config.segment.target_size
    if failure is not None and core.open_segment.payload_bytes >= most:
        finalize(core)


def _try_finalize(core: Core) -> None:
    """Finalize because a threshold says so. A failure is kept, not raised.

    The append that crossed the threshold was taken, so it must not fail; the next tick or
    ``finalize`` tries again, and past twice the target size so does each append, and raises. Sooner
    it does not: encoding the whole segment again for each bundle would take all the time there is.
    """
    try:
        finalize(core)
    except QuiverError as error:
        if core.broken is not None:
            raise
        core.finalize_failure = copy.copy(error)  # Without the frames, which hold the segment.


def finalize(core: Core) -> SegmentInfo | None:
    """Write the open segment as a file and tell subscribers; None if it holds nothing.

    When this returns the file and its name survive a power cut. If writing fails everything stays
    as it was, in memory and in the WAL, and may be tried again.
    """
    core.check()
    if core.open_segment.bundle_count == 0:
        return None
    with core.whole():
        info = write_open_segment(core)
        try_reclaim(core)
        return info


def try_reclaim(core: Core) -> None:
    """Give back what segments hold of the WAL; if the disk refuses, a later tick does it."""
    try:
        reclaim(core)
    except QuiverError:
        core.metrics.add("quiver.wal.reclaim_failures")
        core.check()


def write_open_segment(core: Core) -> SegmentInfo | None:
    """Write the open segment as a file and register it; the WAL is left alone.

    None if all that was in it was recovered and cannot be decoded; it is in quarantine then.
    """
    last_seq = core.open_segment.bundles[-1].wal_seq
    if core.open_segment.stored_count:
        fetch_stored(core)
        if core.open_segment.bundle_count == 0:
            _cover(core, last_seq)
            core.finalize_failure = None
            return None
    label = SegmentLabel(
        segment_seq=core.next_segment_seq,
        store_id=core.manifest.store_id,
        core=core.number,
        slots=core.manifest.slots,
        wal_generation=core.open_end.generation,
        wal_offset=core.open_end.offset,
    )
    folder = core.path("segments")
    try:
        info = write_segment(core.disk, folder, core.open_segment.encoded(), label=label)
    except QuiverError as error:
        core.metrics.add("quiver.segment.finalize_failures")
        if core.disk.stat(f"{folder}/{segment_name(label.segment_seq)}") is not None:
            # Named but perhaps not durable: only a recovery can tell which.
            core.fault = error
        raise
    _register(core, info, last_seq)
    return info


def _cover(core: Core, last_seq: int) -> None:
    """Note that nothing of the open segment is needed in the WAL any more."""
    # Numbers that are used up and in no bundle are those of entries that recovery set aside.
    core.covered_wal_seq = max(last_seq, core.next_wal_seq - 1)
    core.covered_end = core.open_end


def _register(core: Core, info: SegmentInfo, last_seq: int) -> None:
    """Make a durable segment part of the store; it covers the log up to ``last_seq``."""
    core.catalog.add(info)
    core.registry.add_segment(info.segment_seq, info.bundle_count)
    core.next_segment_seq = info.segment_seq + 1
    _cover(core, last_seq)
    core.open_segment = OpenSegment(core.config.segment)
    core.finalize_failure = None
    core.metrics.add("quiver.segment.finalized_segments")
    core.announce()
