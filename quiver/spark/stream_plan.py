"""Share what a micro-batch reads out into tasks, at little cost however many segments that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from quiver.scan import SegmentRef, SlotPart
from quiver.source.stores import Span
from quiver.spark.partitions import Shares

__all__ = ["EXACT_MAX", "Weighed", "share_out", "weigh"]

EXACT_MAX: Final = 1000
"""Of more segments not each is looked at: their files tell enough."""
_SAMPLES: Final = 256


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
    """Pack spans into partitions of about ``bytes_max`` at most, in order, all about equally large.

    Their number is a multiple of ``count_min``, unless they would be tiny: a core that has one more
    to read than the others is waited for. A bundle is never cut.
    """
    sizes = [max(1, one.byte_count) for one in weighed]
    shares = Shares(sum(sizes), bytes_max=bytes_max, count_min=count_min)
    partitions: list[list[Span]] = [[] for _ in range(shares.count)]
    start = 0
    for one, size in zip(weighed, sizes, strict=True):
        for owner, span in _cut(one, start, start + size, shares=shares):
            partitions[owner].append(span)
        start += size
    return [tuple(partition) for partition in partitions if partition]


def _cut(one: Weighed, start: int, end: int, *, shares: Shares) -> Iterator[tuple[int, Span]]:
    """Cut a span that lies at ``[start, end)`` of all bytes where shares end; with whose it is."""
    span, only = one.span, shares.only_owner(start, end)
    if only is not None or one.bundle_count is None:
        yield shares.owner((start + end) / 2) if only is None else only, span
        return
    stop = one.bundle_count if span.stop is None else min(span.stop, one.bundle_count)
    owners = shares.owners(start, end, stop - span.first)
    for owner, own in groupby(
        range(span.first, stop), key=lambda place: owners[place - span.first]
    ):
        places = list(own)
        yield owner, replace(span, first=places[0], stop=places[-1] + 1)
