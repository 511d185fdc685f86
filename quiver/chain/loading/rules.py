"""How a loader goes about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quiver.errors import CapacityError, InputError, StorageError

__all__ = ["AHEAD", "AWAY", "REFUSALS_MAX", "LoaderRules"]

AHEAD: Final = 0.9
"""At so much of the soft limit room is made for the next block."""
REFUSALS_MAX: Final = 5
"""So often in a row a node refuses what it is sent, and it is given up."""
AWAY: Final = (StorageError, CapacityError)
"""What metadata in a folder say when its disk refuses for a while; it is tried again."""


@dataclass(frozen=True, slots=True)
class LoaderRules:
    """How a loader goes about it."""

    rf: int = 2
    """Of a partition that it makes; one that is there keeps its own."""
    is_rising: bool = True
    """Times are given by the loader, each later than the one before; False: by the caller."""
    takes_over: bool = False
    """Take the partition from whoever writes it."""
    soft_bytes: int = 100_000_000
    hard_bytes: int = 400_000_000
    """A block that has so much takes nothing more, while its end cannot be put: the metadata are
    away."""
    window_bytes: int = 16 << 20
    """So much is under way at once: a sync, and what comes meanwhile, on each node of a chain."""
    buffer_bytes: int = 64 << 20
    """So much is kept before whoever sends has to wait."""

    def __post_init__(self) -> None:
        """Check the sizes; raises InputError."""
        if min(self.soft_bytes, self.window_bytes, self.buffer_bytes) <= 0:
            raise InputError("sizes of a loader are positive")
        if self.hard_bytes < self.soft_bytes:
            raise InputError(f"hard_bytes is {self.hard_bytes:,}, below soft_bytes")
