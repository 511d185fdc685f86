"""What a feeder tells while it runs, and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quiver.errors import DamageError, QuiverError

__all__ = ["Appended", "FeedTally", "PassedBy", "Told", "Trouble"]


@dataclass(frozen=True, slots=True)
class Appended:
    """One epoch, durable in the collection, and its bundles acked."""

    epoch: int
    row_count: int
    """Rows that were taken: commands."""
    bundle_count: int
    change_count: int
    """Rows that came of them: those that are no more, and those that are new."""
    error_count: int
    """Of the commands that were left, how many are errors."""
    file_count: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class PassedBy:
    """A segment that cannot be opened was left behind."""

    error: DamageError


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something failed and is tried again."""

    error: QuiverError


Told: TypeAlias = Appended | PassedBy | Trouble


@dataclass(slots=True)
class FeedTally:
    """What a run has done so far."""

    epoch_count: int = 0
    row_count: int = 0
    bundle_count: int = 0
    change_count: int = 0
    error_count: int = 0
    file_bytes: int = 0
    repeated_count: int = 0
    """Bundles that came again and were in already."""
    passed_count: int = 0
    """Segments that could not be opened and were left behind."""
    is_begun: bool = False
    """Whether the collection had nothing of the slot of this store before."""
    is_held_up: bool = False
    """Whether bundles are left that wait for an earlier one which is to be tried again."""
    is_cut_short: bool = False
    """Whether it was told to stop."""

    def add(self, told: Appended) -> None:
        """Count an epoch."""
        self.epoch_count += 1
        self.row_count += told.row_count
        self.bundle_count += told.bundle_count
        self.change_count += told.change_count
        self.error_count += told.error_count
        self.file_bytes += told.file_bytes
