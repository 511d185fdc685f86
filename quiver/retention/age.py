"""How old segments are, by time that has really passed, whatever the wall clock says.

A wall clock may be stepped: to 1970 by a board without a battery, to 2099 by a typing error, back
an hour by a time server. So a segment is too old only if two agree: the wall clock, against the
ingestion time in the segment, and the **store clock**, which goes with the monotonic clock while
the store is open. What passed while it was closed is taken from the wall clock, with care:

==========================  ==========================================================
the wall clock went on by   the store clock
==========================  ==========================================================
nothing, or went back       stays
half of the limit, or less  goes on by as much
more                        goes on by as much once the wall clock has kept pace with the
                            monotonic one for an hour, or an eighth of the limit
any, from before 2020       stays: that clock was wrong
==========================  ==========================================================

Of segments the store clock is known by marks: at that time all segments below that number were
there. They are a 64th of the limit apart, so a segment goes that much too late at most, and never
too early.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quiver.units import SECOND

__all__ = ["Ages", "Mark", "Saved", "saved_from_times"]

_SPACING: Final = 64
"""How many marks there are in a limit."""
_SLACK: Final = 32
"""What part of the limit the store clock may lack: two marks."""
_TRUST_PART: Final = 2
_PROBATION_PART: Final = 8
_PROBATION_NS: Final = 3600 * SECOND
_STEP_NS: Final = 60 * SECOND
"""What the two clocks may drift apart between two looks; more is a step."""
_FIRST_WALL_NS: Final = 1_577_836_800 * SECOND
"""2020-01-01: no store is older, so a clock that says less is wrong."""
_LEAST_NS: Final = -(1 << 62)
_MOST_NS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Mark:
    """When the store clock said ``at_ns``, all segments below ``segment_seq`` were there."""

    segment_seq: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Saved:
    """What outlives a restart: both clocks at one moment, and the marks, oldest first."""

    store_ns: int
    wall_ns: int
    marks: tuple[Mark, ...] = ()


def saved_from_times(times: Sequence[tuple[int, int]], limit_ns: int) -> Saved:
    """Make it from segments alone: (segment_seq, latest ingestion time), in order of number.

    A time that is further from the one before than half of the limit, or before it, proves nothing.
    """
    at_ns, last, marks = 0, 0, list[Mark]()
    for segment_seq, wall_ns in times:
        if marks:
            at_ns += _credible(last, wall_ns, limit_ns)
        last = wall_ns
        marks.append(Mark(segment_seq + 1, at_ns))
    return Saved(at_ns, last, tuple(_spaced(marks, limit_ns)))


def _credible(before_ns: int, after_ns: int, limit_ns: int) -> int:
    passed = after_ns - before_ns
    is_credible = before_ns >= _FIRST_WALL_NS and 0 < passed <= limit_ns // _TRUST_PART
    return passed if is_credible else 0


def _spaced(marks: Iterable[Mark], limit_ns: int) -> list[Mark]:
    """Leave out marks that say little more than the next one: that says less, so it is safe."""
    kept: list[Mark] = []
    for mark in marks:
        if len(kept) > 1 and mark.at_ns - kept[-2].at_ns < limit_ns // _SPACING:
            kept[-1] = mark
        else:
            kept.append(mark)
    return kept


@dataclass(slots=True)
class Ages:
    """The store clock of one core while it is open, and what is known by it."""

    limit_ns: int
    saved: Saved
    """As it was last written down."""
    wall_ns: int
    monotonic_ns: int
    marks: list[Mark] = field(init=False)
    _old_count: int = field(init=False)
    """How many of the marks are from before this opening."""
    _began_ns: int = field(init=False)
    _began_mono: int = field(init=False)
    _offset: int = field(init=False)
    _gap_ns: int = field(init=False, default=0)
    """What the wall clock says passed before this opening, while that is not believed yet."""
    _gap_since: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Go on from what was saved."""
        self.marks = list(self.saved.marks)
        self._old_count = len(self.marks)
        self._began_ns = self.saved.store_ns
        self._began_mono = self.monotonic_ns
        self._offset = self.wall_ns - self.monotonic_ns
        self._judge(self.wall_ns, self.monotonic_ns)

    def now(self, monotonic_ns: int) -> int:
        """Give the time of the store clock."""
        return min(self._began_ns + monotonic_ns - self._began_mono, _MOST_NS)

    def observe(self, wall_ns: int, monotonic_ns: int) -> None:
        """Look at both clocks, as each tick does: one may have been stepped."""
        offset = wall_ns - monotonic_ns
        stepped = abs(offset - self._offset) > _STEP_NS
        self._offset = offset
        if not self._gap_ns:
            return
        if stepped:
            self._judge(wall_ns, monotonic_ns)
        elif monotonic_ns - self._gap_since >= self._probation_ns:
            self._believe()

    @property
    def _probation_ns(self) -> int:
        return min(_PROBATION_NS, self.limit_ns // _PROBATION_PART)

    def _judge(self, wall_ns: int, monotonic_ns: int) -> None:
        """Decide what to think of the time that passed before this opening."""
        passed = wall_ns - self.saved.wall_ns - (monotonic_ns - self._began_mono)
        known = self.saved.wall_ns >= _FIRST_WALL_NS
        self._gap_ns = max(passed, 0) if known else 0
        self._gap_since = monotonic_ns
        if self._gap_ns <= self.limit_ns // _TRUST_PART:
            self._believe()

    def _believe(self) -> None:
        """Make all that was there before this opening older by what passed before it."""
        for index in range(self._old_count):
            mark = self.marks[index]
            at_ns = max(mark.at_ns - self._gap_ns, _LEAST_NS)
            self.marks[index] = replace(mark, at_ns=at_ns)
        self._gap_ns = 0

    def note(self, next_segment_seq: int, monotonic_ns: int) -> bool:
        """Mark the segments that are there, if it is time; whether there is anything to save."""
        now = self.now(monotonic_ns)
        apart = self.limit_ns // _SPACING
        if next_segment_seq > (self.marks[-1].segment_seq if self.marks else 0) and (
            not self.marks or now - self.marks[-1].at_ns >= apart
        ):
            self._forget_ripe(monotonic_ns)
            self.marks.append(Mark(next_segment_seq, now))
            return True
        return now - self.saved.store_ns >= apart

    def _forget_ripe(self, monotonic_ns: int) -> None:
        """Of the marks that are old enough the last one says it all."""
        count = sum(1 for mark in self.marks if self._is_ripe(mark, monotonic_ns)) - 1
        if count > 0:
            del self.marks[:count]
            self._old_count = max(self._old_count - count, 0)

    def _is_ripe(self, mark: Mark, monotonic_ns: int) -> bool:
        least = self.limit_ns - self.limit_ns // _SLACK
        return self.now(monotonic_ns) - mark.at_ns >= least

    def ripe_below(self, monotonic_ns: int) -> int:
        """Give the number below which all segments are old enough by the store clock."""
        ripe = [m.segment_seq for m in self.marks if self._is_ripe(m, monotonic_ns)]
        return max(ripe, default=0)

    def to_save(self, wall_ns: int, monotonic_ns: int) -> Saved:
        """Give what must outlive a restart."""
        return Saved(self.now(monotonic_ns), wall_ns, tuple(self.marks))
