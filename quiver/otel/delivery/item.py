"""A batch in hand of a delivery."""

from __future__ import annotations

from dataclasses import dataclass

from quiver.otel.batch import Batch
from quiver.otel.nodes import Place
from quiver.subscriber import BundleHandle

__all__ = ["Item"]


@dataclass(slots=True)
class Item:
    """A batch in hand. Without a handle it was offered, and is to come out of its segment yet."""

    handle: BundleHandle | None
    wal_seq: int | None
    batch: Batch | None = None

    @property
    def place(self) -> Place | None:
        """Where it stands in the store, if that is known yet."""
        at = self.handle
        return None if at is None else Place(at.core, at.segment_seq, at.bundle_index)

    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1."""
        return 1 if self.handle is None else self.handle.attempt

    @property
    def ingestion_ns(self) -> int | None:
        """When the store took it, if that is known yet."""
        return None if self.handle is None else self.handle.ingestion_ns
