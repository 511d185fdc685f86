"""Bundle indices in pages against a plain set, where runs cross the borders of pages."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quiver.subscriber.bundle_set import BundleSet

PAGE = 4096
BORDERS = [page * PAGE for page in range(5)]
NEAR = st.sampled_from(BORDERS).flatmap(lambda border: st.integers(max(0, border - 3), border + 3))
INDEX = st.one_of(NEAR, st.integers(0, 4 * PAGE))
COUNT = st.one_of(st.just(1), st.integers(0, 9), NEAR)
ACTS = st.lists(st.tuples(st.sampled_from(["add", "remove"]), INDEX, COUNT), max_size=20)
END = 10 * PAGE


def runs_of(numbers):
    runs = []
    for number in sorted(numbers):
        if runs and sum(runs[-1]) == number:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return runs


@settings(max_examples=150, deadline=None)
@given(ACTS, st.lists(INDEX, min_size=1, max_size=8))
@example([("add", 0, 2 * PAGE), ("remove", PAGE, 1)], [0, PAGE, PAGE + 1])
@example([("add", 0, 3 * PAGE), ("remove", 5, 1), ("add", 5, 1)], [0])
@example([("add", n, 1) for n in (PAGE - 1, PAGE, PAGE - 2)], [PAGE - 2])
def test_a_bundle_set_is_a_set(acts, places):
    bundles, numbers = BundleSet(), set()
    for act, first, count in acts:
        run = set(range(first, first + count))
        if act == "add":
            assert bundles.add(first, count) == len(run - numbers)
            numbers |= run
        else:
            assert bundles.remove(first, count) == len(run & numbers)
            numbers -= run
        assert bundles.count == len(numbers)
        for place in places:  # After each act, for what it remembers of full pages must not lie.
            absent = next(n for n in range(place, END) if n not in numbers)
            assert bundles.next_absent(place) == absent
    assert list(bundles.runs()) == runs_of(numbers)
    assert bundles == BundleSet(bundles.runs()) == bundles.copy()
    for place in places:
        assert (place in bundles) == (place in numbers)
        for stop in (place, place + 1, place + 2 * PAGE):
            present = next((n for n in range(place, stop) if n in numbers), stop)
            assert bundles.next_present(place, stop) == present
            missing = runs_of(set(range(place, stop)) - numbers)
            assert list(bundles.gaps(place, stop - place)) == missing
            assert bundles.gap_count(place, stop - place) == len(missing)


@given(ACTS, ACTS)
@settings(max_examples=30, deadline=None)
def test_a_copy_lives_a_life_of_its_own(acts, later):
    bundles = BundleSet()
    for act, first, count in acts:
        getattr(bundles, act)(first, count)
    copy, before = bundles.copy(), list(bundles.runs())
    for act, first, count in later:
        getattr(copy, act)(first, count)
    assert list(bundles.runs()) == before
    assert bundles.next_absent(0) == next(n for n in range(END) if n not in bundles)


def test_what_is_no_index_is_in_no_set():
    bundles = BundleSet([(0, 3)])
    assert -1 not in bundles
    assert "1" not in bundles
    assert bundles != [(0, 3)]
    assert repr(bundles) == "BundleSet(0:3)"
