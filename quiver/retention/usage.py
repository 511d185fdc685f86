"""What is on the disk of one core, as far as the choice of what goes next needs to know."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SegmentUse", "Usage"]


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """One segment file.

    ``finished``: every subscriber, and there is one, has an outcome for every bundle.
    ``claimed``: a consumer holds one of its bundles right now.
    """

    segment_seq: int
    bytes: int
    finished: bool
    claimed: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes on disk by room. The order of ``segments`` does not matter."""

    wal_bytes: int = 0
    acks_bytes: int = 0
    segments: tuple[SegmentUse, ...] = ()
    quarantine_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it."""
        fixed = self.wal_bytes + self.acks_bytes + self.quarantine_bytes
        return fixed + sum(segment.bytes for segment in self.segments)
