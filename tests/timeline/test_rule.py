"""The time that the next bundle of a partition gets."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quiver
from quiver.timeline import TIME_MAX, Times, time_ns

NS = st.integers(0, 1 << 40)


@given(st.lists(NS, max_size=30))
def test_times_of_a_writer_rise_whatever_the_clock_says(clock: list[int]) -> None:
    times = Times("writer", 0)
    found = []
    for now_ns in clock:
        found.append(times.stamp(now_ns, None))
        times.took(found[-1])
        assert found[-1] >= now_ns
    assert all(a < b for a, b in pairwise(found))
    assert times.last_ns == (found[-1] if found else None)


@given(st.lists(NS, max_size=30))
def test_a_caller_may_repeat_a_time_and_never_fall_behind_it(given_ns: list[int]) -> None:
    times = Times("caller", 3)
    taken: list[int] = []
    for ns in given_ns:
        if taken and ns < taken[-1]:
            with pytest.raises(quiver.OutOfSequenceError) as raised:
                times.stamp(0, ns)
            error = raised.value
            assert (error.partition, error.last, error.given) == (3, taken[-1], ns)
        else:
            taken.append(times.stamp(0, ns))
            times.took(ns)
    assert taken == sorted(taken)


def test_the_clock_is_taken_as_it_is_but_not_from_before_1970() -> None:
    times = Times("clock", 0)
    assert [times.stamp(now, None) for now in (5, 3, -1)] == [5, 3, 0]


@pytest.mark.parametrize("rule", ["clock", "writer"])
def test_a_time_that_nobody_asked_for_is_refused(rule) -> None:
    with pytest.raises(quiver.InputError, match=r"segment\.time"):
        Times(rule, 0).stamp(5, 5)


def test_a_caller_must_give_a_time() -> None:
    with pytest.raises(quiver.InputError, match=r"append\(bundle, time="):
        Times("caller", 0).stamp(5, None)


def test_behind_the_last_time_there_is_no_other() -> None:
    times = Times("writer", 0)
    assert times.stamp(TIME_MAX, None) == TIME_MAX
    times.took(TIME_MAX)
    with pytest.raises(quiver.CapacityError, match="used up") as raised:
        times.stamp(0, None)
    assert not raised.value.retryable


def test_a_promise_is_kept_and_named_where_it_is_all_that_is_known() -> None:
    times = Times("caller", 0)
    times.promise(10)
    times.promise(4)
    with pytest.raises(quiver.OutOfSequenceError) as raised:
        times.stamp(0, 10)
    assert raised.value.last == 11
    assert times.stamp(0, 11) == 11


def test_what_is_taken_back_counts_no_more() -> None:
    times = Times("caller", 0)
    times.took(5)
    mark = times.mark()
    times.took(9)
    times.back_to(mark)
    assert (times.stamp(0, 5), times.last_ns) == (5, 5)


@pytest.mark.parametrize(
    "given_time, expected",
    [
        (0, 0),
        (datetime(1970, 1, 1, 0, 0, 1), 10**9),  # noqa: DTZ001 Without a zone it is UTC.
        (datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600 * 10**9),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.000001", 1000),
    ],
    ids=["ns", "without a zone", "UTC", "text with a zone", "microseconds"],
)
def test_a_time_is_read(given_time, expected) -> None:
    assert time_ns(given_time) == expected


@pytest.mark.parametrize(
    "given_time",
    [-1, TIME_MAX + 1, True, 1.5, "soon", None, datetime(1969, 1, 1, tzinfo=UTC)],
    ids=["negative", "too late", "a truth", "a float", "a word", "nothing", "before 1970"],
)
def test_what_is_no_time_is_refused(given_time) -> None:
    with pytest.raises(quiver.InputError, match="start: "):
        time_ns(given_time, "start")


def test_the_error_travels_between_processes() -> None:
    error = quiver.OutOfSequenceError("late", partition=1, last=2, given=3, hint="wait")
    found = pickle.loads(pickle.dumps(error))
    assert vars(found) == vars(error)
