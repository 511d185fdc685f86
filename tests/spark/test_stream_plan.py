"""How a micro-batch is shared out into tasks."""

from __future__ import annotations

import pytest

from quiver.scan import SegmentRef
from quiver.source.stores import Span
from quiver.spark.stream_plan import EXACT_MAX, Weighed, share_out, weigh


def test_of_very_many_segments_a_sample_tells_how_large_they_are() -> None:
    class Part:
        row_count, byte_count, bundle_count = 1, 500, 10

    asked: list[SegmentRef] = []
    spans = [Span(SegmentRef(0, seq, "", 1000)) for seq in range(10_000)]
    found = weigh(spans, lambda segment: asked.append(segment) or Part())  # type: ignore[func-returns-value]
    assert len(asked) < EXACT_MAX
    assert {(one.byte_count, one.bundle_count) for one in found} == {(500, None)}
    assert [one.span for one in found] == spans


@pytest.mark.parametrize(("sizes", "count"), [([1 << 20] * 3, 1), ([8 << 20] * 4, 2)])
def test_small_segments_share_a_partition(sizes, count) -> None:
    weighed = [
        Weighed(Span(SegmentRef(0, seq, "", size)), size, 1) for seq, size in enumerate(sizes)
    ]
    shares = share_out(weighed, bytes_max=128 << 20, count_min=2)
    assert len(shares) == count
    assert [span for share in shares for span in share] == [one.span for one in weighed]


def test_a_large_segment_is_cut_between_bundles() -> None:
    whole = Weighed(Span(SegmentRef(0, 0, "", 1), 3, None), 40 << 20, 13)
    shares = share_out([whole], bytes_max=8 << 20, count_min=1)
    bounds = [(span.first, span.stop) for share in shares for span in share]
    assert bounds == [(3, 5), (5, 7), (7, 9), (9, 11), (11, 13)]


def test_shares_of_a_micro_batch_are_as_many_as_cores_and_even() -> None:
    sizes = [34 << 20, 34 << 20, 34 << 20, 20 << 20]
    weighed = [
        Weighed(Span(SegmentRef(0, seq, "", size)), size, size >> 20)
        for seq, size in enumerate(sizes)
    ]
    shares = share_out(weighed, bytes_max=128 << 20, count_min=2)
    read = [
        [
            (span.segment.segment_seq, bundle)
            for span in share
            for bundle in range(span.first, span.stop or sizes[span.segment.segment_seq] >> 20)
        ]
        for share in shares
    ]
    assert [len(share) for share in read] == [61, 61]
    assert [one for share in read for one in share] == [
        (seq, n) for seq, size in enumerate(sizes) for n in range(size >> 20)
    ]


def test_what_takes_hardly_a_byte_is_in_a_share_too() -> None:
    weighed = [Weighed(Span(SegmentRef(0, seq, "", 1), 3, 4), 0, 9) for seq in range(3)]
    shares = share_out(weighed, bytes_max=128 << 20, count_min=2)
    assert [span for share in shares for span in share] == [one.span for one in weighed]
