"""What is due in a collection: runs to fold or to merge, epochs to forget. Pure.

Of each bucket there is at most one base, its state as of some epoch, and runs of differences.
Runs behind the base are **live**: each look-up goes through them. Runs up to it are **past**: only
who reads an older state needs them, and once `since` has passed them nobody does.

======  ============================================  ==========================================
act     is due when                                   it gives
======  ============================================  ==========================================
fold    the live runs of a bucket have more than      a base as of now; the old one goes, and
        half the rows of its base, and not very few   the runs are past
merge   a bucket has more than a few live runs, or    one run instead of several that stand side
        more than a good many past ones               by side, with the same rows
forget  more epochs can be read than are to be kept   a greater `since`; past runs go that end
                                                      before it
======  ============================================  ==========================================

Live runs are merged from the newest back for as long as the next one is at most twice as large as
all behind it, so that sizes at least double from one to the next older one: a row is written again
as often as its run can double, and look-ups pass few files. Past runs are merged two by two, the
smallest first. A merge never crosses the base's epoch, so a run is either live or past.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from quiver.upsert.persist.format import FileRef
from quiver.upsert.persist.snapshot import Snapshot

__all__ = ["Act", "Limits", "chosen", "due", "forgotten", "is_forgetting_due", "since_for"]

_DOUBLE: Final = 2
_EIGHTH: Final = 8
_AGAIN: Final = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """When something is due. The defaults suit collections of any size."""

    history: int = 100
    """So many epochs, counted from the newest, can be read; for a while an eighth more."""
    live_runs_max: int = 8
    past_runs_max: int = 32
    fold_rows_min: int = 16_384
    """A bucket whose live runs have no more rows than this is not folded."""
    rows_max: int = 1_000_000
    """Rows that may be written at a time, or eight times what came last, if that is more."""


@dataclass(frozen=True, slots=True)
class Act:
    """Files of one bucket that become one file."""

    kind: Literal["fold", "merge"]
    bucket: int
    files: tuple[FileRef, ...]
    """Of a fold, the base if there is one, and all live runs; of a merge, the runs."""
    epoch: int
    """Of a fold, as of which the base is."""

    @property
    def rows(self) -> int:
        """How many are read; no more are written."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class _Bucket:
    base: FileRef | None
    past: tuple[FileRef, ...]
    live: tuple[FileRef, ...]

    @property
    def live_rows(self) -> int:
        return sum(run.rows for run in self.live)

    @property
    def base_rows(self) -> int:
        return self.base.rows if self.base else 0


def due(snapshot: Snapshot, limits: Limits) -> list[Act]:
    """List all that is due now: folds first, the most urgent one in front."""
    newest = snapshot.upper - 1
    folds: list[tuple[float, Act]] = []
    merges: list[Act] = []
    for number, bucket in sorted(_buckets(snapshot.files).items()):
        if bucket.live_rows > max(limits.fold_rows_min, bucket.base_rows // _DOUBLE):
            files = (*((bucket.base,) if bucket.base else ()), *bucket.live)
            urgency = bucket.live_rows / max(bucket.base_rows, 1)
            folds.append((urgency, Act("fold", number, files, newest)))
        elif runs := _tail(bucket.live, limits.live_runs_max):
            merges.append(Act("merge", number, runs, newest))
        pairs = _pairs(bucket.past, limits.past_runs_max)
        merges += [Act("merge", number, runs, newest) for runs in pairs]
    folds.sort(key=lambda each: -each[0])
    return [*(act for _, act in folds), *merges]


def chosen(acts: Sequence[Act], snapshot: Snapshot, limits: Limits) -> list[Act]:
    """Choose the acts that are done now: the first one, and more as far as rows allow.

    A row that comes is written again three times by folds and a few times by merges, so that what
    is left for later does not grow.
    """
    came = sum(file.rows for file in snapshot.files if file.first == snapshot.latest)
    rows_max = max(limits.rows_max, _AGAIN * came)
    found: list[Act] = []
    rows = 0
    for act in acts:
        if not found or rows + act.rows <= rows_max:
            found.append(act)
            rows += act.rows
    return found


def since_for(snapshot: Snapshot, limits: Limits) -> int:
    """Say which epoch is to be the first one that can be read."""
    return max(snapshot.since, snapshot.upper - max(limits.history, 1))


def is_forgetting_due(snapshot: Snapshot, limits: Limits) -> bool:
    """Whether so many epochs are to be forgotten that it is worth a change of the manifest."""
    gone = since_for(snapshot, limits) - snapshot.since
    return gone > max(limits.history, 1) // _EIGHTH


def forgotten(files: Iterable[FileRef], since: int) -> list[FileRef]:
    """List the runs that nobody needs who reads as of ``since`` or later."""
    return [run for bucket in _buckets(files).values() for run in bucket.past if run.last <= since]


def _buckets(files: Iterable[FileRef]) -> dict[int, _Bucket]:
    """Tell bases, past and live runs of each bucket; runs come in order of their epochs."""
    bases: dict[int, FileRef] = {}
    runs: dict[int, list[FileRef]] = {}
    for file in files:
        if file.kind == "base":
            bases[file.bucket] = file
            runs.setdefault(file.bucket, [])
        else:
            runs.setdefault(file.bucket, []).append(file)
    found = {}
    for number, some in runs.items():
        some.sort(key=lambda run: (run.first, run.last))
        base = bases.get(number)
        epoch = base.last if base else -1
        found[number] = _Bucket(
            base,
            tuple(run for run in some if run.last <= epoch),
            tuple(run for run in some if run.last > epoch),
        )
    return found


def _tail(live: Sequence[FileRef], most: int) -> tuple[FileRef, ...]:
    """Choose the newest runs that are to be one; none if there are few."""
    if len(live) <= most:
        return ()
    start = len(live) - 1
    rows = live[start].rows
    while start > 0 and (start >= most or live[start - 1].rows <= _DOUBLE * rows):
        start -= 1
        rows += live[start].rows
    return tuple(live[start:])


def _pairs(past: Sequence[FileRef], most: int) -> list[tuple[FileRef, ...]]:
    """Choose neighbours that are to be one, so that no more than ``most`` are left."""
    groups: list[tuple[tuple[FileRef, ...], int]] = [((run,), run.rows) for run in past]
    while len(groups) > most:
        sums = [here[1] + there[1] for here, there in pairwise(groups)]
        at = sums.index(min(sums))
        (left, _), (right, _) = groups[at : at + 2]
        groups[at : at + 2] = [((*left, *right), sums[at])]
    return [runs for runs, _ in groups if len(runs) > 1]
