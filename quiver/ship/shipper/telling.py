"""What a shipper tells of while it runs, and adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from quiver.errors import QuiverError

if TYPE_CHECKING:
    from quiver.ship.shipper.loading import Loaded

__all__ = ["Ahead", "LeftOut", "Shipment", "Tally", "Told", "Trouble"]


@dataclass(frozen=True, slots=True)
class Shipment:
    """An entry that is in the queue; what it brings is acked."""

    sequence: int
    location: str
    """From the root of the store of objects."""
    segment_count: int
    bundle_count: int
    record_bytes: int
    """Of the segments in it."""
    batch_bytes: int
    """Of the object, compressed if it is."""
    file_bytes: int
    """Of the segment files that it was made of."""

    @classmethod
    def of(cls, loaded: Loaded, sequence: int) -> Shipment:
        """Say what was loaded, and is in the queue under a number."""
        entry = loaded.entry
        shipped = [cargo for cargo in loaded.cargo if cargo.segment is not None]
        return cls(
            sequence,
            "" if entry is None else entry.location,
            len(shipped),
            sum(cargo.segment.bundle_count for cargo in shipped if cargo.segment is not None),
            sum(cargo.record_bytes for cargo in shipped),
            0 if entry is None or entry.batch is None else entry.batch.byte_count,
            sum(cargo.pending.info.file_bytes for cargo in loaded.cargo),
        )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Bundles of a segment that are not shipped, and never will be: what there is is set aside.

    ``bundle_count`` is None for a segment of which nobody can say what it holds.
    """

    core: int
    segment_seq: int
    bundle_count: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """The queue could not be reached, or is full; it is tried again."""

    error: QuiverError


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many bytes of files there are to ship when a run begins."""

    file_bytes: int


Told: TypeAlias = Ahead | Shipment | LeftOut | Trouble


@dataclass(slots=True)
class Tally:
    """What a shipper has done so far."""

    batch_count: int = 0
    segment_count: int = 0
    bundle_count: int = 0
    """Bundles that are in the queue by this run."""
    record_bytes: int = 0
    batch_bytes: int = 0
    append_count: int = 0
    """Conditional writes of the manifest that were needed for it, conflicts not counted."""
    bundles_before: int = 0
    """Bundles that were acked because the queue had them."""
    bundles_unwanted: int = 0
    """Bundles that were acked because they have none of the slots."""
    rejected_bundles: int = 0
    """Bundles that were left out for good: damaged, or too late."""
    unreadable_segments: int = 0
    is_paused: bool = False
    """Whether nothing is shipped because the subscriber is paused."""
    is_cut_short: bool = False
    """Whether it was told to stop before all was shipped that there was."""

    def add(self, shipment: Shipment) -> None:
        """Add what one entry brought, but for its bundles."""
        self.batch_count += 1
        self.segment_count += shipment.segment_count
        self.record_bytes += shipment.record_bytes
        self.batch_bytes += shipment.batch_bytes
