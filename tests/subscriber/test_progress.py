"""Runs and progress against a set of numbers, which is slow and obviously right."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import InputError, SubscriberError
from quiver.subscriber import Progress, RunSet

RUNS = st.tuples(st.integers(0, 60), st.integers(1, 20))


def as_runs(numbers):
    runs = []
    for number in sorted(numbers):
        if runs and sum(runs[-1]) == number:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return runs


@given(st.lists(st.one_of(RUNS.map(lambda run: ("add", *run)), RUNS.map(lambda r: ("out", r[0])))))
def test_a_run_set_is_a_set(acts):
    runs, numbers = RunSet(), set()
    for act, first, *count in acts:
        if act == "add":
            new = set(range(first, first + count[0])) - numbers
            assert runs.add(first, *count) == len(new)
            numbers |= new
        else:
            assert runs.discard(first) == (first in numbers)
            numbers.discard(first)
    assert list(runs.runs()) == as_runs(numbers)
    assert runs.count == len(numbers)
    assert [n for n in range(90) if n in runs] == sorted(numbers)
    for start in range(0, 90, 7):
        assert runs.next_absent(start) == next(n for n in range(start, 200) if n not in numbers)
        assert list(runs.gaps(start, 30)) == as_runs(set(range(start, start + 30)) - numbers)


def test_runs_that_meet_become_one():
    runs = RunSet([(0, 2), (4, 2)])
    assert runs.add(2, 2) == 2
    assert list(runs.runs()) == [(0, 6)]
    assert runs == RunSet([(0, 6)])
    assert repr(runs) == "RunSet(0:6)"


def test_an_empty_run_changes_nothing():
    runs = RunSet()
    assert runs.add(3, 0) == 0
    assert list(runs.runs()) == []


def test_ten_million_bundles_acked_in_order_are_one_run():
    progress = Progress()
    progress.add_segment(0, 10_000_000)
    for first in range(0, 10_000_000, 100_000):
        progress.resolve(0, first, 100_000)
        assert len(progress.resolved_runs(0)) == 1
    assert progress.floor == 1


class Naive:
    """The open bundles of one subscriber as a plain set."""

    def __init__(self):
        self.open = set()
        self.top = 0

    def add(self, seq, count):
        self.open |= {(seq, index) for index in range(count)}
        self.top = max(self.top, seq + 1)

    @property
    def floor(self):
        return min(self.open)[0] if self.open else self.top


def test_the_marks_are_right_in_every_order_of_acks():
    bundles = list(itertools.product(range(2), range(3)))
    for order in itertools.permutations(bundles):
        progress, naive = Progress(), Naive()
        for seq in range(2):
            progress.add_segment(seq, 3)
            naive.add(seq, 3)
        for seq, index in order:
            assert progress.resolve(seq, index) == 1
            naive.open.remove((seq, index))
            assert progress.floor == naive.floor
            assert progress.lag == len(naive.open)
            assert progress.high_water_mark == (naive.floor - 1 if naive.floor else None)
            assert not any(seq < progress.floor for seq, _ in naive.open)
        assert list(progress.gaps()) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 9), st.integers(1, 6)),
            st.tuples(st.just("forget"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("resolve"), st.integers(0, 9), RUNS),
        ),
        max_size=60,
    )
)
def test_progress_is_a_set_of_open_bundles(acts):
    progress, naive, counts = Progress(), Naive(), {}
    for act, seq, value in acts:
        if act == "add":
            if counts.get(seq, value) != value:
                with pytest.raises(InputError):
                    progress.add_segment(seq, value)
                continue
            progress.add_segment(seq, value)
            if seq not in counts:
                naive.add(seq, value)
                counts[seq] = value
        elif act == "forget":
            progress.forget_segment(seq)
            naive.open = {bundle for bundle in naive.open if bundle[0] != seq}
            counts.pop(seq, None)
        elif sum(value) <= counts.get(seq, 0):
            first, count = value
            gone = {(seq, index) for index in range(first, first + count)} & naive.open
            assert progress.resolve(seq, first, count) == len(gone)
            naive.open -= gone
        else:
            with pytest.raises(SubscriberError):
                progress.resolve(seq, *value)
    assert progress.floor == naive.floor
    assert progress.lag == len(naive.open)
    assert progress.segments() == sorted(counts.items())
    still = [(seq, index) for seq, first, n in progress.gaps() for index in range(first, first + n)]
    assert still == sorted(naive.open)
    assert progress.gap_count == len(list(progress.gaps()))
    for seq, count in counts.items():
        assert progress.outstanding(seq) == sum(bundle[0] == seq for bundle in naive.open)
        for index in range(count):
            assert progress.is_resolved(seq, index) == ((seq, index) not in naive.open)


def test_numbering_may_have_holes():
    progress = Progress()
    for seq in (3, 5, 9):
        progress.add_segment(seq, 1)
    progress.resolve(3, 0)
    assert (progress.floor, progress.high_water_mark) == (5, 4)
    progress.resolve(9, 0)
    assert (progress.floor, progress.high_water_mark) == (5, 4)
    progress.resolve(5, 0)
    assert (progress.floor, progress.high_water_mark) == (10, 9)


def test_the_mark_falls_back_for_a_segment_that_comes_late():
    progress = Progress()
    progress.add_segment(5, 1)
    progress.resolve(5, 0)
    progress.add_segment(4, 1)
    assert progress.floor == 4
    assert list(progress.gaps()) == [(4, 0, 1)]


def test_a_segment_below_the_first_floor_is_finished():
    progress = Progress(floor=7)
    progress.add_segment(6, 4)
    assert (progress.outstanding(6), progress.lag, progress.floor) == (0, 0, 7)
    assert progress.resolved_runs(6) == [(0, 4)]


def test_nothing_known_has_no_mark():
    assert Progress().high_water_mark is None


def test_a_segment_without_bundles_is_refused():
    with pytest.raises(InputError):
        Progress().add_segment(0, 0)


@pytest.mark.parametrize("first, count", [(-1, 1), (3, 1), (2, 2), (0, 0), (0, 4)])
def test_bundles_out_of_range_are_refused(first, count):
    progress = Progress()
    progress.add_segment(0, 3)
    with pytest.raises(SubscriberError, match="bundles 0 to 2"):
        progress.resolve(0, first, count)
    assert progress.lag == 3


@pytest.mark.parametrize("count", [63, 64, 65, 130, 65_537])
def test_segments_of_any_size_keep_each_bundle_apart(count):
    progress = Progress()
    progress.add_segment(0, count)
    assert progress.resolve(0, count - 1) == 1
    assert progress.resolve(0, count - 1) == 0
    assert not progress.is_resolved(0, 0)
    assert progress.open_runs(0) == [(0, count - 1)]
