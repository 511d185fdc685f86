"""Several processes of one pipeline, with scripts in their stead: heard, restarted, ended."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager

import pytest

from quiver.cli.output import Output
from quiver.cli.runs.telling import Told
from quiver.cli.runs.workers import DEATHS_MAX, Workers
from quiver.clock import SystemClock

SAY = """
import json, sys
job = json.loads(sys.stdin.readline())
def say(**fields): print(json.dumps(fields), flush=True)
node = {"name": "in", "role": "receiver", "kind": "otlp", "addresses": [], "gauges": {"g": 1},
        "histograms": {"h": {"bounds": [1.0], "counts": [1, 0], "sum_ns": 5}}, "problem": ""}
def ready():
    say(kind="ready", addresses={"in": ["127.0.0.1:1"]}, leftovers=[], passed_over=[])
def status(items):
    say(kind="status", nodes=[{**node, "counts": {"quiver.receiver.items[logs]": items}}])
"""
GOOD = "ready(); status(10 + job['number'])\nsys.stdin.readline()\nsay(kind='ended', late=1)"
DIES_ONCE = f"""
import os
first = not os.path.exists(job["file"])
open(job["file"], "w").close()
if first:
    ready(); status(100); os._exit(3)
{GOOD}
"""


@contextmanager
def workers(script: str, tmp_path, count: int = 1):
    command = [sys.executable, "-c", SAY + script]
    file = str(tmp_path / "mark")
    texts: list[str] = []
    clock = SystemClock()
    made = Workers(
        file, variables={}, count=count, clock=clock, write=texts.append, command=command
    )
    try:
        yield made
    finally:
        made.stop(5.0)


def look_until(made: Workers, done) -> Told:
    told = Told(Output())
    for worker in made.all:
        worker.heard.wait(10)
    for _ in range(100_000):
        made.look(told)
        if done():
            return told
        made.all[0].heard.wait(0.01)
    raise AssertionError("it did not come to that")


def test_what_they_say_is_added_up(tmp_path) -> None:
    with workers(GOOD, tmp_path, count=2) as made:
        look_until(made, lambda: made.are_ready and all(each.nodes for each in made.all))
        (node,) = made.status()
        assert node.counts == {"quiver.receiver.items[logs]": 21}
        assert node.gauges == {"g": 2}
        assert node.histograms["h"].counts == (2, 0)
        assert made.stop(5.0) == 2
        assert [each.code for each in made.all] == [0, 0]


def test_one_that_dies_is_started_again_and_what_it_counted_stays(tmp_path, capsys) -> None:
    with workers(DIES_ONCE, tmp_path) as made:
        look_until(made, lambda: made.restarts == 1 and made.are_ready and made.all[0].nodes)
        (node,) = made.status()
        assert node.counts == {"quiver.receiver.items[logs]": 110}
        assert node.gauges == {"g": 1}
        assert made.ended_with is None
    assert "process 0 ended with 3" in capsys.readouterr().err


def test_one_that_dies_again_and_again_ends_all(tmp_path) -> None:
    with workers("ready(); import os; os._exit(9)", tmp_path) as made:
        look_until(made, lambda: made.ended_with is not None)
        assert (made.ended_with, made.restarts) == (9, DEATHS_MAX - 1)


def test_one_that_cannot_start_ends_all_at_once(tmp_path, capsys) -> None:
    script = "say(kind='error', message='cannot listen', hint='elsewhere'); sys.exit(2)"
    with workers(script, tmp_path) as made:
        look_until(made, lambda: made.ended_with is not None)
        assert (made.ended_with, made.restarts) == (2, 0)
    assert "cannot listen (elsewhere)" in capsys.readouterr().err


def test_one_that_is_killed_has_the_code_of_a_shell(tmp_path) -> None:
    with workers("ready(); sys.stdin.readline()", tmp_path) as made:
        look_until(made, lambda: made.are_ready)
        made.all[0]._process.kill()
        look_until(made, lambda: made.restarts == 1)


def test_one_that_is_heard_late_is_not_cut_off(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("quiver.cli.runs.workers._HEAR_SECONDS", 0)
    script = "ready(); say(kind='console', text='a'); say(kind='console', text='b'); sys.exit(3)"
    busy = threading.Event()
    with workers(script, tmp_path) as made:
        worker = made.all[0]
        texts: list[str] = []
        worker._write = lambda text: (busy.wait(30), texts.append(text))
        worker.wait(30)
        busy.set()
        worker._thread.join(30)
        assert texts == ["a", "b"]


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"kind": "status"}', '{"kind": "status", "nod']
)
def test_words_that_were_cut_off_are_passed_over(tmp_path, line) -> None:
    with workers(f"print({line!r}, flush=True)\n{GOOD}", tmp_path) as made:
        look_until(made, lambda: made.are_ready)
