"""The report of the whole bench, and what of samples goes into a flame graph."""

from __future__ import annotations

import pytest

from bench.profiling.flames import draw, folded, selves
from bench.report import Part, goals, page

ROWS = [
    {"measure": "a", "ratio": 0.5, "least": 0.4, "most": 0.6, "bound": "at least", "wanted": 1.0},
    {"measure": "b", "ratio": 2.0, "least": 1.0, "most": 3.0, "bound": "at most", "wanted": 4},
    {"measure": "c", "microseconds": 3.0, "least": 2.0, "most": 5.0, "at_most": 2},
]
FOUND = {
    "title": "Of it",
    "command": "make bench-it",
    "rounds": 3,
    "scale": 0.5,
    "machine": {"load": 0.25, "date": "2026-11-23"},
    "versions": {"peer": "1.2"},
    "rows": [
        {**row, "reached": reached} for row, reached in zip(ROWS, (False, True, False), strict=True)
    ]
    + [{"measure": "told only", "ratio": 1.0, "least": 1.0, "most": 1.0}],
    "streaming": [
        {"name": "d", "value": 0.7, "word": "at least", "goal": 0.8},
        {"name": "told only too", "value": 1.0, "word": "", "goal": None},
    ],
}


def test_rows_with_a_goal_are_picked():
    found = goals(FOUND)
    assert [(row.measure, row.figure, row.reached) for row in found] == [
        ("a", 0.5, False),
        ("b", 2.0, True),
        ("c", 3.0, False),
        ("d", 0.7, False),
    ]
    assert [(row.bound, row.wanted, row.unit) for row in found][2] == ("at most", 2, " us")


@pytest.mark.parametrize("figure, score", [(0.5, 0.5), (4.0, 4.0), (1e9, 25.0), (0.0, 0.04)])
def test_a_score_is_how_many_times_as_good_as_the_goal(figure, score):
    least, most = goals(FOUND)[:2]
    assert least.score(figure) == score
    assert most.score(4 / max(figure, 1e-12)) == pytest.approx(score)


def test_the_page_says_what_is_reached_and_what_is_not():
    parts = [Part("it", (), 60, ("curve",)), Part("gone", (), 60)]
    text = page(parts, {"it": FOUND}, {"it": 90.0}, ["gone"])
    assert "Of 4 figures with a goal 1 reach it" in text
    assert "in 2 minutes" in text
    assert "peer 1.2" in text
    assert "Not in this report: gone" in text
    assert "| [Of it](IT.md) | 4 | 1 | 90 | 60 |" in text
    assert "`make bench-it`, 2026-11-23, 3 rounds, 0.5 of the data" in text
    assert "![Of it: the goals](plots/it.svg)" in text
    assert "Measured by themselves" not in text
    assert "![Of it](curve.svg)" in text
    assert "| a | **0.5** | 0.4 to 0.6 | at least 1 |" in text
    assert "| b | 2 | 1 to 3 | at most 4 |" in text
    assert "| c | **3 us** | 2 to 5 | at most 2 us |" in text
    assert "told only" not in text


def test_goals_that_are_measured_elsewhere_are_named_with_their_page():
    text = page([Part("it", (), 60)], {"it": FOUND}, {"it": 90.0}, [], alone={"other": FOUND})
    assert "Of 4 figures with a goal" in text
    assert "| [Of it](OTHER.md) | 4 | 1 | `make bench-it`, 2026-11-23 |" in text


MEASURED = "measured (bench/profiling/works.py:1)"
SAMPLES = f"""\
thread (1): MainThread;0x1 (libc.so.6);main (bench/profiling/works.py:9);warm (bench/kit.py:1) 50
thread (1): MainThread;{MEASURED};act (x.py:1);{MEASURED};f (quiver/a.py:3);os_pwritev (libp) 6
thread (1): MainThread;{MEASURED};f (quiver/a.py:7);PyThread_acquire_lock_timed (p);0x2 (c) 3
thread (1): MainThread;{MEASURED};f (quiver/a.py:8);_ZN5arrow3ipc1fEv (libarrow.so) 1
thread (2): quiver-worker;Thread.run (threading.py:1);Condition.wait (threading.py:2);x (libc) 70
thread (2): quiver-worker;Thread.run (threading.py:1);g<T> (quiver/b.py:2);fdatasync (libc.so.6) 10
thread (3);nobody (x.py:1) 5
"""


def test_samples_of_what_is_measured_are_folded():
    stacks = folded(SAMPLES)
    assert {stack.frames: stack.count for stack in stacks} == {
        ("main thread", "f (quiver/a.py)", "os_pwritev (libp)"): 6,
        ("main thread", "f (quiver/a.py)", "waits for a lock"): 3,
        ("main thread", "f (quiver/a.py)", "arrow::ipc::f (libarrow.so)"): 1,
        ("quiver-worker", "g<T> (quiver/b.py)", "fdatasync (libc.so.6)"): 10,
    }
    assert selves(stacks, "main thread", 2) == [
        ("os_pwritev (libp)", 0.6),
        ("waits for a lock", 0.3),
    ]


def test_a_picture_has_a_box_for_each_frame_that_is_wide_enough():
    stacks = folded(SAMPLES.replace("a.py:8);_ZN", "a.py:8);thin;_ZN"))
    picture = draw("what it is & more", stacks)
    assert "what it is &amp; more: 20 samples" in picture
    assert "g&lt;T&gt; (quiver/b.py): 50.0%" in picture
    assert "f (quiver/a.py): 50.0%" in picture
    assert picture.count("<g>") == 9
    rare = [*stacks, *folded(SAMPLES.replace(" 10\n", " 10000\n"))]
    assert "waits for a lock" not in draw("", rare)
