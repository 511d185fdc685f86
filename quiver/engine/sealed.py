"""From open to file: seal what is open, write it without the lock, register it.

::

    open segment --seal--> sealed --write--> file --register--> catalogue, registry, log given back
      (lock)        (lock)          (no lock, one thread at a time)          (lock)

Appends, claims and acks go on while a segment is written. There is at most one that is sealed, so
that segments come in the order of their numbers and memory stays bounded: what is sealed, and what
came since. A segment covers what was sealed, never what joined later. If writing fails it stays
sealed, in memory and in the log, and whoever comes next tries again.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from typing import Final

from quiver.engine.core import Core, Sealed
from quiver.engine.forgoing import settle_early
from quiver.engine.manners import resting
from quiver.engine.outgoing import settle
from quiver.engine.pace import work_of
from quiver.engine.saving import try_save_progress
from quiver.engine.space import reclaim
from quiver.engine.stored import fetch_stored
from quiver.errors import CapacityError, QuiverError
from quiver.segment import OpenSegment, SegmentInfo, SegmentLabel, segment_name, write_segment
from quiver.wal import Apart

__all__ = [
    "finalize",
    "finalize_up_to",
    "refuse_writer",
    "seal",
    "try_reclaim",
    "try_write_sealed",
    "wait_for_writer",
    "write_sealed",
]

_LOOK_AGAIN_SECONDS: Final = 1.0
"""An interrupt may have struck the one who was to wake us."""


def seal(core: Core) -> None:
    """Give what is open, which must hold something, its number, and go on with an empty one.

    Only while nothing else is sealed, and inside ``Core.whole``: a bundle must not be in both.
    Nothing happens if the disk refuses all of it: what is sealed is in the log.
    """
    settle(core)
    opened = core.open_segment
    if not opened.bundles:
        return
    last_seq = opened.bundles[-1].wal_seq
    filled_ns = core.clock.monotonic_ns() if opened.wanted_ns is None else opened.wanted_ns
    core.sealed = Sealed(
        opened,
        core.next_segment_seq,
        # Numbers that are used up and in no bundle are those of entries that recovery set aside.
        max(last_seq, core.next_wal_seq - 1),
        core.open_end,
        core.ahead,
        filled_ns - (filled_ns if opened.opened_ns is None else opened.opened_ns),
        core.progress.seal(),
    )
    core.ahead = None
    core.open_segment = OpenSegment(core.config.segment)
    core.sealed_memory_bytes = core.encoder.memory_bytes


def finalize(core: Core, *, as_closer: bool = False) -> SegmentInfo | None:
    """Bring all that was taken so far into segments and tell subscribers.

    Gives the last one, or None if there was nothing to write. When this returns the file and its
    name survive a power cut. If writing fails everything stays, in memory and in the WAL, and may
    be tried again. Others append meanwhile, and may close the store: then it raises ClosedError.
    """
    return finalize_up_to(core, core.next_wal_seq - 1, as_closer=as_closer)


def finalize_up_to(core: Core, wal_seq: int, *, as_closer: bool = False) -> SegmentInfo | None:
    """Do the same for all up to a number, and leave alone what need not be written for that."""
    core.check()
    if not any(part.bundle_count for part in core.waiting):
        return None
    while core.covered_wal_seq < wal_seq and any(part.bundle_count for part in core.waiting):
        core.check()
        if not as_closer:
            core.check_open()
        if core.sealed is None:
            with core.whole():
                seal(core)
        if core.writer is None:
            write_sealed(core)
        else:
            wait_for_writer(core)
    return core.newest


def wait_for_writer(core: Core) -> None:
    """Wait until the writer has ended, or for a while; CapacityError if it is this very thread."""
    refuse_writer(core)
    if core.open_segment.wanted_ns is None:
        core.open_segment.wanted_ns = core.clock.monotonic_ns()
    core.written.wait(_LOOK_AGAIN_SECONDS)


def refuse_writer(core: Core) -> None:
    """Raise CapacityError in a thread that is writing a segment further up: it would wait for ever.

    That is one whose signal handler, or whose disk, calls the store.
    """
    if core.writer == threading.get_ident():
        raise CapacityError(
            "this thread is in the middle of writing a segment",
            hint="this call comes out of that, as a signal handler's does: repeat it afterwards",
        )


def try_write_sealed(core: Core) -> None:
    """Write what is sealed, if anything is and nobody is at it. A failure is kept, not raised.

    The append that crossed the threshold was taken, so it must not fail; the next tick or
    ``finalize`` tries again, and past twice the target size so does each append, and raises. Sooner
    it does not: encoding the whole segment again for each bundle would take all the time there is.
    """
    if core.sealed is None or core.writer is not None or core.broken is not None:
        return
    if core.closing:  # Who closes finalizes; behind that the folder may be another writer's.
        return
    try:
        write_sealed(core)
    except QuiverError:
        if core.broken is not None:
            raise


def write_sealed(core: Core) -> None:
    """Write what is sealed as a file, register it, and give its part of the log back.

    The lock is not held while the file is written. Nobody else may be at it.
    """
    sealed = core.sealed
    if sealed is None:
        return
    core.writer = threading.get_ident()
    began_ns = core.clock.monotonic_ns()
    try:
        with core.whole():
            with core.unlocked():
                info = _write_with_reserve(core, sealed)
            # A sync that failed meanwhile may have been told to somebody else.
            core.check()
            _register(core, sealed, info)
            try_save_progress(core)
            core.metrics.observe("quiver.segment.finalize", core.clock.monotonic_ns() - began_ns)
            if hasattr(core, "log"):  # Not while it is replayed.
                # Nobody lets go of the log before this writer has ended.
                try_reclaim(core, apart=core.unlocked)
    except QuiverError as error:
        core.finalize_failure = copy.copy(error)  # Without the frames, which hold the segment.
        core.events.begin("segment.finalize_failed", error=error)
        raise
    finally:
        core.writer = None
        core.written.notify_all()


def try_reclaim(core: Core, *, apart: Apart = contextlib.nullcontext) -> None:
    """Give back what segments hold of the WAL; if the disk refuses, a later tick does it."""
    try:
        reclaim(core, apart=apart)
    except QuiverError:
        core.metrics.add("quiver.wal.reclaim_failures")
        core.check()


def _write_with_reserve(core: Core, sealed: Sealed) -> SegmentInfo | None:
    """Write the file, without the lock, on a full disk in the room that is kept for it."""
    try:
        return _write(core, sealed)
    except CapacityError:
        with core.lock:
            core.check()
            if core.reserve is None or not core.reserve.lend_to_segment():
                raise
        return _write(core, sealed)


def _write(core: Core, sealed: Sealed) -> SegmentInfo | None:
    """Write the file, without the lock.

    None if all that was sealed was recovered and cannot be decoded; it is in quarantine then.
    """
    is_own = not sealed.content.stored_count
    if not is_own:
        fetch_stored(core, sealed)
        if sealed.content.bundle_count == 0:
            return None
    label = SegmentLabel(
        segment_seq=sealed.segment_seq,
        store_id=core.manifest.store_id,
        core=core.number,
        slots=core.manifest.slots,
        wal_generation=sealed.end.generation,
        wal_offset=sealed.end.offset,
    )
    folder = core.path("segments")
    ahead, work = sealed.ahead, work_of(sealed.content)
    began_ns = core.clock.monotonic_ns()
    keep = core.pace.keeps(work, sealed.filled_ns) and not _is_united(sealed)
    if ahead is not None and ahead.keeps != keep:
        ahead = None  # It was given up, late.
    try:
        info = write_segment(
            core.disk,
            folder,
            sealed.content.encoded(),
            label=label,
            config=core.config.segment,
            trusted=True,
            builder=None if ahead is None else ahead.hand_over(),
            progress=sealed.progress.encode() if sealed.progress else b"",
            keep=keep,
            rest=resting(core),
        )
    except QuiverError as error:
        core.metrics.add("quiver.segment.finalize_failures")
        if core.disk.stat(f"{folder}/{segment_name(label.segment_seq)}") is not None:
            # Named but perhaps not durable: only a recovery can tell which.
            core.fault = error
        raise
    if is_own:
        core.readers.trust(info.segment_seq)
    if not keep:
        spent_ns = 0 if ahead is None else ahead.spent_ns
        core.pace.note(work, spent_ns + core.clock.monotonic_ns() - began_ns)
    return info


def _is_united(sealed: Sealed) -> bool:
    """Whether half of the segment is united by now, so that the rest costs less than to begin."""
    ahead = sealed.ahead
    if ahead is None or ahead.keeps:
        return False
    done = ahead.bundle_count
    return done is None or 2 * done >= sealed.content.bundle_count


def _register(core: Core, sealed: Sealed, info: SegmentInfo | None) -> None:
    """Make a durable segment part of the store, and let go of what is in it."""
    if info is not None:
        core.catalog.add(info)
        core.registry.add_segment(info.segment_seq, info.bundle_count)
        core.next_segment_seq = info.segment_seq + 1
        core.metrics.add("quiver.segment.finalized_segments")
        settle_early(core, sealed)
        core.announcer.note(info)
        core.events.info(
            "segment.finalized",
            segment_seq=info.segment_seq,
            bundle_count=info.bundle_count,
            file_bytes=info.file_bytes,
        )
    core.progress.cover(sealed.progress)
    core.covered_wal_seq = sealed.last_wal_seq
    core.covered_end = sealed.end
    core.newest = info
    core.sealed = None
    core.finalize_failure = None
    core.events.end("segment.finalize_failed")
    core.announce()
