"""Ranges of segments: ``12`` is that segment of every core, ``core_0:12,core_1:3`` one of each.

A range is half-open: it starts with the segment that ``startingSegment`` names and ends before that
of ``endingSegment``. A core that is not named counts as named with 0: all of it has started, and it
ends before anything of it. So the end of one range is the start of the next, and together they have
each segment once, new cores too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quiver.errors import ConfigError, MissingError
from quiver.scan import SegmentRef

__all__ = ["Marks", "choose_segments", "parse_marks"]

Marks = int | Mapping[int, int]
"""A number for all cores, or one by core."""

_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_NAMED: Final = re.compile(r"core_(0|[1-9][0-9]{0,8}):([0-9]{1,19})")


def parse_marks(name: str, value: str) -> Marks:
    """Read a place in the store; raises ConfigError."""
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return int(text)
    found: dict[int, int] = {}
    for part in text.split(","):
        match = _NAMED.fullmatch(part.strip())
        if match is None or int(match[1]) in found:
            raise ConfigError(
                f"{name}: {value!r} is no place in a store",
                hint="a segment number for all cores, such as 12, or core_0:12,core_1:3",
            )
        found[int(match[1])] = int(match[2])
    return found


def choose_segments(
    segments: Sequence[SegmentRef], start: Marks | None, end: Marks | None, *, strict: bool
) -> list[SegmentRef]:
    """Choose the segments of a range.

    With ``strict`` raises MissingError where the range starts with segments that are there no more,
    or others are missing in it.
    """
    chosen = [
        ref
        for ref in segments
        if (start is None or _mark(start, ref.core) <= ref.segment_seq)
        and (end is None or ref.segment_seq < _mark(end, ref.core))
    ]
    if strict and start is not None:
        _check_whole(chosen, start)
    return chosen


def _check_whole(chosen: Iterable[SegmentRef], start: Marks) -> None:
    expected: dict[int, int] = {}
    for ref in sorted(chosen):
        wanted = expected.get(ref.core, _mark(start, ref.core))
        if wanted and ref.segment_seq != wanted:  # 0 is the first that is there.
            _refuse(ref.core, wanted, ref.segment_seq - 1)
        expected[ref.core] = ref.segment_seq + 1


def _refuse(core: int, first: int, last: int) -> None:
    which = f"segment {first}" if first == last else f"segments {first} to {last}"
    raise MissingError(
        f"{which} of core_{core}, which startingSegment includes, are there no more",
        hint="what everybody has acked is deleted: start later, or set failOnDataLoss to false to "
        "read what is there",
    )


def _mark(marks: Marks, core: int) -> int:
    return marks if isinstance(marks, int) else marks.get(core, 0)
