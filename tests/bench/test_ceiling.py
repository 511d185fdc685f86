"""What the disk gives is said of each goal by the rounds that measured both."""

from __future__ import annotations

import pytest

from bench.peers.ceiling import Goal, ceilings, section
from bench.peers.runs import Side

ROWS = 1000
RATE = Goal("group", "lmdb", "rate", 2.0)
WORDS = {"group": "25 ms", "each": "a sync each"}


def found(mode="group", figure="rate", **rounds):
    """What each peer reached, by name and round; None where it was not measured."""
    return {
        Side(name.replace("_", "-"), mode, ROWS): {
            number: {figure: value} for number, value in enumerate(each) if value is not None
        }
        for name, each in rounds.items()
    }


@pytest.mark.parametrize(
    "lmdb, above",
    [((100, 100), False), ((260, 300), True), ((100, 300), None), ((250, 250), False)],
)
def test_a_goal_is_above_the_disk_if_it_asks_for_more_than_the_better_raw_in_each_round(
    lmdb, above
):
    raws = {"raw": (500, 300), "raw_tuned": (400, 500)}
    (one,) = ceilings(found(lmdb=lmdb, quiver=(50, 60), **raws), [RATE], ROWS)
    assert list(one.asks) == [2 * each for each in lmdb]
    assert list(one.best) == [500, 500]
    assert one.is_above is above
    assert one.row()["is_above"] is above
    word = {True: "yes", False: "no", None: "in some rounds"}[above]
    (line,) = [line for line in section([one], WORDS) if "2 x lmdb" in line]
    assert line.endswith(f"| 0.11 | {word} |")


@pytest.mark.parametrize("tuned, above", [(3.1, True), (2.9, False)])
def test_of_a_time_the_least_is_the_best_and_the_goal_is_the_most(tuned, above):
    goal = Goal("each", "lmdb", "ack_0.99", 3.0)
    each = {"lmdb": (1.0,), "quiver": (6.0,), "raw": (4.0,), "raw_tuned": (tuned,)}
    (one,) = ceilings(found("each", "ack_0.99", **each), [goal], ROWS)
    assert one.is_above is above
    assert list(one.best) == [tuned]


def test_only_rounds_count_in_which_all_were_measured():
    each = {"lmdb": (100, 900, 900), "quiver": (50, 50, 50), "raw": (500, None, 500)}
    measured = found(raw_tuned=(400, 400, None), raw_log=(None, 1, 1), **each)
    (one,) = ceilings(measured, [RATE], ROWS)
    assert (list(one.asks), one.is_above, list(one.one_copy)) == ([200], False, [])
    assert "raw-log" not in one.row()


def test_without_raw_writing_nothing_is_said():
    assert ceilings(found(lmdb=(100,), quiver=(50,)), [RATE], ROWS) == []
    assert "not measured" in "".join(section([], WORDS))


def test_how_many_goals_are_above_the_disk_is_counted():
    raws = {"quiver": (1, 1), "raw": (500, 300), "raw_tuned": (400, 500)}
    measured = found(lmdb=(100, 900), rocksdb=(900, 900), **raws)
    goals = [RATE, Goal("group", "rocksdb", "rate", 2.0)]
    lines = section(ceilings(measured, goals, ROWS), WORDS)
    assert lines[-1] == "Of 2 goals 1 are above what the disk gives, and 1 in some rounds."
