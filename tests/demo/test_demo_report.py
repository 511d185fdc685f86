from collections import Counter
from dataclasses import replace

import pytest

from bench.demo.compare import Difference
from bench.demo.kills import Kill, Life
from bench.demo.report import Report
from bench.demo.screen import Screen
from bench.demo.sinks import Delivered

EQUAL = Difference(10, 10, lost=0, duplicates=0, foreign=0)


def life(there, acknowledged, act="", *, killed=True, replayed=0):
    found = {"next": there, "replayed": replayed, "torn": False, "damaged": 0}
    return Life(found=found, acknowledged=acknowledged, act=act, killed=killed)


def report(**changes):
    good = Report(
        bundles=9,
        planned=[Kill("append", 3), Kill("append", 6)],
        lives=[
            life(0, 3, "append"),
            life(4, 6, "append", replayed=4),
            life(6, 9, killed=False, replayed=2),
        ],
        delivered={name: Delivered(Counter(range(9))) for name in ("parquet", "spark")},
        differences={name: {"flights": EQUAL} for name in ("parquet", "spark")},
        segments_written=2,
        segments_after_one=2,
    )
    return replace(good, **changes)


def test_a_good_run_has_no_problem_and_its_figures_add_up():
    good = report()
    assert good.problems() == []
    assert (good.kills, good.kills_in("append"), good.replayed, good.unconfirmed) == (2, 2, 6, 1)


def with_flights(difference):
    return {"parquet": {"flights": EQUAL}, "spark": {"flights": difference}}


@pytest.mark.parametrize(
    "changes,said",
    [
        ({"differences": with_flights(replace(EQUAL, lost=1))}, "1 rows lost"),
        ({"differences": with_flights(replace(EQUAL, duplicates=1))}, "1 doubled"),
        ({"differences": with_flights(replace(EQUAL, foreign=1))}, "1 not as in the source"),
        ({"differences": with_flights(replace(EQUAL, columns="columns differ"))}, "columns"),
        ({"differences": {"parquet": {"flights": EQUAL}}}, "spark: its rows were not compared"),
        ({"delivered": {"parquet": Delivered(Counter(range(9)))}}, "not both"),
        ({"planned": [Kill("append", n) for n in range(3)]}, "2 kills of 3 planned"),
        ({"segments_left": 1}, "segments are left"),
        ({"segment_bytes_left": 1}, "segments are left"),
        ({"segments_after_one": 1}, "deleted before both"),
        ({"check_failure": "quiver check ended with 1"}, "quiver check ended with 1"),
    ],
)
def test_each_thing_that_is_wrong_is_a_problem(changes, said, capsys):
    wrong = report(**changes)
    assert said in "; ".join(wrong.problems())
    Screen().show(wrong, seconds=1.0)
    printed = capsys.readouterr().out
    assert "WRONG" in printed
    assert "Every row arrived" not in printed


@pytest.mark.parametrize(
    "lives,said",
    [
        ([life(0, 3, "append"), life(2, 9, "append")], "2 bundles there, not 3 to 4"),
        ([life(0, 3, ""), life(3, 9, "append")], "only 1 kills met the writer inside an append"),
        ([life(0, 3, "append"), life(3, 8, "append")], "end of the year"),
    ],
)
def test_a_writer_that_went_wrong_is_a_problem(lives, said):
    assert said in "; ".join(report(lives=lives).problems())


@pytest.mark.parametrize(
    "bundles,said",
    [
        (Counter([*range(9), 4]), "1 bundles came more than once"),
        (Counter(range(8)), "8 bundles came, not 9"),
        (Counter(range(1, 10)), "9 bundles came, not 9"),
    ],
)
def test_bundles_that_came_twice_or_not_are_a_problem(bundles, said):
    wrong = report(delivered=report().delivered | {"spark": Delivered(bundles)})
    assert f"spark: {said}" in "; ".join(wrong.problems())
