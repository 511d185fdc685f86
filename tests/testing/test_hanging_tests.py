"""A test that hangs in what it closes ends the run and is named; nothing waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KIT = Path(__file__).parents[1] / "kit"

IN_WHAT_IT_CLOSES = """
import threading

def test_what_hangs():
    try:
        threading.Event().wait()
    finally:
        threading.Event().wait()
"""

IN_WHAT_IT_LEAVES = """
import threading

def test_what_leaves_a_thread():
    threading.Thread(target=threading.Event().wait).start()
"""

WITH_A_CHILD = """
import subprocess

def test_what_starts_a_child():
    with subprocess.Popen(["sleep", "1000"]):
        raise ValueError("odd")
"""

WITH_A_FORK = """
import gc, os, time

class Waits:
    def __del__(self):
        time.sleep(1000)

def test_what_forks():
    left = Waits()
    left.itself = left
    del left
    child = os.fork()
    if not child:
        for _ in range(100_000):
            [].append([])
        kept = [[] for _ in range(100_000)]
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gc.freeze()
"""

WHO_IS_LEFT = """
import os, time

def test_what_leaves_a_child():
    if not os.fork():
        time.sleep(1000)
"""

IN_TIME = """
def test_what_ends():
    pass
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "test_it.py"
    path.write_text(text)
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "hang"),
            *("--rootdir", str(folder), str(path), *arguments),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(KIT), "QUIVER_HANG_SECONDS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("text", [IN_WHAT_IT_CLOSES, IN_WHAT_IT_LEAVES])
def test_who_hangs_is_ended_and_says_where(tmp_path, text):
    done = run(tmp_path, text, "--timeout", "1")
    assert done.returncode == 1
    assert "Timeout (0:00:0" in done.stderr
    assert 'threading.py", line' in done.stderr


def test_who_hangs_in_a_worker_is_named(tmp_path):
    done = run(tmp_path, IN_WHAT_IT_CLOSES, "--timeout", "1", "-n", "1")
    assert done.returncode == 1
    assert "test_what_hangs" in done.stdout.rpartition("FAILED")[2]
    assert "Timeout (0:00:02" in done.stderr


def test_a_child_is_killed_by_what_a_block_is_left_by(tmp_path):
    done = run(tmp_path, WITH_A_CHILD, "--timeout", "60")
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_child_that_is_left_is_killed_and_told(tmp_path, workers):
    """It has what the run prints to: whoever reads that to its end would wait for it."""
    done = run(tmp_path, WHO_IS_LEFT, "--timeout", "60", "-n", workers)
    assert done.returncode == 0
    assert done.stderr.count("a forked process was left, and is killed: ") == 1


def test_in_a_forked_child_nothing_of_others_is_collected(tmp_path):
    done = run(tmp_path, WITH_A_FORK, "--timeout", "60")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seconds", ["0", "1", "100"])
def test_who_ends_is_left_alone(tmp_path, seconds):
    done = run(tmp_path, IN_TIME, "--timeout", seconds)
    assert (done.returncode, done.stderr) == (0, "")
