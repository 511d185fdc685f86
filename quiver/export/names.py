"""Exported files are named by what they hold, so that a name alone tells what is done.

::

    logs-0-0000000000000003.000017-0000000000000005.000002.parquet
    slot |       first bundle            last bundle       format
        core    segment.bundle         segment.bundle

Both ends are included. A file holds every row that the bundles in between have in its slot; they
follow each other without a gap, also from one segment to the next. Names sort as their rows do.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["Covered", "FileRange", "Place"]

Place: TypeAlias = tuple[int, int]
"""A bundle of a core: (segment_seq, bundle_index)."""

_NAME: Final = re.compile(
    r"(.+)-([0-9]+)-([0-9]{16})\.([0-9]{6,})-([0-9]{16})\.([0-9]{6,})\.(parquet|arrow|csv|ndjson)"
)


@dataclass(frozen=True, slots=True)
class FileRange:
    """What one file holds: a slot of all bundles from ``first`` to ``last``."""

    slot: str
    core: int
    first: Place
    last: Place

    def name(self, kind: str) -> str:
        """Name the file; ``kind`` is its format."""
        ends = "-".join(f"{seq:016}.{index:06}" for seq, index in (self.first, self.last))
        return f"{self.slot}-{self.core}-{ends}.{kind}"

    @classmethod
    def parse(cls, name: str) -> FileRange | None:
        """Read the name of a file; None if it is no export."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        core, *places = map(int, match.groups()[1:6])
        found = cls(match[1], core, (places[0], places[1]), (places[2], places[3]))
        return found if found.name(match[7]) == name and found.first <= found.last else None


class Covered:
    """Which bundles are in files already, by slot and core."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], list[tuple[Place, Place]]] = {}

    def add(self, found: FileRange) -> None:
        """Count in what a file holds; one range may lie across another."""
        runs = self._runs.setdefault((found.slot, found.core), [])
        first, last = found.first, found.last
        at = bisect_right(runs, first, key=lambda run: run[0])
        start = at - 1 if at and runs[at - 1][1] >= first else at
        end = start
        while end < len(runs) and runs[end][0] <= last:
            first, last = min(first, runs[end][0]), max(last, runs[end][1])
            end += 1
        del runs[start:end]
        insort(runs, (first, last))

    def has(self, slot: str, core: int, place: Place) -> bool:
        """Whether the rows that a bundle has in a slot are in a file."""
        runs = self._runs.get((slot, core), [])
        at = bisect_right(runs, place, key=lambda run: run[0])
        return at > 0 and place <= runs[at - 1][1]
