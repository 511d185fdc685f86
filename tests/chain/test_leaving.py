"""A process that ends with calls to nodes under way ends well: nothing comes back behind that."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import cluster_kit
import pyarrow as pa
import pytest
from cluster_kit import running

from quiver.chain import LoaderRules
from quiver.chain.wire.leaving import Calls

PROGRAM = """
import sys
import pyarrow as pa
import quiver
cluster = quiver.connect(sys.argv[1])
loader = cluster.loader("left", ["events"])
for n in range(5):
    loader.send({"events": pa.table({"n": [n]})}).wait(60)
cursor = cluster.cursor(["left"], live=True)
for _, message in zip(range(5), cursor):
    pass
subscription = cluster.subscribe("s", ["core_0"])
print(subscription.next(timeout=60) is not None)
"""

NODES = """
import pathlib, sys
import pyarrow as pa
from cluster_kit import STEADY, Nodes, value_of
nodes = Nodes(pathlib.Path(sys.argv[1]), STEADY)
nodes.start("a")
nodes.start("b")
cluster = nodes.cluster()
loader = cluster.loader("left", ["events"])
for n in range(3):
    loader.send({"events": pa.table({"n": [n]})}).wait(60)
print([value_of(message) for _, message in zip(range(3), cluster.cursor(["left"], live=True))])
"""

STREAMS = """
import atexit, sys, threading
closed = []
def left():
    for each in threading.enumerate():
        if each.name == "quiver-stream":
            each.join(20)
    print(closed)
atexit.register(left)  # Called behind all that is registered later.
import pyarrow as pa
import quiver
from quiver.chain.wire.outgoing import Outgoing
honest = Outgoing._end_writer
def end(self):
    honest(self)
    closed.append(self._node)
Outgoing._end_writer = end
cluster = quiver.connect(sys.argv[1])
loader = cluster.loader("idle", ["events"])
loader.send({"events": pa.table({"n": [1]})}).wait(60)
"""


@pytest.mark.parametrize("number", range(2))
def test_what_was_left_open_does_not_end_it_by_a_fault(tmp_path, number) -> None:
    """One process in fifteen ended by SIGSEGV, which none of these has to be."""
    with running(tmp_path, "a", "b") as nodes, nodes.cluster() as cluster:
        with cluster.loader("core_0", ["events"], rules=LoaderRules()) as loader:
            loader.send({"events": pa.table({"n": [number]})}).wait(60)
        places = ",".join(each.address for each in nodes.served.values())
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, f"quiver://{places}"],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


def test_writers_that_are_idle_are_closed_before_the_process_ends(tmp_path) -> None:
    """A writer that goes with the interpreter waits for its node, and one that stands still waits
    for ever."""
    with running(tmp_path, "a", "b") as nodes:
        places = ",".join(each.address for each in nodes.served.values())
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", STREAMS, f"quiver://{places}"],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.stdout.strip() in ("['a']", "['b']"), done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_nodes_that_nobody_closed_keep_no_process_from_its_end(tmp_path) -> None:
    """Flight waits for all calls there, and streams end when somebody says so."""
    kit = str(Path(cluster_kit.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NODES, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": kit},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 1, 2]"), done.stderr


def test_a_call_under_way_is_cancelled_and_waited_for() -> None:
    calls, order, is_in, go_on = Calls(), [], threading.Event(), threading.Event()

    def work() -> None:
        with calls.calling(go_on.set):
            is_in.set()
            go_on.wait(60)
            order.append("back")

    thread = threading.Thread(target=work)
    thread.start()
    assert is_in.wait(60)
    calls.end()
    order.append("ended")
    thread.join()
    assert order == ["back", "ended"]


def test_no_thread_begins_a_call_behind_the_end_and_the_main_thread_may() -> None:
    """What was cancelled is tried again by somebody: that one came back when nobody was there."""
    calls, begun = Calls(), []

    def work() -> None:
        with pytest.raises(SystemExit), calls.calling():
            begun.append("a thread")
        begun.append("refused")

    calls.end()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with calls.calling():
        begun.append("the main one")
    assert begun == ["refused", "the main one"]


def test_a_call_that_cannot_be_cancelled_keeps_no_process_for_long() -> None:
    calls, is_in, go_on = Calls(), threading.Event(), threading.Event()

    def work() -> None:
        with calls.calling():
            is_in.set()
            go_on.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert is_in.wait(60)
    calls.end()
    is_left = thread.is_alive()
    go_on.set()
    thread.join()
    assert is_left


def test_a_forked_process_waits_for_no_thread_of_the_other() -> None:
    calls = Calls()
    with calls.calling(lambda: pytest.fail("nobody cancels what another process called")):
        calls.begin()
        calls.end()
