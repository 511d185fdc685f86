"""One tick of upkeep, and the last one.

Steps that free space go before those that need it, and one that fails does not keep the others
from being done: a full disk must be able to empty itself.
"""

from __future__ import annotations

from collections.abc import Callable

from quiver.engine.ages import keep_ages, save_ages
from quiver.engine.census import measure_aside, used_bytes
from quiver.engine.core import Core
from quiver.engine.delivery import follow_clock, release_forgotten
from quiver.engine.fold import fold
from quiver.engine.orphans import remove_orphans
from quiver.engine.outcomes import checkpoint, sync_segments
from quiver.engine.outgoing import settle
from quiver.engine.saving import save_progress
from quiver.engine.sealed import finalize, seal, wait_for_writer
from quiver.engine.space import give_way, keep_house, reclaim, rest, sync_acks
from quiver.engine.timekeeping import end_times, holds_run, keep_beating
from quiver.errors import ClosedError, QuiverError

__all__ = ["finalize_if_due", "let_go", "seal_if_due", "shut", "tick"]


def finalize_if_due(core: Core) -> None:
    """Finalize by age, or because it failed before; not while somebody writes a segment anyway."""
    if core.writer is None and (core.sealed is not None or _is_due(core)):
        finalize(core)


def seal_if_due(core: Core) -> bool:
    """Seal by age, and say whether there is something for a writer to do."""
    if core.sealed is None and _is_due(core):
        seal(core)
    return core.sealed is not None and core.writer is None


def _is_due(core: Core) -> bool:
    opened, now = core.open_segment, core.clock.monotonic_ns()
    due = opened.due(now)
    if due is None or not holds_run(core):
        return due is not None
    age_ns = now - (now if opened.opened_ns is None else opened.opened_ns)
    return age_ns >= core.config.segment.max_open_duration


def tick(core: Core, *, finalize: Callable[[Core], object] = finalize_if_due) -> int:
    """Sync acks, delete what everybody has, finalize by age; give how many segments were deleted.

    Raises the first error after all steps were tried, and ClosedError if ``finalize`` let go of the
    lock and somebody closed the store.
    """
    core.check()
    release_forgotten(core)
    follow_clock(core)
    deleted = 0

    def delete(core: Core) -> None:
        nonlocal deleted
        measure_aside(core)
        wanted = _look_around(core)
        deleted = keep_house(core, wanted=wanted) + give_way(core)
        if wanted and deleted:
            _look_around(core)  # Whoever wants the room has it now, and not at our next tick.

    def check_open(core: Core) -> None:
        core.check_open()

    outcomes = fold, remove_orphans, sync_acks
    steps = rest, delete, sync_segments, finalize, check_open, save_progress, reclaim
    _each(core, *outcomes, *steps, _checkpoint_if_large, keep_ages, keep_beating, _fill_reserve)
    return deleted


def _look_around(core: Core) -> bool:
    """Tell the other cores how much of the cap this one has, and say if they want some of it."""
    if not core.config.retention.size_cap:
        return False
    spare = sum(core.catalog.get(seq).allocated_bytes for seq in core.registry.finished_segments())
    return core.budget.tick(used_bytes(core), spare_bytes=spare)


def _fill_reserve(core: Core) -> None:
    """Take the room again that a full disk made us give; appends wait for it."""
    reserve = core.reserve
    is_idle = core.writer is None and core.finalize_failure is None
    if reserve is not None and reserve.is_short and is_idle and reserve.fill():
        core.announce()


def _sync_log(core: Core) -> None:
    core.log.sync_all()


def shut(core: Core, *, sync_log: Callable[[Core], object] = _sync_log) -> None:
    """Bring everything to rest and let go of it; lets go also when the disk refuses.

    Whoever is writing a segment is waited for, in a store that gave up as well: the folder is not
    free before. Raises PoisonedError if a store that gave up holds bundles that may be nowhere
    else: nobody may have been told, since a segment is written by a thread of its own.
    """
    core.closing = True
    struck: BaseException | None = None
    try:
        if core.broken is None:
            # What was acked while the segment was written is synced too.
            outcomes = settle, fold, sync_acks, keep_house
            rest = _finalize_to_close, sync_acks, reclaim, save_ages, sync_log, _tell_refused
            _each(core, *outcomes, *rest)
    finally:
        while core.writer is not None:
            try:
                wait_for_writer(core)
            except BaseException as error:  # noqa: BLE001 Raised below, when the folder is free.
                struck = struck or error
        let_go(core)
    if struck is not None:
        raise struck
    if core.config.wal.durability != "sync" and any(part.bundle_count for part in core.waiting):
        core.check()


def _tell_refused(core: Core) -> None:
    core.outgoing.tell_rest()


def _finalize_to_close(core: Core) -> None:
    finalize(core, as_closer=True)
    save_progress(core)
    end_times(core)


def let_go(core: Core) -> None:
    """Close what is open, as it is."""
    core.progress.let_go()
    core.budget.close()
    core.readers.close()
    core.acks.close()
    core.outgoing.close(core.log)
    core.log.close()


def _each(core: Core, *steps: Callable[[Core], object]) -> None:
    """Take every step, as long as the store is there, and raise the first error at last."""
    first: QuiverError | None = None
    with core.whole():
        for step in steps:
            try:
                step(core)
            except QuiverError as error:
                first = first or error
                if isinstance(error, ClosedError) or core.broken is not None:
                    break
    try:
        if first is not None:
            raise first
    finally:
        first = None  # Its frames know it: a circle that would hold what they hold.


def _checkpoint_if_large(core: Core) -> None:
    if core.acks.file_bytes > core.config.acks.max_size:
        checkpoint(core)
