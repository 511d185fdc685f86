"""What is on the disk of one core, as far as the choice of what goes next needs to know."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SegmentUse", "Usage"]


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """One segment file.

    ``finished``: every subscriber, and there is one, has an outcome for every bundle.
    ``claimed``: a consumer holds one of its bundles right now.
    ``expired``: it is older than ``retention.max_retain_after_ingestion_hours``.
    """

    segment_seq: int
    bytes: int
    finished: bool
    claimed: bool = False
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes on disk by room. The order of ``segments`` does not matter.

    ``pinned_bytes`` are those of segments that are not listed, since nothing may be done to them.
    ``reserved_bytes`` are not used and kept for the next segment, which needs them while the log
    still has the same bundles.
    """

    wal_bytes: int = 0
    acks_bytes: int = 0
    segments: tuple[SegmentUse, ...] = ()
    quarantine_bytes: int = 0
    pinned_bytes: int = 0
    reserved_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it."""
        fixed = self.wal_bytes + self.acks_bytes + self.quarantine_bytes
        kept = self.pinned_bytes + self.reserved_bytes
        return fixed + kept + sum(segment.bytes for segment in self.segments)
