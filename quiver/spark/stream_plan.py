"""Share what a micro-batch reads out into tasks, at little cost however many segments that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from quiver.scan import SegmentRef, SlotPart
from quiver.source.stores import Span

__all__ = ["EXACT_MAX", "Weighed", "share_out", "weigh"]

EXACT_MAX: Final = 1000
"""Of more segments not each is looked at: their files tell enough."""
_SAMPLES: Final = 256
_BYTES_MIN: Final = 4 << 20
"""Smaller partitions take longer to start than to read."""


class Weighed(NamedTuple):
    """What is to be read of a segment, and about how many bytes of the slot that is."""

    span: Span
    byte_count: int
    bundle_count: int | None = None
    """How many bundles the segment has, if it is known: then it may be cut."""


def weigh(spans: Sequence[Span], look: Callable[[SegmentRef], SlotPart | None]) -> list[Weighed]:
    """Find out how large spans are; those without rows of the slot, and those gone, are left out.

    Of very many segments a sample is looked at, and tells how much of a file is the slot's.
    """
    if len(spans) <= EXACT_MAX:
        return list(_exact(spans, look))
    step = len(spans) // _SAMPLES
    known = list(_exact(spans[::step], look))
    total = sum(span.segment.file_bytes for span in spans[::step])
    share = sum(one.byte_count for one in known) / max(1, total)
    return [Weighed(span, int(span.segment.file_bytes * share)) for span in spans]


def _exact(
    spans: Iterable[Span], look: Callable[[SegmentRef], SlotPart | None]
) -> Iterator[Weighed]:
    for span in spans:
        part = look(span.segment)
        if part is None or not part.row_count:
            continue
        stop = part.bundle_count if span.stop is None else min(span.stop, part.bundle_count)
        rest = max(0, stop - span.first)
        yield Weighed(span, part.byte_count * rest // max(1, part.bundle_count), part.bundle_count)


def share_out(
    weighed: Sequence[Weighed], *, bytes_max: int, count_min: int
) -> list[tuple[Span, ...]]:
    """Pack spans into partitions of at most ``bytes_max`` each, in order.

    At least ``count_min`` of them, unless they would be tiny. A bundle is never cut.
    """
    total = sum(one.byte_count for one in weighed)
    target = min(bytes_max, max(_BYTES_MIN, -(-total // count_min)))
    partitions: list[tuple[Span, ...]] = []
    packed: list[Span] = []
    packed_bytes = 0
    for span, span_bytes in _pieces(weighed, target):
        if packed and packed_bytes + span_bytes > target:
            partitions.append(tuple(packed))
            packed, packed_bytes = [], 0
        packed.append(span)
        packed_bytes += span_bytes
    if packed:
        partitions.append(tuple(packed))
    return partitions


def _pieces(weighed: Iterable[Weighed], target: int) -> Iterator[tuple[Span, int]]:
    for span, byte_count, bundle_count in weighed:
        if bundle_count is None or byte_count <= target:
            yield span, byte_count
            continue
        stop = bundle_count if span.stop is None else min(span.stop, bundle_count)
        count = min(stop - span.first, -(-byte_count // target))
        bounds = [span.first + (stop - span.first) * n // count for n in range(count + 1)]
        for first, end in pairwise(bounds):
            yield replace(span, first=first, stop=end), byte_count // count
