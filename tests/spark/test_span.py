"""Ranges of segments: one number for all cores or one each, half-open, and what is lost in them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from quiver.errors import ConfigError, MissingError
from quiver.scan import SegmentRef
from quiver.spark.span import choose_segments, parse_marks

STORE = [
    SegmentRef(core, seq, f"core_{core}/{seq}", 1)
    for core, first, end in ((0, 3, 6), (1, 0, 2))
    for seq in range(first, end)
]


def _chosen(start: str | None, end: str | None, *, strict: bool = True) -> list[tuple[int, int]]:
    marks = [
        None if text is None else parse_marks("startingSegment", text) for text in (start, end)
    ]
    return [(ref.core, ref.segment_seq) for ref in choose_segments(STORE, *marks, strict=strict)]


def test_a_number_is_for_all_cores_and_the_end_is_not_read() -> None:
    assert _chosen(None, "4") == [(0, 3), (1, 0), (1, 1)]
    assert _chosen("4", None) == [(0, 4), (0, 5)]
    assert _chosen("4", "5") == [(0, 4)]


def test_a_core_that_is_not_named_is_at_its_beginning() -> None:
    assert _chosen("core_0:5", None) == [(0, 5), (1, 0), (1, 1)]
    assert _chosen(None, "core_0:4") == [(0, 3)]


def test_ranges_that_follow_each_other_have_each_segment_once() -> None:
    marks = [None, "core_0:4", "core_0:5, core_1:1", None]
    found = [pair for start, end in pairwise(marks) for pair in _chosen(start, end)]
    assert sorted(found) == [(ref.core, ref.segment_seq) for ref in STORE]


def test_a_start_that_is_there_no_more_is_a_loss_unless_that_is_allowed() -> None:
    with pytest.raises(MissingError, match=r"segments 1 to 2 of core_0, .* failOnDataLoss"):
        _chosen("core_0:1", None)
    assert _chosen("core_0:1", None, strict=False)[0] == (0, 3)
    assert _chosen("0", None)[0] == (0, 3)  # From the first that is there.


def test_a_segment_missing_in_the_range_is_a_loss_too() -> None:
    with_hole = [ref for ref in STORE if ref.segment_seq != 4]
    with pytest.raises(MissingError, match="segment 4 of core_0"):
        choose_segments(with_hole, 3, None, strict=True)


@pytest.mark.parametrize("text", ["", "x", "-1", "core_0", "core_0:1,core_0:2", "core_01:1", "1.5"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"endingSegment: .* is no place"):
        parse_marks("endingSegment", text)
