"""What one core takes on the disk, in the bytes that the disk gives away for it."""

from __future__ import annotations

from typing import Final

from quiver.acks.opening import CHECKPOINT_NAME
from quiver.disk import folder_bytes
from quiver.engine.core import Core
from quiver.progress import PROGRESS_NAME
from quiver.retention import SegmentUse, Usage

__all__ = ["least_bytes", "measure_aside", "usage", "used_bytes"]

_BLOCK: Final = 4096
"""The last block of a file is counted whole."""
_SMALL_FILES: Final = 6
"""ack.log, its lock, the sidecar, the ages, and the manifest with its lock."""
_ASIDE: Final = ("quarantine", "dead_letters", "acks/inbox")


def measure_aside(core: Core) -> None:
    """Look what the folders take whose files are not counted as they come and go."""
    if core.config.retention.size_cap:
        files = core.path("acks", CHECKPOINT_NAME), core.path(PROGRESS_NAME)
        found = [stat for stat in map(core.disk.stat, files) if stat is not None]
        core.quarantine_bytes = folder_bytes(core.disk, core.path(_ASIDE[0]))
        core.aside_bytes = sum(stat.allocated for stat in found)
        core.aside_bytes += sum(folder_bytes(core.disk, core.path(name)) for name in _ASIDE[1:])


def _acks_bytes(core: Core) -> int:
    return core.acks.file_bytes + core.aside_bytes + _SMALL_FILES * _BLOCK


def _log_bytes(core: Core) -> int:
    return core.log.disk_bytes + core.outgoing.byte_count + core.log.file_count * _BLOCK


def _reserved_bytes(core: Core) -> int:
    """Bytes that are kept for the next segment: it is written before its part of the log goes."""
    waiting = sum(part.payload_bytes for part in core.waiting)
    return max(waiting, 0 if core.reserve is None else core.reserve.target_bytes)


def used_bytes(core: Core) -> int:
    """Give all that counts for the cap, in a few additions."""
    kept = _log_bytes(core) + core.catalog.allocated_bytes + core.quarantine_bytes
    return kept + _acks_bytes(core) + _reserved_bytes(core)


def least_bytes(core: Core, incoming_bytes: int) -> int:
    """Give what counts for the cap if there is no bundle but one of that size."""
    target = 0 if core.reserve is None else core.reserve.target_bytes
    kept = core.quarantine_bytes + core.aside_bytes + (_SMALL_FILES + 1) * _BLOCK
    return kept + incoming_bytes + max(target, incoming_bytes)


def usage(core: Core, *, expired: list[int] | None = None) -> Usage:
    """Say what is there, and what of it may go.

    Under ``backpressure`` only segments that are finished or too old are listed.
    """
    old = set(expired or ())
    listed = set(core.registry.finished_segments()) | old
    claimed: set[int] = set()
    if core.config.retention.size_cap_policy == "drop_oldest":
        claimed = core.registry.claimed_segments()
        listed = {info.segment_seq for info in core.catalog}
    segments = tuple(
        SegmentUse(
            seq,
            core.catalog.get(seq).allocated_bytes,
            finished=core.registry.finished(seq),
            claimed=seq in claimed,
            expired=seq in old,
        )
        for seq in sorted(listed)
        if seq in core.catalog and seq not in core.kept_segments
    )
    return Usage(
        wal_bytes=_log_bytes(core),
        acks_bytes=_acks_bytes(core),
        segments=segments,
        quarantine_bytes=core.quarantine_bytes,
        pinned_bytes=core.catalog.allocated_bytes - sum(s.bytes for s in segments),
        reserved_bytes=_reserved_bytes(core),
    )
