"""What there is to read of one slot: from where, up to where, and which segments lie between.

Positions are by core. Whoever reads on keeps those of all cores that it ever saw: one that is not
among them is new and begins at its first bundle, one whose folder is gone stays where it is.
Segments of a core bear its numbers without a hole, so what was deleted before it was read is
noticed as numbers that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from quiver.clock import Clock
from quiver.disk import Disk
from quiver.engine.start import Start, find_start, parse_start
from quiver.errors import MissingError, SourceError
from quiver.scan import SegmentRef, SlotPart
from quiver.scan.snapshot import SlotLookup
from quiver.segment import Catalog
from quiver.source.stores.admission import Limits, admit
from quiver.source.stores.bundles import Span
from quiver.source.stores.listing import CoreSegments, Entry, Listing
from quiver.source.stores.position import START, Position, split_id

__all__ = ["Backlog", "Planner", "Positions"]

Positions: TypeAlias = Mapping[int, Position]
"""The next bundle of each core."""


class Backlog(NamedTuple):
    """How much is finalized and not given out yet, as files."""

    segments: int
    byte_count: int


class Planner:
    """Plans the reading of one slot. One thread at a time.

    What was learned of a segment is kept until ``forget``. With ``fail_on_loss`` it is an error if
    segments went before they were read; otherwise what is left is given, and ``on_loss`` is told.
    """

    def __init__(
        self,
        disk: Disk,
        slot_id: int,
        *,
        clock: Clock,
        needed: Callable[[str], bool] = lambda _: True,
        fail_on_loss: bool = True,
        on_loss: Callable[[SourceError], object] = lambda _: None,
    ) -> None:
        """Plan over the store in ``disk``; nothing is read yet."""
        self._disk = disk
        self._listing = Listing(disk, clock)
        self._lookup = SlotLookup(slot_id, needed)
        self._parts: dict[SegmentRef, SlotPart] = {}
        self._fail_on_loss, self._on_loss = fail_on_loss, on_loss
        self._with_floor: set[int] = set()

    # where ---------------------------------------------------------------------------------------

    def start(self, start: Start | Mapping[int, int]) -> dict[int, Position]:
        """Find where each core begins for who starts now; the words are those of ``subscribe``.

        Numbers may be given by core: one that is not named has all that is still there.
        """
        by_core = start if isinstance(start, Mapping) else None
        of_all = parse_start(start) if not isinstance(start, Mapping) else "earliest"
        found = {}
        for core, listed in self._listing.look().items():
            wanted = of_all if by_core is None else by_core.get(core, of_all)
            segments = self._listing.with_floor(listed)
            if isinstance(wanted, int):  # A core that is not that far begins with what comes next.
                found[core] = Position(min(wanted, segments.next_seq))
            elif wanted == "earliest":
                first = segments.entries[0].ref.segment_seq if segments.entries else None
                found[core] = Position(segments.next_seq if first is None else first)
            else:
                catalog = Catalog()
                if wanted != "latest":
                    catalog, _ = Catalog.load(self._disk, f"{split_id(core)}/segments")
                found[core] = find_start(
                    wanted, catalog, self._disk, next_segment_seq=segments.next_seq
                )
        return found

    def newest(self, start: Positions) -> dict[int, Position]:
        """Give the end of everything that is finalized, and nothing below ``start``."""
        found = dict(start)
        for core, segments in self._listing.look().items():
            entries = segments.entries
            newest = Position(entries[-1].ref.segment_seq + 1 if entries else 0)
            found[core] = max(start.get(core, START), newest)
        return found

    def backlog(self, start: Positions) -> Backlog:
        """Count what is finalized behind ``start``."""
        behind = [
            entry.ref.file_bytes
            for core, segments in self._listing.look().items()
            for entry in segments.within(start.get(core, START).segment_seq)
        ]
        return Backlog(len(behind), sum(behind))

    # how much ------------------------------------------------------------------------------------

    def latest(
        self, start: Positions, limits: Limits | None = None, *, upto: Positions | None = None
    ) -> dict[int, Position]:
        """Give the end of what comes next: all there is, or as much as ``limits`` let pass.

        With ``upto`` nothing behind it. Equal to ``start`` if there is nothing new. Raises
        SourceError if segments are gone before they were read.
        """
        end, begin, pending = dict(start), {}, {}
        looked = self._listing.look()
        for core, listed in looked.items():
            begin[core] = self._checked(listed, start.get(core, START))
            stop = None if upto is None else upto.get(core, START).segment_seq
            pending[core] = listed.within(begin[core].segment_seq, stop)
            end.setdefault(core, START)
        self._check_vanished(start)
        for core, count in admit(pending, limits or Limits(), self._size).items():
            if count:
                end[core] = Position(pending[core][count - 1].ref.segment_seq + 1)
                self._check_whole(looked[core], begin[core], end[core])
        return end

    def _size(self, entry: Entry) -> int:
        part = self.part(entry.ref)
        return 0 if part is None else part.byte_count

    # what ----------------------------------------------------------------------------------------

    def between(self, start: Positions, end: Positions) -> Iterator[Span]:
        """Give what is to be read from ``start`` to ``end``, by core and then in order.

        A core whose end is below its start began anew: all up to that end is new. Raises
        SourceError if a segment of it is gone.
        """
        looked = self._listing.look()
        for core in sorted(end):
            first, stop = start.get(core, START), end[core]
            if first == stop:
                continue
            first = first if first < stop else START
            segments = looked.get(core) or CoreSegments(core)
            self._check_whole(segments, first, stop)
            for entry in segments.within(first.segment_seq, stop.segment_seq + 1):
                seq = entry.ref.segment_seq
                begin = first.bundle_index if seq == first.segment_seq else 0
                until = stop.bundle_index if seq == stop.segment_seq else None
                if until != 0:
                    yield Span(entry.ref, begin, until)

    def following(self, core: int, position: Position) -> Span | None:
        """Give what is left of the segment at a position of one core, or the next; None: nothing.

        Raises SourceError if segments before that are gone.
        """
        segments = self._listing.look().get(core)
        if segments is None:
            self._check_vanished({core: position})
            return None
        position = self._checked(segments, position)
        entries = segments.within(position.segment_seq)
        if not entries:
            return None
        seq = entries[0].ref.segment_seq
        if seq > position.segment_seq:
            self._lose(core, position.segment_seq, seq)
        return Span(entries[0].ref, position.bundle_index if seq == position.segment_seq else 0)

    def part(self, segment: SegmentRef) -> SlotPart | None:
        """Say what a segment holds of the slot; None if it is gone and that is no error."""
        part = self._parts.get(segment)
        if part is None:
            try:
                part = self._parts[segment] = self._lookup.part(self._disk, segment)
            except MissingError as error:
                self._lose(segment.core, segment.segment_seq, segment.segment_seq + 1, cause=error)
        return part

    def forget(self, before: Positions) -> None:
        """Know no more of what is before these positions."""
        gone = [ref for ref in self._parts if ref < _mark(ref, before)]
        for ref in gone:
            del self._parts[ref]

    # what is gone --------------------------------------------------------------------------------

    def _checked(self, segments: CoreSegments, position: Position) -> Position:
        """See whether nothing is left of what follows a position; gives where to go on."""
        core, seq = segments.core, position.segment_seq
        is_usual = segments.next_seq >= seq and segments.entries and core in self._with_floor
        if segments.within(seq) or is_usual:
            return position
        segments = self._listing.with_floor(segments)
        self._with_floor.add(core)
        if segments.within(seq) or segments.floor is None:
            return position
        if segments.next_seq > seq:
            self._lose(core, seq, segments.next_seq)
        elif segments.next_seq < seq and segments.entries:
            self._began_anew(core, position, segments.next_seq)
            return START
        return position

    def _check_whole(self, segments: CoreSegments, first: Position, stop: Position) -> None:
        """See whether all numbers between two positions are there."""
        last = stop.segment_seq + (stop.bundle_index > 0)
        found = [e.ref.segment_seq for e in segments.within(first.segment_seq, last)]
        if len(found) == last - first.segment_seq:
            return
        at = first.segment_seq
        for seq in (*found, last):
            if seq > at:
                self._lose(segments.core, at, seq)
            at = seq + 1

    def _check_vanished(self, start: Positions) -> None:
        for core, segments in self._listing.vanished.items():
            first = start.get(core, START).segment_seq
            if segments.within(first):
                self._lose(core, first, segments.next_seq)
        self._listing.vanished.clear()

    def _lose(self, core: int, first: int, stop: int, *, cause: Exception | None = None) -> None:
        many = stop - first > 1
        named = f"segments {first} to {stop - 1}" if many else f"segment {first}"
        error = SourceError(
            f"{named} of core {core} {'are' if many else 'is'} gone and {'were' if many else 'was'}"
            " not read yet",
            split=split_id(core),
            hint="read as a subscriber, which keeps data from being deleted; or go on with what is "
            "left: failOnDataLoss=false",
        )
        self._tell(error, cause)

    def _began_anew(self, core: int, position: Position, next_seq: int) -> None:
        error = SourceError(
            f"core {core} is at segment {next_seq} and was read up to {position.segment_seq}: it "
            "is another one",
            split=split_id(core),
            hint="its folder was removed and made anew, or is from a backup: begin with new states",
        )
        self._tell(error, None)

    def _tell(self, error: SourceError, cause: Exception | None) -> None:
        if self._fail_on_loss:
            raise error from cause
        self._on_loss(error)


def _mark(ref: SegmentRef, before: Positions) -> SegmentRef:
    seq = before.get(ref.core, START).segment_seq
    return SegmentRef(ref.core, seq, "", 0)
