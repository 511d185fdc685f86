"""What a repair costs: what a store held before, less what it holds afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from quiver.cli.holdings import CoreHoldings, SegmentHoldings
from quiver.cli.output import count
from quiver.subscriber.runs import RunSet

__all__ = ["Loss", "count_lost_bundles", "find_losses"]


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that is gone: bundles, a slot of bundles, or records of subscribers.

    ``ranges`` are (first, last) of wal_seq, both included. What nobody knows is None. If it is not
    exact, the bundles are at most these, or any number if there is no range.
    """

    what: Literal["bundles", "slot", "records"]
    core: int
    path: str
    ranges: tuple[tuple[int, int], ...] = ()
    slot_id: int | None = None
    row_count: int | None = None
    record_count: int | None = None
    byte_count: int | None = None
    is_exact: bool = True

    @property
    def bundle_count(self) -> int:
        """How many bundles it is about."""
        return sum(last - first + 1 for first, last in self.ranges)

    def describe(self, slot: str) -> str:
        """Say it in one line; ``slot`` is the name of the slot, if it is one."""
        where = f"(core {self.core}, {self.path})"
        if self.what == "records":
            records = "all records"
            if self.record_count is not None:
                records = count(self.record_count, "record")
            return f"{records} of subscribers: what they resolved is delivered again {where}"
        if not self.ranges:
            return f"all bundles that were in no segment yet, nobody knows how many {where}"
        bundles = count(self.bundle_count, "bundle")
        rows = "rows not known" if self.row_count is None else count(self.row_count, "row")
        runs = (f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in self.ranges)
        if self.what == "slot":
            bundles = f"slot {slot} of {bundles}"
        most = "" if self.is_exact else "at most "
        return f"{most}{bundles}, wal_seq {', '.join(runs)}, {rows} {where}"


def find_losses(before: Iterable[CoreHoldings], after: Iterable[CoreHoldings]) -> list[Loss]:
    """Compare what cores held before and after; in order of cores, logs first."""
    kept = {core.core: core for core in after}
    return [loss for core in before for loss in _of_core(core, kept[core.core])]


def count_lost_bundles(losses: Iterable[Loss]) -> int:
    """Count the bundles that subscribers do not get, or not whole, each once."""
    found: dict[int, RunSet] = {}
    for loss in losses:
        for first, last in loss.ranges:
            found.setdefault(loss.core, RunSet()).add(first, last - first + 1)
    return sum(bundles.count for bundles in found.values())


def _of_core(before: CoreHoldings, after: CoreHoldings) -> Iterator[Loss]:
    core, whole = before.core, after.whole()
    for gap in before.gaps:
        gone = _ranges(RunSet([(gap.first, gap.count or 0)]), whole)
        if gone or gap.count is None:
            yield Loss("bundles", core, gap.path, gone, is_exact=gap.is_exact)
    for first, last in _ranges(before.logged, whole):
        for seq in range(first, last + 1):
            rows = before.undecodable.get(seq)
            known = None if rows is None else sum(rows.values())
            yield Loss("bundles", core, before.log_path, ((seq, seq),), row_count=known)
    for segment_seq, segment in sorted(before.segments.items()):
        yield from _of_segment(core, segment, after.segments.get(segment_seq), whole=whole)
    for missing in before.record_gaps:
        yield Loss(
            "records",
            core,
            missing.path,
            record_count=missing.count,
            byte_count=missing.byte_count,
        )


def _of_segment(
    core: int, before: SegmentHoldings, after: SegmentHoldings | None, *, whole: RunSet
) -> Iterator[Loss]:
    """Tell the slots that are gone where its tables named them, otherwise the bundles."""
    if before.slots is None:
        gone = _ranges(before.bundles, whole)
        if gone:
            yield Loss("bundles", core, before.path, gone, is_exact=before.is_exact)
        return
    for slot_id, bundles in sorted(before.slots.items()):
        left, rows = whole, 0
        if after is not None:
            left = (after.slots or {}).get(slot_id, RunSet())
            rows = after.rows.get(slot_id, 0)
        gone = _ranges(bundles, left)
        if gone:
            lost_rows = before.rows[slot_id] - rows
            yield Loss("slot", core, before.path, gone, slot_id, lost_rows)


def _ranges(numbers: RunSet, others: RunSet) -> tuple[tuple[int, int], ...]:
    """Give the runs of ``numbers`` that are not in ``others``, first and last included."""
    gaps = (gap for first, number in numbers.runs() for gap in others.gaps(first, number))
    return tuple((first, first + number - 1) for first, number in gaps)
