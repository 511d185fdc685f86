"""One tick of upkeep, and the last one."""

from __future__ import annotations

from quiver.engine.core import Core
from quiver.engine.ingest import finalize
from quiver.engine.outcomes import checkpoint
from quiver.engine.space import evict, sync_acks

__all__ = ["shut", "tick"]


def tick(core: Core) -> int:
    """Sync acks, finalize by age, delete what everybody has; give how many segments."""
    core.check()
    sync_acks(core)
    due = core.open_segment.due(core.clock.monotonic_ns())
    if due is not None or core.finalize_failure is not None:
        finalize(core)
    deleted = evict(core)
    if core.acks.file_bytes > core.config.acks.max_size:
        checkpoint(core)
    return deleted


def shut(core: Core) -> None:
    """Bring everything to rest and let go of it; lets go also when the disk refuses."""
    try:
        if core.fault is None:
            finalize(core)
            core.log.sync_all()
            sync_acks(core)
            evict(core)
    finally:
        for reader in core.readers.values():
            reader.close()
        core.readers.clear()
        core.acks.close()
        core.log.close()
