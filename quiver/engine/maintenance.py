"""One tick of upkeep, and the last one.

Steps that free space go before those that need it, and one that fails does not keep the others
from being done: a full disk must be able to empty itself.
"""

from __future__ import annotations

from collections.abc import Callable

from quiver.engine.core import Core
from quiver.engine.delivery import release_forgotten
from quiver.engine.ingest import finalize
from quiver.engine.outcomes import checkpoint
from quiver.engine.space import evict, reclaim, sync_acks
from quiver.errors import QuiverError

__all__ = ["let_go", "shut", "tick"]


def tick(core: Core) -> int:
    """Sync acks, delete what everybody has, finalize by age; give how many segments were deleted.

    Raises the first error after all steps were tried.
    """
    core.check()
    release_forgotten(core)
    before = len(core.catalog)
    written = core.next_segment_seq
    _each(core, sync_acks, evict, _finalize_if_due, reclaim, _checkpoint_if_large)
    return before + core.next_segment_seq - written - len(core.catalog)


def _sync_log(core: Core) -> None:
    core.log.sync_all()


def shut(core: Core, *, sync_log: Callable[[Core], object] = _sync_log) -> None:
    """Bring everything to rest and let go of it; lets go also when the disk refuses."""
    try:
        if core.broken is None:
            _each(core, sync_acks, evict, finalize, reclaim, sync_log)
    finally:
        let_go(core)


def let_go(core: Core) -> None:
    """Close what is open, as it is."""
    for reader in core.readers.values():
        reader.close()
    core.readers.clear()
    core.acks.close()
    core.log.close()


def _each(core: Core, *steps: Callable[[Core], object]) -> None:
    """Take every step, as long as the store is not poisoned, and raise the first error at last."""
    first: QuiverError | None = None
    with core.whole():
        for step in steps:
            try:
                step(core)
            except QuiverError as error:
                first = first or error
                if core.broken is not None:
                    break
    try:
        if first is not None:
            raise first
    finally:
        first = None  # Its frames know it: a circle that would hold what they hold.


def _finalize_if_due(core: Core) -> None:
    due = core.open_segment.due(core.clock.monotonic_ns())
    if due is not None or core.finalize_failure is not None:
        finalize(core)


def _checkpoint_if_large(core: Core) -> None:
    if core.acks.file_bytes > core.config.acks.max_size:
        checkpoint(core)
