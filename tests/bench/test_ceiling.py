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
    [
        ((100, 100), False),
        ((240, 240), False),
        ((240, 241), None),
        ((100, 300), None),
        ((250, 250), None),
        ((251, 260), True),
        ((251,), True),
        ((240,), False),
    ],
)
def test_a_goal_is_above_the_disk_if_the_least_it_asks_for_is_more_than_raw_writing_ever_reached(
    lmdb, above
):
    raws = {"raw": (500, 300), "raw_tuned": (400, 480)}
    (one,) = ceilings(found(lmdb=lmdb, quiver=(50, 60), **raws), [RATE], ROWS)
    assert list(one.asks) == [2 * each for each in lmdb]
    assert list(one.best) == [500, 480]
    assert one.is_above is above
    assert one.row()["is_above"] is above
    word = {True: "yes", False: "no", None: "not certain"}[above]
    (line,) = [line for line in section([one], WORDS) if "2 x lmdb" in line]
    assert line.endswith(f"| 0.11 | {word} |")


@pytest.mark.parametrize("tuned, above", [(3.1, True), (2.9, False)])
def test_of_a_time_the_least_is_the_best_and_the_goal_is_the_most(tuned, above):
    goal = Goal("each", "lmdb", "ack_0.99", 3.0)
    each = {"lmdb": (1.0,), "quiver": (6.0,), "raw": (4.0,), "raw_tuned": (tuned,)}
    (one,) = ceilings(found("each", "ack_0.99", **each), [goal], ROWS)
    assert one.is_above is above
    assert list(one.best) == [tuned]


def test_rounds_of_raw_writing_count_in_which_both_were_measured():
    each = {"lmdb": (100, 900, 900), "quiver": (50, None, 60), "raw": (500, None, 700)}
    (one,) = ceilings(found(raw_tuned=(400, 800, None), **each), [RATE], ROWS)
    assert list(one.asks) == [200, 1800, 1800]
    assert one.raw == {"raw": [500], "raw-tuned": [400]}
    assert (list(one.ours), list(one.one_copy), one.is_above) == ([50, 60], [], None)
    assert "raw-log" not in one.row()


@pytest.mark.parametrize("name", ["lmdb", "quiver", "raw", "raw_tuned"])
def test_a_goal_of_which_a_side_failed_is_left_out(name):
    each = {"lmdb": (1,), "quiver": (1,), "raw": (1,), "raw_tuned": (1,)}
    assert len(ceilings(found(**each), [RATE], ROWS)) == 1
    assert ceilings(found(**{**each, name: (None,)}), [RATE], ROWS) == []


def test_without_raw_writing_nothing_is_said():
    assert ceilings(found(lmdb=(100,), quiver=(50,)), [RATE], ROWS) == []
    assert "not measured" in "".join(section([], WORDS))


def test_how_many_goals_are_above_the_disk_is_counted():
    raws = {"quiver": (1, 1), "raw": (500, 300), "raw_tuned": (400, 500)}
    measured = found(lmdb=(100, 900), rocksdb=(900, 900), **raws)
    goals = [RATE, Goal("group", "rocksdb", "rate", 2.0)]
    lines = section(ceilings(measured, goals, ROWS), WORDS)
    assert lines[-1] == "Of 2 goals 1 are above what the disk gives, and of 1 it is not certain."
