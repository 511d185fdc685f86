"""The blocks of time of one partition: its segments, found by time with few of their ends read.

::

    segment       0      1      2   |   3      4      5      6
    times       [5,9]  [3,7]  [8,9] | [10,14][15,15][20,31][32,40]
                 in any order: all  | ascending from here on: a bisection reads
                 ends are read      | the ends of as many as it looks at

What ascends is said by the file ``timeline`` of the core. A segment that is gone where a
bisection looks is as if it had never been listed; who goes through them is told of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quiver.disk import Disk
from quiver.engine.numbers import core_folder
from quiver.engine.timekeeping import read_timeline
from quiver.errors import InputError, MissingError
from quiver.scan.snapshot import SegmentRef
from quiver.segment import read_info
from quiver.timeline import Saved

__all__ = ["Block", "Blocks", "is_ordered", "timely"]


def is_ordered(saved: Saved | None) -> bool:
    """Whether times of a core never fall from now on, as far as its writers say."""
    return saved is not None and saved.rule != "clock"


def timely(disk: Disk, segments: Iterable[SegmentRef], times: tuple[int, int]) -> list[SegmentRef]:
    """Leave out segments of which all bundles are before or behind a range, both ends included.

    Of cores whose times never fall, by a bisection; those of other cores all stay.
    """
    found: list[SegmentRef] = []
    for core, group in itertools.groupby(sorted(segments), lambda ref: ref.core):
        listed = list(group)
        saved = read_timeline(disk, core_folder(core))  # Behind the listing: it may change.
        if saved is not None and is_ordered(saved):
            listed = Blocks(disk, listed, saved.ordered_from).timely(*times)
        found += listed
    return found


class Block(NamedTuple):
    """One finished segment: all its bundles are of times from ``start_ns`` to ``end_ns``.

    Both are included, in nanoseconds since 1970.
    """

    start_ns: int
    end_ns: int
    partition: int
    segment_seq: int
    path: str
    """Relative to the store's folder."""
    bundle_count: int


def _gone(ref: SegmentRef, at_ns: int) -> Block:
    return Block(at_ns, at_ns, ref.core, ref.segment_seq, ref.path, 0)


class Blocks:
    """The blocks of one partition as they were listed. Not safe for several threads at once."""

    def __init__(self, disk: Disk, segments: Iterable[SegmentRef], ordered_from: int) -> None:
        """Know the segments of one core; those from number ``ordered_from`` on ascend in time."""
        self._disk = disk
        self._known: dict[int, Block | None] = {}
        ordered = sorted(segments)
        self._mixed = [ref for ref in ordered if ref.segment_seq < ordered_from]
        self._refs = [ref for ref in ordered if ref.segment_seq >= ordered_from]
        self.looked_up = 0
        """How many ends of files were read."""

    def know(self, before: Blocks) -> None:
        """Look up nothing again that was looked up for an earlier listing."""
        self._known.update(before._known)
        self.looked_up = before.looked_up

    def __len__(self) -> int:
        """How many segments were listed."""
        return len(self._mixed) + len(self._refs)

    def _block(self, ref: SegmentRef) -> Block | None:
        """Give what the end of a segment says; None if the segment is gone."""
        seq = ref.segment_seq
        if seq not in self._known:
            self._known[seq] = self._read(ref)
        return self._known[seq]

    def _read(self, ref: SegmentRef) -> Block | None:
        self.looked_up += 1
        try:
            info = read_info(self._disk, ref.path)
        except MissingError:
            return None
        if info.ingestion_ns_min is None or info.ingestion_ns_max is None:
            raise InputError(
                f"segment {ref.segment_seq} of partition {ref.core} does not say its times",
                hint="another program wrote it; quiver.scan reads it",
            )
        times = info.ingestion_ns_min, info.ingestion_ns_max
        return Block(*times, ref.core, ref.segment_seq, ref.path, info.bundle_count)

    def _place(self, time_ns: int, *, behind: bool) -> int:
        """Find the first of those that ascend that ends at a time or later; or begins later."""
        low, high = 0, len(self._refs)
        while low < high:
            middle = (low + high) // 2
            block = self._block(self._refs[middle])
            if block is None:
                del self._refs[middle]
                high -= 1
            elif (block.start_ns > time_ns) if behind else (block.end_ns >= time_ns):
                high = middle
            else:
                low = middle + 1
        return low

    def between(self, start_ns: int, end_ns: int) -> Iterator[Block]:
        """Give the blocks with times from ``start_ns`` to ``end_ns``, both included.

        By their starts, ascending; each is looked up when it is asked for. One that was deleted
        before that, and stood among those, comes with no bundles, one for a run: to open it tells.
        """
        mixed = [b for ref in self._mixed if (b := self._block(ref)) is not None]
        yield from sorted(b for b in mixed if b.end_ns >= start_ns and b.start_ns <= end_ns)
        place = self._place(start_ns, behind=False)
        before: Block | None = None
        for ref in self._refs[place:]:
            block = self._block(ref)
            if block is not None and block.start_ns > end_ns:
                return
            if block is not None or before is None or before.bundle_count:
                before = block or _gone(ref, before.end_ns if before else start_ns)
                yield before

    def between_backwards(self, start_ns: int, end_ns: int) -> Iterator[Block]:
        """Give the same blocks by their ends, descending."""
        place = self._place(end_ns, behind=True)
        before: Block | None = None
        for ref in reversed(self._refs[:place]):
            block = self._block(ref)
            if block is not None and block.end_ns < start_ns:
                return
            if block is not None or before is None or before.bundle_count:
                before = block or _gone(ref, before.start_ns if before else end_ns)
                yield before
        mixed = [b for ref in self._mixed if (b := self._block(ref)) is not None]
        mixed.sort(key=lambda block: (block.end_ns, block.segment_seq), reverse=True)
        yield from (b for b in mixed if b.end_ns >= start_ns and b.start_ns <= end_ns)

    def timely(self, start_ns: int, end_ns: int) -> list[SegmentRef]:
        """List the segments that may have times from ``start_ns`` to ``end_ns``, both included.

        Looks up as few as a bisection does; what does not ascend may have any times.
        """
        end = self._place(end_ns, behind=True)
        last = self._refs[end - 1] if end else None
        first = self._place(start_ns, behind=False)
        chosen = [ref for ref in self._refs[first:] if last is not None and ref <= last]
        return [*self._mixed, *chosen]

    def find(self, time_ns: int) -> tuple[Block, ...]:
        """Give the block that a time is in, or else the next one; empty if there is none.

        It is one, unless a run of one time goes on in the next block or blocks overlap.
        """
        found = tuple(each for each in self.between(time_ns, time_ns) if each.bundle_count)
        if not found:
            behind = (each for each in self.between(time_ns, 1 << 63) if each.bundle_count)
            return tuple(itertools.islice(behind, 1))
        return found
