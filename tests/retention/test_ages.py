"""The store clock: it goes on with what has really passed, whatever the wall clock says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.retention import Ages, Mark, Saved, saved_from_times
from quiver.units import SECOND

HOUR = 3600 * SECOND
LIMIT = 72 * HOUR
NOW = 1_790_000_000 * SECOND
Y2099 = 4_070_908_800 * SECOND


def ages(saved, *, wall=NOW, mono=0, limit=LIMIT):
    return Ages(limit, saved, wall, mono)


def saved_at(wall, *marks, store=0):
    return Saved(store, wall, tuple(Mark(*mark) for mark in marks))


def pace(clock, start_wall, hours, *, from_hours=0):
    """Let both clocks go on, with a look each minute."""
    for minute in range(from_hours * 60, (from_hours + hours) * 60 + 1):
        passed = minute * 60 * SECOND
        clock.observe(start_wall + passed, passed)


def test_segments_are_ripe_when_the_limit_has_passed_while_open():
    clock = ages(Saved(0, NOW))
    assert clock.note(5, 0)
    assert clock.ripe_below(69 * HOUR) == 0
    assert clock.ripe_below(72 * HOUR) == 5


def test_a_segment_counts_from_the_mark_behind_it():
    clock = ages(Saved(0, NOW))
    clock.note(1, 0)
    assert not clock.note(2, 1 * HOUR)
    assert clock.note(3, 2 * HOUR)
    assert clock.ripe_below(70 * HOUR) == 1
    assert clock.ripe_below(72 * HOUR) == 3


def test_without_news_there_is_still_something_to_save_from_time_to_time():
    clock = ages(saved_at(NOW, (4, 0)))
    assert not clock.note(4, HOUR)
    assert clock.note(4, 2 * HOUR)
    assert clock.to_save(NOW + 2 * HOUR, 2 * HOUR) == saved_at(
        NOW + 2 * HOUR, (4, 0), store=2 * HOUR
    )


def test_a_short_time_closed_counts_at_once():
    clock = ages(saved_at(NOW - 36 * HOUR, (4, -36 * HOUR)))
    assert clock.ripe_below(0) == 4


@pytest.mark.parametrize("back", [1, HOUR, NOW])
def test_a_clock_that_was_set_back_makes_nothing_older(back):
    clock = ages(saved_at(NOW, (4, -60 * HOUR)), wall=NOW - back)
    assert clock.ripe_below(0) == 0
    assert clock.ripe_below(12 * HOUR) == 4


def test_a_long_time_closed_counts_once_the_clock_has_kept_pace_for_an_hour():
    clock = ages(saved_at(NOW - 1000 * HOUR, (4, 0)))
    assert clock.ripe_below(0) == 0
    pace(clock, NOW, 1)
    assert clock.note(9, 2 * HOUR)
    assert clock.ripe_below(2 * HOUR) == 4
    assert clock.ripe_below(71 * HOUR) == 4, "what came since is no older for it"
    assert clock.ripe_below(74 * HOUR) == 9


def test_what_came_before_the_clock_was_believed_is_no_older_for_it():
    clock = ages(saved_at(NOW - 1000 * HOUR))
    clock.note(9, 0)
    pace(clock, NOW, 2)
    assert clock.ripe_below(69 * HOUR) == 0


def test_a_clock_that_is_wrong_at_the_start_and_mended_makes_nothing_older():
    clock = ages(saved_at(NOW - HOUR, (4, 0)), wall=Y2099)
    pace_minutes = [(Y2099 + n * 60 * SECOND, n * 60 * SECOND) for n in range(30)]
    for wall, mono in pace_minutes:
        clock.observe(wall, mono)
    clock.observe(NOW + 31 * 60 * SECOND, 31 * 60 * SECOND)
    assert clock.ripe_below(40 * HOUR) == 0
    assert clock.ripe_below(72 * HOUR) == 4


def test_a_step_while_open_makes_nothing_older():
    clock = ages(saved_at(NOW, (4, 0)))
    clock.observe(NOW, 0)
    clock.observe(Y2099, SECOND)
    pace(clock, Y2099, 2)
    assert clock.ripe_below(60 * HOUR) == 0


def test_what_a_clock_before_2020_says_is_no_evidence():
    clock = ages(saved_at(5 * HOUR, (4, 0)), wall=NOW)
    pace(clock, NOW, 2)
    assert clock.ripe_below(60 * HOUR) == 0


def test_times_in_segments_stand_for_a_lost_file():
    times = [(0, NOW), (1, NOW + 30 * HOUR), (4, NOW + 40 * HOUR)]
    saved = saved_from_times(times, LIMIT)
    assert saved == saved_at(
        NOW + 40 * HOUR, (1, 0), (2, 30 * HOUR), (5, 40 * HOUR), store=40 * HOUR
    )
    clock = ages(saved, wall=NOW + 72 * HOUR)
    assert clock.ripe_below(0) == 1


def test_times_in_segments_that_jump_prove_nothing():
    times = [(0, NOW), (1, Y2099), (2, NOW), (3, NOW + HOUR), (4, 0), (5, NOW)]
    assert saved_from_times(times, LIMIT).store_ns == HOUR


def test_nothing_known_is_nothing_ripe():
    assert saved_from_times([], LIMIT) == Saved(0, 0)
    assert ages(saved_from_times([], LIMIT)).ripe_below(0) == 0


def test_there_are_never_many_marks():
    clock = ages(Saved(0, NOW))
    for hour in range(2000):
        clock.note(hour + 1, hour * HOUR)
    assert len(clock.marks) <= 70
    assert clock.ripe_below(2000 * HOUR) >= 1900


LOOKS = st.lists(
    st.tuples(st.integers(0, 3 * HOUR), st.one_of(st.just(0), st.integers(-Y2099, Y2099))),
    max_size=40,
)


@given(LOOKS, st.integers(1, 40))
def test_no_steps_of_the_wall_clock_while_open_make_anything_older_than_it_is(looks, limit_hours):
    limit = limit_hours * HOUR
    clock = ages(Saved(0, NOW), limit=limit)
    mono, wall, births = 0, NOW, {}
    for seq, (passed, step) in enumerate(looks):
        mono += passed
        wall += passed + step
        births[seq] = mono
        clock.observe(wall, mono)
        clock.note(seq + 1, mono)
        below = clock.ripe_below(mono)
        least = limit - limit // 32
        assert all(mono - born >= least for seq, born in births.items() if seq < below)


@given(LOOKS, st.integers(1, 40))
def test_all_are_ripe_in_the_end(looks, limit_hours):
    limit = limit_hours * HOUR
    clock = ages(Saved(0, NOW), limit=limit)
    mono = 0
    for seq, (passed, _) in enumerate(looks):
        mono += passed
        clock.note(seq + 1, mono)
    clock.note(len(looks), mono + limit // 64 + 1)
    assert clock.ripe_below(mono + limit + limit // 32) == len(looks)
