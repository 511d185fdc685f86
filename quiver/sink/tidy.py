"""Remove what nobody will commit any more: files that tasks of dead jobs have staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quiver.clock import Clock
from quiver.disk import Disk, remove
from quiver.engine.intake_journal import is_decided
from quiver.engine.numbers import STAGING, core_numbers
from quiver.units import SECOND

__all__ = ["GRACE", "Tidied", "tidy"]

GRACE: Final = 24 * 3600 * SECOND
"""For so long a job may be under way: what is younger is left alone."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What is staged in a store, and what of it was removed."""

    removed_count: int
    removed_bytes: int
    left_count: int
    left_bytes: int


def tidy(disk: Disk, *, clock: Clock, grace_ns: int = GRACE) -> Tidied:
    """Remove staged files that were written longer ago than ``grace_ns``.

    A job that is still under way finds its files gone and fails, with nothing taken in: so a clock
    that was set forward loses nothing.
    """
    before = clock.wall_ns() - grace_ns
    if any(is_decided(disk, number) for number in core_numbers(disk)):
        before = 0  # Should a decision be damaged, what was staged tells of which sinks it may be.
    removed = removed_bytes = left = left_bytes = 0
    for entry in [] if disk.stat(STAGING) is None else disk.list_dir(STAGING):
        if entry.is_file and entry.modified_ns < before:
            remove(disk, f"{STAGING}/{entry.name}")
            removed, removed_bytes = removed + 1, removed_bytes + entry.allocated
        else:
            left, left_bytes = left + 1, left_bytes + entry.allocated
    return Tidied(removed, removed_bytes, left, left_bytes)
