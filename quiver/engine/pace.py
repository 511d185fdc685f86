"""Whether dictionaries are united while bundles come as fast as they do.

To unite them costs several times as much as to write the bytes: one thread does some 300 MB in a
second, and fewer of small payloads. Whoever reads them once saves a sixth of that. Where more than
some 20 MB come in a second the program around the store feels it, and where far more do appends
wait for it; so a segment that was filled that fast keeps its streams as they came.
"""

from __future__ import annotations

from typing import Final

from quiver.config import SegmentConfig
from quiver.segment import OpenSegment

__all__ = ["Pace", "work_of"]

_EACH: Final = 16 << 10
"""Bytes that take as long to unite as it takes to begin with one more payload."""
_USUAL: Final = 3.0
"""Nanoseconds that such a byte usually takes, until it is known."""
_WORST: Final = 16.0
"""More than that is the disk's doing."""
_SHARE: Final = 20
"""Part of the time in which a segment fills that may go into uniting it, on one processor."""
_PAUSE: Final = 4
"""So many times longer one behind a fast segment may take: somebody, or the disk, stood still."""
_LITTLE: Final = 1 << 20
"""Of less nobody can say how fast it comes."""
_SMALL: Final = 8 << 20
"""Whatever is below that is united in no time."""
_MEMORY: Final = 8


def work_of(content: OpenSegment) -> int:
    """Say how much there is to unite: bytes, and as many for each payload as it costs."""
    return content.payload_bytes + _EACH * content.payload_count


class Pace:
    """How long it takes to unite, and what follows. Not safe for several threads at once."""

    def __init__(self, config: SegmentConfig) -> None:
        """Start from what is usual."""
        self._how = config.dictionaries
        self._unite_ns = _USUAL
        self._fast_work = 0
        """Of the segment before, if it came fast."""
        self.hurried = config.dictionaries == "keep"
        """What ``hurries`` said last."""

    def hurries(self, work: int, filled_ns: int) -> bool:
        """Whether so much work came too fast, in that time, to be done as fast."""
        if self._how != "auto":
            return self._how == "keep"
        most_ns = self._unite_ns * _SHARE * max(work, self._fast_work * _PAUSE)
        found = work >= _LITTLE and most_ns > filled_ns
        self.hurried = found
        return found

    def keeps(self, work: int, filled_ns: int) -> bool:
        """Whether a segment of so much work keeps its streams as they came; asked once for each.

        One behind a fast one does unless it took much longer: bundles come as fast as before then,
        and to unite it beside them would take memory for another segment.
        """
        if self._how != "auto":
            return self._how == "keep"
        kept = work >= _SMALL and self.hurries(work, filled_ns)
        is_fast = kept and self._unite_ns * _SHARE * work > filled_ns
        self._fast_work = work if is_fast else 0
        if kept:  # One that took very long is forgotten by and by.
            self._unite_ns += (_USUAL - self._unite_ns) / _MEMORY
        return kept

    def note(self, work: int, took_ns: int) -> None:
        """Learn how long a united segment took."""
        if work >= _SMALL:
            self._unite_ns = min(took_ns / work, _WORST)
