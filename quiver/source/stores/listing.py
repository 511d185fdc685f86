"""Which segments each core has, looked up so often that it has to cost next to nothing.

A folder is listed again only if its time of change is another one, or so young that a change since
the last look may not show in it. A name is given out once the folder was synced: otherwise a power
cut could take a segment away that somebody has read, and the next one of its number would hold
other bundles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from quiver.acks.floor import read_floor
from quiver.clock import Clock
from quiver.disk import Disk
from quiver.engine.numbers import core_folder, core_numbers
from quiver.errors import MissingError
from quiver.scan import SegmentRef
from quiver.segment import parse_segment_name
from quiver.units import SECOND

__all__ = ["CoreSegments", "Entry", "Listing"]

_FRESH_NS: Final = SECOND
"""So long after a change a folder may change again without another time."""


class Entry(NamedTuple):
    """One segment, and when its file was written as far as the system knows."""

    ref: SegmentRef
    modified_ns: int


class CoreSegments:
    """The segments of one core at one moment, by number; immutable.

    ``floor``: all numbers below it are used up; None if that was not looked up, or damage may hide
    a higher one.
    """

    def __init__(
        self, core: int, entries: Sequence[Entry] = (), *, floor: int | None = None
    ) -> None:
        """Take ``entries`` in order of their numbers."""
        self.core, self.floor = core, floor
        self.entries = tuple(entries)
        self._seqs = [entry.ref.segment_seq for entry in self.entries]

    @property
    def next_seq(self) -> int:
        """The lowest number that nothing here says is used up."""
        newest = self._seqs[-1] + 1 if self._seqs else 0
        return max(newest, self.floor or 0)

    def within(self, first: int, stop: int | None = None) -> Sequence[Entry]:
        """Give the segments whose numbers are in ``[first, stop)``."""
        end = len(self._seqs) if stop is None else bisect_left(self._seqs, stop)
        return self.entries[bisect_left(self._seqs, first) : end]


def _seq(entry: Entry) -> int:
    return entry.ref.segment_seq


class _Look(NamedTuple):
    modified_ns: int
    at_ns: int
    segments: CoreSegments
    has_floor: bool


class Listing:
    """The cores of a store and their segments, looked up again at each ``look``."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        """Look at the store in ``disk``; nothing is read yet."""
        self._disk, self._clock = disk, clock
        self._looks: dict[int, _Look] = {}
        self.vanished: dict[int, CoreSegments] = {}
        """Cores whose folder went while this was looking, as they were last seen."""

    def look(self) -> Mapping[int, CoreSegments]:
        """Give the cores that are there now, ascending. Raises StorageError."""
        numbers = core_numbers(self._disk)
        for number in self._looks.keys() - set(numbers):
            self.vanished[number] = self._looks.pop(number).segments
        found = {}
        for number in numbers:
            segments = self._core(number)
            if segments is not None:
                found[number] = segments
                self.vanished.pop(number, None)
        return found

    def with_floor(self, segments: CoreSegments) -> CoreSegments:
        """Look up the floor as well, once for each state of the folder."""
        look = self._looks.get(segments.core)
        if look is None or look.has_floor:
            return segments if look is None else look.segments
        # In this order: each number below the floor is then in the listing, or its segment is gone.
        floor, doubt = read_floor(self._disk, f"{core_folder(segments.core)}/acks")
        known = None if doubt is not None else floor.next_segment_seq
        found = self._core(segments.core, floor=known, again=True)
        return segments if found is None else found

    def _core(
        self, number: int, *, floor: int | None = None, again: bool = False
    ) -> CoreSegments | None:
        folder = f"{core_folder(number)}/segments"
        now_ns = self._clock.wall_ns()
        stat = self._disk.stat(folder)
        if stat is None:
            return None  # It is about to be made.
        last = self._looks.get(number)
        # Neither a change within the same tick of the clock, nor one set back, is missed.
        if (
            last is not None
            and not again
            and stat.modified_ns == last.modified_ns
            and 0 < stat.modified_ns < last.at_ns - _FRESH_NS
        ):
            return last.segments
        known = () if last is None else last.segments.entries
        try:
            entries, is_all = self._settled(number, folder, known)
        except MissingError:
            return None
        if last is not None and is_all and not again and entries == known:
            is_same = stat.modified_ns == last.modified_ns
            # Otherwise something came and went, and the floor may be another one.
            has_floor = last.has_floor and is_same
            self._looks[number] = _Look(stat.modified_ns, now_ns, last.segments, has_floor)
            return last.segments
        if not set(entries) <= set(known):
            self._disk.sync_dir(folder)
        segments = CoreSegments(number, entries, floor=floor)
        self._looks[number] = _Look(stat.modified_ns if is_all else 0, now_ns, segments, again)
        return segments

    def _settled(
        self, number: int, folder: str, known: Sequence[Entry]
    ) -> tuple[tuple[Entry, ...], bool]:
        """List a folder without holes that are none; gives also whether that is all of it.

        A listing may miss a name that is given meanwhile and still have the next one. Names are
        given in order, so up to the highest that was seen a second listing has them all.
        """
        found = self._entries(number, folder)
        first = _seq(known[-1]) + 1 if known else 0
        new = [seq for seq in map(_seq, found) if seq >= first]
        if new == list(range(first, first + len(new))):
            return found, True
        again = self._entries(number, folder)
        upto = tuple(entry for entry in again if _seq(entry) <= new[-1])
        return upto, len(upto) == len(again)

    def _entries(self, number: int, folder: str) -> tuple[Entry, ...]:
        found = []
        for stat in self._disk.list_dir(folder):
            segment_seq = parse_segment_name(stat.name)
            if stat.is_file and segment_seq is not None:
                ref = SegmentRef(number, segment_seq, f"{folder}/{stat.name}", stat.size)
                found.append(Entry(ref, stat.modified_ns))
        return tuple(sorted(found))
