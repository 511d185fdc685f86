"""Take a bundle: encode it, write it to the WAL, let it join the open segment; seal that when due.

The order of ``take`` is what makes an append safe: nothing is written before the bundle has passed
every check, and nothing is sealed before its entry is in the file. Whoever waits for durability
does so outside the lock, so that concurrent appends share one sync. So does whoever writes what was
sealed, and what waits for the write (``outgoing``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from quiver.engine.arena import SLAB_BYTES
from quiver.engine.core import Core
from quiver.engine.dropping import drop_open
from quiver.engine.fold import try_fold
from quiver.engine.outgoing import Entry, Ticket, settle
from quiver.engine.progress import Progress
from quiver.engine.sealed import finalize, finalize_up_to, seal, wait_for_writer, write_sealed
from quiver.engine.space import make_room, reclaim
from quiver.engine.timekeeping import begin_times, holds_run
from quiver.errors import CapacityError, InputError, QuiverError
from quiver.payload import EncodedBundle, Payload
from quiver.progress import with_lag
from quiver.wal import entry_bytes

__all__ = ["Taken", "encode", "take"]

_OPEN_BYTES_FACTOR = 2
"""How many times the target of a segment may be in memory while writing one fails."""
_MEMORY_FACTOR = 3
"""So many times the target of a segment may be begun in slabs for one: if all is taken, twice."""
_MEMORY_LEAST = 2 * SLAB_BYTES


class Taken(NamedTuple):
    """A bundle that was taken, if it filled a segment, and its entry if that waits."""

    ticket: Ticket
    has_sealed: bool
    entry: Entry | None = None


def encode(
    core: Core, bundle: Mapping[str, Any], progress: Progress | None = None
) -> tuple[Payload, ...]:
    """Check a bundle and turn its batches into bytes, which share nothing with the caller's.

    Needs no lock. Raises InputError that says what is wrong with the bundle, or if there is no room
    in an entry for its ``progress`` as well.
    """
    if progress is not None and not isinstance(progress, Progress):
        raise InputError(
            f"progress is {type(progress).__name__}", hint="store.follow(source).at(states) is one"
        )
    note = None if progress is None else progress.note
    return core.encoder.encode(bundle, note=note)


def take(
    core: Core,
    payloads: tuple[Payload, ...],
    progress: Progress | None = None,
    *,
    later: bool = False,
    time_ns: int | None = None,
) -> Taken:
    """Write an encoded bundle, perhaps with progress, and let it join the open segment.

    Whoever calls has looked, with the lock, whether the store is open and knows its disk.
    ``later``: its entry may wait, where all is as usual: without progress, which could not be taken
    back, with room below all caps and in the file. May have to wait, without the lock, for a
    segment to be written. ``time_ns`` is the caller's, if he says it. Raises CapacityError if there
    is no room for it, ClosedError if the store is closed meanwhile, or the follower whose progress
    it is, OutOfSequenceError for a time that falls; nothing is written then.
    """
    note = None if progress is None else progress.note
    byte_count = entry_bytes(payloads, note)
    while True:
        if core.sealed is not None:
            _wait_for_memory(core)
        if core.config.retention.size_cap:
            make_room(core, byte_count, fold=try_fold, finalize=finalize, drop_open=drop_open)
        taken = _take_now(
            core, payloads, progress, byte_count=byte_count, later=later, time_ns=time_ns
        )
        if taken is not None:
            return taken
        _shorten_log(core)


def _take_now(
    core: Core,
    payloads: tuple[Payload, ...],
    progress: Progress | None,
    *,
    byte_count: int,
    later: bool,
    time_ns: int | None,
) -> Taken | None:
    """Do it without letting anybody else in; None if a finalize may help against the log's caps."""
    try:
        # From here on nobody else comes in: the number is ours.
        if progress is not None:
            _check_progress(core, progress)
        if not core.has_begun_times:
            begin_times(core)
        now_ns = core.times.stamp(core.clock.wall_ns(), time_ns)
        was_full = core.sealed is None and _is_full(core)
        if was_full and now_ns == core.times.last_ns and holds_run(core):
            was_full = False
        if was_full:  # While another one was sealed, or a run of one time had to end.
            seal(core)
        may_wait = later and progress is None and core.outgoing.takes(core.log, byte_count)
        if not may_wait:
            settle(core)
        core.check_numbers()
        bundle = EncodedBundle(core.next_wal_seq, now_ns, payloads, _note(core, progress))
        if may_wait:
            entry = Entry(bundle, byte_count, core.times.mark())
            core.outgoing.add(entry)
            return Taken(entry.ticket, _join(core, bundle) or was_full, entry)
        if not _append(core, bundle, byte_count):
            return None
        place = None if core.config.wal.durability == "segment" else core.open_end
        return Taken(Ticket(bundle.wal_seq, place), _join(core, bundle) or was_full)
    except QuiverError:
        raise
    except BaseException as error:  # As ``core.whole()`` does it; here it costs nothing.
        core.break_off(error)
        raise


