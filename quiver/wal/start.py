"""Where a replay may start: the furthest place before which segments hold every entry.

Places are hints and never believed alone. What decides is the entry there: its sequence tells
whether all before it can be in segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from quiver.disk import File
from quiver.wal.format import BUNDLE, CHECKPOINT, HEADER_BYTES, Place
from quiver.wal.reader import begin_of, first_entry

__all__ = ["Start"]


class Start(NamedTuple):
    """The files of a log in order, and what is known about them."""

    generations: Sequence[int]
    open: Callable[[int], AbstractContextManager[File | None]]
    """Gives the file of a generation, for as long as it is looked at; None if it is gone."""
    covered: int | None
    """The highest sequence that segments hold; None if there are none."""
    limit: int

    def find(self, sidecar: Place | None, hint: Place | None) -> Place:
        """Take the furthest place before which every entry is known to be in a segment.

        The beginning of each file is tried as well: its checkpoint, or first bundle, tells. The
        sidecar is tried if a hole ends there: what it names otherwise, the newest segment names
        too, and an invented place may be inside of an entry whose payload looks like entries.
        """
        places = {Place(generation, HEADER_BYTES) for generation in self.generations}
        if hint is not None:
            places.add(hint)
        if sidecar is not None and self._ends_a_hole(sidecar):
            places.add(sidecar)
        for place in sorted(places, reverse=True):
            if self._is_covered_before(place):
                return place
        return Place(0, HEADER_BYTES)

    def _ends_a_hole(self, place: Place) -> bool:
        if place.generation not in self.generations:
            return False
        with self.open(place.generation) as file:
            return file is not None and begin_of(file, place.generation, place) == place.offset

    def _is_covered_before(self, place: Place) -> bool:
        if self.covered is None or place.generation not in self.generations:
            return False
        with self.open(place.generation) as file:
            frame = None if file is None else first_entry(file, place.offset, self.limit)
        if frame is None or frame.entry_type not in (BUNDLE, CHECKPOINT):
            return False
        last_before = frame.wal_seq - (frame.entry_type == BUNDLE)
        return last_before <= self.covered
