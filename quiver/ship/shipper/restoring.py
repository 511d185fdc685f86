"""What a restorer may be told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quiver.errors import InputError
from quiver.ship.shipper.cargo import DAMAGED, OnDamage

__all__ = ["Arriving", "Passed", "RestoreOptions", "RestoreTally", "RestoreTold", "Restored"]


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """How segments are restored; the defaults are for most."""

    consume: bool = False
    """Fence whoever reads the queue, and take out of it what is in the store."""
    damaged: OnDamage = "block"
    """What becomes of a batch that is missing or damaged."""
    fetches: int = 4
    memory_bytes: int = 256 << 20
    """Bytes of batches that are under way at a time; one that is larger comes alone."""
    commit_bytes: int = 256 << 20
    """So much is staged, or a batch more, before it becomes segments."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.damaged not in DAMAGED:
            raise InputError(f"damaged: {self.damaged!r} is none", hint=" or ".join(DAMAGED))
        for name in ("fetches", "memory_bytes", "commit_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)} is below 1")


@dataclass(frozen=True, slots=True)
class Restored:
    """Segments that one core has shipped, up to ``segment_seq``, are in ``into_core``."""

    store_id: str
    core: int
    segment_seq: int
    into_core: int | None
    segment_count: int
    bundle_count: int
    row_count: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Passed:
    """An entry, or a part of it, was left out."""

    sequence: int
    location: str
    reason: str


@dataclass(frozen=True, slots=True)
class Arriving:
    """So many bytes of the batches that wait were looked at."""

    done_bytes: int
    batch_bytes: int


RestoreTold: TypeAlias = Arriving | Restored | Passed


@dataclass(slots=True)
class RestoreTally:
    """What a restorer has done so far."""

    segment_count: int = 0
    """Segments of the queue that are in the store by this run."""
    bundle_count: int = 0
    row_count: int = 0
    file_bytes: int = 0
    repeated_segments: int = 0
    """Segments that the store had already."""
    foreign_calls: int = 0
    """What others put into the queue."""
    damaged_batches: int = 0
    """Entries that were left out, or a part of them, for each of their parts."""
    dequeued_batches: int = 0
    """Entries that a consumer was done with before their batch could be read."""
    dequeued_entries: int = 0
    """Entries that were taken out of the queue."""
    is_cut_short: bool = False
    """Whether it was told to stop before all was restored that waited."""

    def add(self, restored: Restored) -> None:
        """Add what one commit brought."""
        self.segment_count += restored.segment_count
        self.bundle_count += restored.bundle_count
        self.row_count += restored.row_count
        self.file_bytes += restored.file_bytes
