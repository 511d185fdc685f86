"""Whoever reads a part of a dataset may end: Arrow's threads are nobody's concern."""

from __future__ import annotations

import subprocess
import sys
import threading

import pyarrow as pa
import pytest

import quiver
from quiver.scan import ending

SEGMENTS = 30
ROUNDS = 3
READ_IN_PART = {
    "head": "dataset.head(1)",
    "kept": "kept = dataset.to_batches(); next(kept)",
    "let go of": "kept = dataset.to_batches(); next(kept); del kept",
    "take": "dataset.take([0])",
}


@pytest.fixture
def store(tmp_path):
    config = {"wal": {"durability": "segment"}}
    with quiver.open(tmp_path, slots=["a"], config=config, worker=False) as store:
        for number in range(SEGMENTS):
            store.append({"a": pa.record_batch({"n": [number]})})
            store.finalize()
    return tmp_path


@pytest.mark.parametrize("how", READ_IN_PART)
def test_a_process_ends_that_read_a_part(store, how):
    program = f"""
import sys, quiver
dataset = quiver.scan(sys.argv[1], slot="a").dataset()
{READ_IN_PART[how]}
"""
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", program, str(store)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_nothing_more_is_given_once_the_process_ends_and_who_is_inside_is_waited_for(monkeypatch):
    monkeypatch.setattr(ending, "_ending", threading.Event())
    inside, go = threading.Event(), threading.Event()

    def batches():
        yield 1
        inside.set()
        assert go.wait(60)
        yield 2
        pytest.fail("nobody wants that any more")

    found = []
    reads = threading.Thread(target=lambda: found.extend(ending.until_the_end(batches())))
    reads.start()
    assert inside.wait(60)
    leaves = threading.Thread(target=ending._leave)
    leaves.start()
    assert ending._ending.wait(60)
    assert leaves.is_alive()
    go.set()
    for thread in (reads, leaves):
        thread.join(60)
    assert found == [1, 2]
    assert ending._inside == set()
