"""What is due in a collection, by the sizes and epochs of its files alone."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from tending_kit import DEFINITION

from quiver.upsert.persist import FileRef, Manifest, Snapshot
from quiver.upsert.tending.rules import (
    Act,
    Limits,
    chosen,
    due,
    forgotten,
    is_forgetting_due,
    since_for,
)


def run(first: int, last: int, rows: int, *, bucket: int = 0) -> FileRef:
    name = f"runs/{bucket}-{first}-{last}"
    return FileRef("run", bucket, name, rows, 0, 100, 0, first, last)


def base(epoch: int, rows: int, *, bucket: int = 0) -> FileRef:
    return FileRef("base", bucket, f"bases/{bucket}-{epoch}", rows, 0, 100, 0, epoch, epoch)


def snapshot(*files: FileRef, upper: int | None = None, since: int = 0) -> Snapshot:
    newest = max((file.last for file in files), default=0)
    end = newest + 1 if upper is None else upper
    manifest = Manifest("0" * 32, b"", b"", 4, upper=end, since=since, files=files)
    return Snapshot(manifest, DEFINITION, "here")


def merges(acts: list[Act]) -> list[list[int]]:
    """Say which epochs begin the runs that are merged."""
    return [[file.first for file in act.files] for act in acts if act.kind == "merge"]


FEW = Limits(live_runs_max=3, past_runs_max=2, fold_rows_min=10)


def test_nothing_is_due_in_an_empty_collection() -> None:
    assert due(snapshot(), Limits()) == []


def test_live_runs_are_folded_when_they_have_more_than_half_the_rows_of_the_base() -> None:
    before = base(4, 100)
    assert due(snapshot(before, run(5, 5, 50)), FEW) == []
    live = run(5, 5, 40), run(6, 6, 11)
    [act] = due(snapshot(before, run(1, 4, 70), *live), FEW)
    assert act == Act("fold", 0, (before, *live), 6)
    assert act.rows == 151


def test_what_is_small_is_merged_and_not_folded() -> None:
    runs = [run(epoch, epoch, 2) for epoch in range(1, 6)]
    assert merges(due(snapshot(*runs), FEW)) == [[1, 2, 3, 4, 5]]
    assert [act.kind for act in due(snapshot(*runs, run(6, 6, 1)), FEW)] == ["fold"]


def test_a_bucket_without_a_base_gets_one_as_of_now() -> None:
    [act] = due(snapshot(run(1, 1, 11), upper=9), FEW)
    assert (act.kind, act.epoch, act.files) == ("fold", 8, (run(1, 1, 11),))


def test_few_live_runs_stay_and_many_are_merged_from_the_newest_back() -> None:
    limits = Limits(live_runs_max=3, fold_rows_min=1_000_000)
    some = [run(1, 1, 100), run(2, 2, 11), run(3, 3, 4)]
    assert due(snapshot(*some), limits) == []
    assert merges(due(snapshot(*some, run(4, 4, 1)), limits)) == [[3, 4]]
    assert merges(due(snapshot(*some, run(4, 4, 2)), limits)) == [[2, 3, 4]]
    # However sizes are, no more than the limit are left.
    steep = [run(epoch, epoch, 4 ** (9 - epoch)) for epoch in range(1, 7)]
    assert merges(due(snapshot(*steep), limits)) == [[3, 4, 5, 6]]


def test_past_runs_are_merged_two_by_two_the_smallest_first() -> None:
    files = [base(9, 1000), run(1, 1, 50), run(2, 2, 5), run(3, 3, 6), run(4, 9, 9)]
    assert merges(due(snapshot(*files, run(10, 10, 1)), FEW)) == [[2, 3, 4]]


def test_a_merge_never_crosses_the_epoch_of_the_base() -> None:
    files = [base(3, 1000), *(run(epoch, epoch, 1) for epoch in range(1, 9))]
    assert merges(due(snapshot(*files), FEW)) == [[4, 5, 6, 7, 8], [1, 2]]


def test_the_bucket_that_needs_it_most_is_folded_first_and_rows_are_bounded() -> None:
    files = [
        *(base(1, 100, bucket=0), run(2, 2, 60, bucket=0)),
        *(base(1, 100, bucket=1), run(2, 2, 90, bucket=1)),
        run(2, 2, 30, bucket=2),
        *(base(1, 100, bucket=3), run(2, 2, 50, bucket=3)),
    ]
    now = snapshot(*files, upper=9)
    acts = due(now, FEW)
    assert [act.bucket for act in acts] == [2, 1, 0]
    assert [act.bucket for act in chosen(acts, now, Limits(rows_max=1))] == [2]
    assert [act.bucket for act in chosen(acts, now, Limits(rows_max=200))] == [2, 0]
    assert chosen(acts, now, Limits()) == acts
    # What came last has 230 rows.
    assert chosen(acts, snapshot(*files), Limits(rows_max=1)) == acts


def test_what_is_left_for_later_does_not_grow() -> None:
    rng = random.Random(3)
    limits = Limits(history=20, live_runs_max=6, past_runs_max=8, fold_rows_min=200, rows_max=1)
    files: list[FileRef] = []
    for epoch in range(1, 300):
        files += [run(epoch, epoch, rng.randrange(1, 400), bucket=bucket) for bucket in range(8)]
        now = snapshot(*files, upper=epoch + 1)
        for act in chosen(due(now, limits), now, limits):
            gone = [f for f in act.files if act.kind == "merge" or f.kind == "base"]
            files = [file for file in files if file not in gone]
            if act.kind == "fold":
                files.append(base(act.epoch, min(3000, act.rows), bucket=act.bucket))
            else:
                first, last = act.files[0].first, act.files[-1].last
                files.append(run(first, last, act.rows, bucket=act.bucket))
        over = forgotten(files, max(0, epoch - 19))
        files = [file for file in files if file not in over]
        assert len(files) < 8 * 20


def test_history_is_counted_from_the_newest_epoch_and_never_comes_back() -> None:
    limits = Limits(history=10)
    assert since_for(snapshot(upper=5), limits) == 0
    assert since_for(snapshot(upper=25), limits) == 15
    assert since_for(snapshot(upper=25, since=20), limits) == 20
    assert since_for(snapshot(upper=25), Limits(history=0)) == 24
    due_at = [upper for upper in range(1, 20) if is_forgetting_due(snapshot(upper=upper), limits)]
    assert due_at[0] == 12


def test_only_past_runs_that_end_at_since_or_before_are_forgotten() -> None:
    files = [base(6, 9), run(1, 2, 1), run(3, 5, 1), run(6, 6, 1), run(7, 7, 1)]
    assert [ref.first for ref in forgotten(files, 1)] == []
    assert [ref.first for ref in forgotten(files, 4)] == [1]
    assert [ref.first for ref in forgotten(files, 5)] == [1, 3]
    assert [ref.first for ref in forgotten(files, 9)] == [1, 3, 6]
    assert forgotten(files[1:], 9) == []


@pytest.mark.parametrize("seed", range(6))
def test_files_stay_few_and_rows_are_written_again_a_few_times(seed: int) -> None:
    rng = random.Random(seed)
    limits = Limits(history=20, live_runs_max=6, past_runs_max=8, fold_rows_min=200)
    keys = rng.choice([50, 1000, 20_000])
    size = rng.choice([3, 60, 400])
    files: list[FileRef] = []
    written = came = since = 0
    for epoch in range(1, 400):
        rows = rng.randrange(1, 2 * size)
        files.append(run(epoch, epoch, rows))
        came += rows
        for act in due(snapshot(*files, upper=epoch + 1), limits):
            written += act.rows
            gone = [f for f in act.files if act.kind == "merge" or f.kind == "base"]
            files = [file for file in files if file not in gone]
            if act.kind == "fold":
                files.append(base(act.epoch, min(keys, act.rows)))
            else:
                files.append(run(act.files[0].first, act.files[-1].last, act.rows))
        since = max(since, since_for(snapshot(*files, upper=epoch + 1), limits))
        over = forgotten(files, since)
        files = [file for file in files if file not in over]
        check_files(files, limits)
    # A fold writes a row a few times, merges as often as a run can double.
    doublings = math.log2(came / size) + limits.live_runs_max
    assert written <= came * (4 + doublings)


def check_files(files: list[FileRef], limits: Limits) -> None:
    bases = [file for file in files if file.kind == "base"]
    epoch = bases[0].last if bases else 0
    assert len(bases) <= 1
    runs = sorted((file for file in files if file.kind == "run"), key=lambda file: file.first)
    assert all(one.last < other.first for one, other in pairwise(runs))
    assert not [file for file in runs if file.first <= epoch < file.last]
    live = sum(file.last > epoch for file in runs)
    assert live <= limits.live_runs_max
    # A fold makes live runs past, and those are merged the next time.
    assert len(runs) - live <= limits.past_runs_max + limits.live_runs_max + 1