def _check_progress(core: Core, progress: Progress) -> None:
    """Raise unless this may be written: while room was waited for another may have come."""
    core.progress.check_follower(progress)
    sealed = None if core.sealed is None else core.sealed.progress
    core.progress.check_room(progress.note, sealed)


def _note(core: Core, progress: Progress | None) -> bytes | None:
    """Give what goes into the entry: behind a hole it tells whether that was ever durable."""
    if progress is None:
        return None
    durable_seq = max(core.durable_seq, core.covered_wal_seq)
    return with_lag(progress.note, core.next_wal_seq - 1 - durable_seq)


def _wait_for_memory(core: Core) -> None:
    """Wait while what came since the last seal is as much as a segment may be.

    If writing what is sealed failed, bundles are taken up to twice the target, and then refused.
    """
    while (sealed := core.sealed) is not None:
        opened, target = core.open_segment, core.config.segment.target_size
        if core.writer is None and core.finalize_failure is not None:
            payload_bytes = sealed.content.payload_bytes + opened.payload_bytes
            is_full = payload_bytes >= _OPEN_BYTES_FACTOR * target or opened.is_at_limit
        else:
            is_full = _is_full(core)
        if not is_full:
            return
        if core.writer is None:
            write_sealed(core)
        else:
            wait_for_writer(core)
        core.check()
        core.check_open()


def _is_full(core: Core) -> bool:
    return core.open_segment.is_full or _keeps_memory(core)


def _keeps_memory(core: Core) -> bool:
    """Whether what is open may keep far more memory than it is: that of bundles that were refused.

    A few bytes keep the slab that they are in, and what was encoded beside them is in it for good.
    """
    begun_bytes = core.encoder.memory_bytes - core.sealed_memory_bytes
    limit = _MEMORY_FACTOR * core.config.segment.target_size + _MEMORY_LEAST
    return begun_bytes >= limit and bool(core.open_segment.bundles)


def _append(core: Core, bundle: EncodedBundle, byte_count: int) -> bool:
    """Append to the WAL, if there is one; False if a finalize may help against its caps."""
    if core.config.wal.durability == "segment":
        return True
    try:
        core.open_end = core.log.append(bundle)
    except CapacityError:
        covered_end = core.log.locate(core.covered_end)
        is_empty = not any(part.bundle_count for part in core.waiting)
        # Whoever wrote a segment may be about to delete files that nobody needs, without the lock.
        if is_empty and covered_end <= core.log.truncated and core.writer is None:
            core.had_no_room = True
            raise
        return False
    core.outgoing.has_refused = False
    core.metrics.add("quiver.wal.appended_bytes", byte_count)
    return True


def _shorten_log(core: Core) -> None:
    """Bring the first part of what the log is needed for into a segment, and give it back."""
    sealed = core.sealed
    finalize_up_to(core, core.next_wal_seq - 1 if sealed is None else sealed.last_wal_seq)
    core.check_open()
    if core.writer is not None:
        wait_for_writer(core)  # It gives the log back.
        core.check()
        core.check_open()
        return
    with core.whole():
        reclaim(core)


def _join(core: Core, bundle: EncodedBundle) -> bool:
    """Let a bundle join the open segment, and seal that if it is due; whether it was."""
    now = core.clock.monotonic_ns()
    core.next_wal_seq += 1
    core.times.took(bundle.ingestion_ns)
    core.open_segment.add(bundle, now)
    if bundle.note is not None:
        core.progress.take(bundle.wal_seq, bundle.note)
    core.metrics.add("quiver.wal.appended_bundles")
    is_due = core.sealed is None and core.open_segment.due(now) is not None
    if is_due and holds_run(core):
        is_due = core.open_segment.due(now) == "age"
    is_due |= core.sealed is None and _keeps_memory(core)
    if is_due:
        seal(core)
    return is_due
