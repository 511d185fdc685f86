"""The time of the next bundle of a partition.

==========  ================================================================================
rule        a bundle gets
==========  ================================================================================
``clock``   what the wall clock says, which may go back
``writer``  what it says, but at least one nanosecond more than the bundle before
``caller``  the caller's own time, which is refused if it is below that of the bundle before
==========  ================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from quiver.config import TimeRule
from quiver.errors import CapacityError, InputError, OutOfSequenceError

__all__ = ["TIME_MAX", "Time", "Times", "TimesMark", "time_ns"]

Time: TypeAlias = int | datetime | str
"""Nanoseconds since 1970, a ``datetime`` (UTC if it has no zone), or a text in ISO 8601."""

TIME_MAX: Final = (1 << 63) - 1
"""The last nanosecond that a bundle may bear, in the year 2262."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HINT: Final = "nanoseconds since 1970, a datetime, or ISO 8601 such as 2026-01-31T12:00Z"


def time_ns(given: Time, name: str = "time") -> int:
    """Read a time as nanoseconds since 1970; raises InputError."""
    found: object = given
    if isinstance(given, str):
        try:
            found = datetime.fromisoformat(given)
        except ValueError as error:
            raise InputError(f"{name}: {given!r} is no time", hint=_HINT) from error
    if isinstance(found, datetime):
        known = found if found.tzinfo else found.replace(tzinfo=UTC)
        found = (known - _EPOCH) // _MICROSECOND * 1000
    if isinstance(found, bool) or not isinstance(found, int):
        raise InputError(f"{name}: {given!r} is no time", hint=_HINT)
    if not 0 <= found <= TIME_MAX:
        raise InputError(f"{name}: {given!r} is not between 1970 and 2262", hint=_HINT)
    return found


class TimesMark(NamedTuple):
    """How the times were at some moment, to come back to."""

    least_ns: int
    last_ns: int | None


@dataclass(slots=True)
class Times:
    """How the times of one partition go on."""

    rule: TimeRule
    partition: int
    least_ns: int = 0
    """The least time that the next bundle may have."""
    last_ns: int | None = None
    """The greatest time so far; None if nothing is known of one."""

    def stamp(self, now_ns: int, given_ns: int | None) -> int:
        """Give the time of the next bundle; ``took`` counts it once it is in.

        Raises InputError if the caller should have given a time and did not, or the other way
        round, OutOfSequenceError for one that is too low, CapacityError behind the last time.
        """
        if self.rule == "caller":
            return self._checked(given_ns)
        if given_ns is not None:
            raise InputError(
                f"time: partition {self.partition} takes its times from the clock",
                hint="open the store with segment.time 'caller' to give them",
            )
        if self.rule == "clock":
            return max(now_ns, 0)
        found = max(now_ns, self.least_ns)
        if found > TIME_MAX:
            error = CapacityError(
                f"the times of partition {self.partition} are used up: the last is {self.last_ns}",
                hint="append to another core, or with segment.time 'clock'",
            )
            error.retryable = False
            raise error
        return found

    def _checked(self, given_ns: int | None) -> int:
        if given_ns is None:
            raise InputError(
                f"partition {self.partition} takes the caller's times, and none was given",
                hint="append(bundle, time=...), or open the store with segment.time 'writer'",
            )
        if given_ns < self.least_ns:
            last_ns = self.least_ns if self.last_ns is None else max(self.last_ns, self.least_ns)
            raise OutOfSequenceError(
                f"partition {self.partition} is at {last_ns} already, and {given_ns} was given",
                partition=self.partition,
                last=last_ns,
                given=given_ns,
                hint="times of a partition never fall: use a partition of its own for late data",
            )
        return given_ns

    def took(self, time_ns: int) -> None:
        """Count a bundle of this time, which may be any that there was before."""
        self.last_ns = time_ns if self.last_ns is None else max(self.last_ns, time_ns)
        self.least_ns = max(self.least_ns, time_ns + (self.rule == "writer"))

    def mark(self) -> TimesMark:
        """Note how it is now."""
        return TimesMark(self.least_ns, self.last_ns)

    def back_to(self, mark: TimesMark) -> None:
        """Let what came since count no more: nobody has it."""
        self.least_ns, self.last_ns = mark

    def promise(self, through_ns: int) -> None:
        """Let nothing come any more of this time or before; the last time there is stays free."""
        self.least_ns = max(self.least_ns, min(through_ns, TIME_MAX - 1) + 1)
