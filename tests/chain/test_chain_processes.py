"""Nodes as processes: killed, stopped, cut off at each place of a chain while it is written.

All but one are slow, and run by make crash: each fault at every place with QUIVER_CHAIN=all, as
that has it, and without it one fault at one place.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from cluster_kit import value_of
from node_processes import PATIENCE, Load, Processes, Watching, judge, small

from quiver.errors import QuiverError

pytestmark = pytest.mark.timeout(240)
PLACES = ("head", "middle", "tail")
BEFORE, AFTER = 60, 60


def kill(processes: Processes, name: str) -> None:
    processes.nodes[name].kill()


def stop(processes: Processes, name: str) -> None:
    processes.nodes[name].signal(signal.SIGSTOP)


def cut(processes: Processes, name: str) -> None:
    processes.nodes[name].link.cut()


def recover(processes: Processes, name: str, fault) -> None:
    if fault is kill:
        processes.restart(name)
    elif fault is stop:
        processes.nodes[name].signal(signal.SIGCONT)
    else:
        processes.nodes[name].link.heal()


EVERY = [(place, fault) for place in range(3) for fault in (kill, stop, cut)]
FAULTS = EVERY if os.environ.get("QUIVER_CHAIN") == "all" else [(1, cut)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "fault"), FAULTS, ids=[f"{PLACES[place]}-{fault.__name__}" for place, fault in FAULTS]
)
def test_a_fault_while_it_is_written_loses_nothing_and_gives_nothing_twice(
    place, fault, tmp_path, record_property
):
    with (
        Processes(tmp_path, "a", "b", "c", "d") as processes,
        processes.connect() as cluster,
    ):
        watching = Watching(cluster, "core_0")
        load = Load(cluster.loader("core_0", ["events"], rules=small()))
        load.send(BEFORE)
        victim = load.loader.record.open.locations[place]
        fault(processes, victim)
        load.send(AFTER)
        assert victim not in load.loader.record.open.locations
        record_property("pause_seconds", round(max(load.pauses[BEFORE:]), 2))
        recover(processes, victim, fault)
        load.send(5)
        load.loader.close(PATIENCE)
        committed = judge(cluster, "core_0", load)
        assert committed == load.acked
        watching.wait(len(committed))
        watching.close()
        assert watching.found == committed


@pytest.mark.slow
def test_a_loader_that_dies_leaves_a_beginning_and_the_next_one_goes_on(tmp_path):
    with Processes(tmp_path, "a", "b", "c") as processes, processes.connect() as cluster:
        load = Load(cluster.loader("core_0", ["events"], rules=small()))
        load.send(BEFORE)
        load.loader.abandon()
        committed = judge(cluster, "core_0", load)
        assert committed == load.acked
        again = cluster.loader("core_0", ["events"], rules=small().__class__(rf=3, takes_over=True))
        load.loader = again
        load.send(AFTER)
        with pytest.raises(QuiverError):
            cluster.loader("core_0", ["events"], rules=small()).wait_open(PATIENCE)
        again.close(PATIENCE)
        assert judge(cluster, "core_0", load) == load.acked


def test_r27_all_nodes_are_killed_behind_an_ack_and_everything_is_there(tmp_path):
    with Processes(tmp_path, "a", "b", "c") as processes, processes.connect() as cluster:
        load = Load(cluster.loader("core_0", ["events"], rules=small()))
        load.send(BEFORE)
        for node in processes.nodes.values():
            node.kill()
        load.loader.abandon()
        for name in processes.nodes:
            processes.restart(name)
        assert judge(cluster, "core_0", load) == load.acked


def told(folder, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quiver", "chain", *words, "--metadata", f"{folder}/meta"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def until_all_copies(folder) -> None:
    """Return once each block has its copies on nodes that answer."""
    begun = time.monotonic()
    while told(folder, "status").returncode:
        assert time.monotonic() - begun < PATIENCE, told(folder, "status").stdout


@pytest.mark.slow
def test_r35_a_node_is_killed_for_good_and_others_get_its_copies(tmp_path, record_property):
    with Processes(tmp_path, "a", "b", "c") as processes, processes.connect() as cluster:
        load = Load(cluster.loader("core_0", ["events"], rules=small(2)))
        load.send(BEFORE)
        victim = load.loader.record.open.locations[0]
        processes.nodes[victim].kill()
        begun = time.monotonic()
        load.send(AFTER)
        until_all_copies(tmp_path)
        record_property("seconds_to_all_copies", round(time.monotonic() - begun, 1))
        load.loader.close(PATIENCE)
        assert judge(cluster, "core_0", load) == load.acked
        assert f'"{victim}"' not in told(tmp_path, "ls", "core_0", "--json").stdout


@pytest.mark.slow
def test_a_block_whose_loader_was_killed_is_sealed_by_the_nodes(tmp_path):
    code = (
        "import sys; from cluster_kit import row; import quiver\n"
        "loader = quiver.connect(sys.argv[1]).loader('core_0', ['events'])\n"
        "for n in range(20): loader.send(row(n), timeout=60).wait(60)\n"
        "print('all', flush=True); sys.stdin.read()"
    )
    with (
        Processes(tmp_path, "a", "b", options=("--orphan-after", "3s")) as processes,
        processes.connect() as cluster,
        subprocess.Popen(
            [sys.executable, "-c", code, f"{tmp_path}/meta"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ) as child,
    ):
        assert child.stdout.readline() == b"all\n"
        assert processes.record(cluster, "core_0").open is not None
        child.kill()
        begun = time.monotonic()
        while processes.record(cluster, "core_0").open is not None:
            assert time.monotonic() - begun < PATIENCE
        assert processes.record(cluster, "core_0").last_seq == 19
        with cluster.cursor("core_0") as cursor:
            assert [value_of(message) for message in cursor] == list(range(20))


@pytest.mark.slow
def test_nodes_drain_on_sigterm_and_the_command_line_tells_of_them(tmp_path):
    with Processes(tmp_path, "a", "b", "c") as processes, processes.connect() as cluster:
        load = Load(cluster.loader("core_0", ["events"], rules=small(2)))
        load.send(20)
        gone = load.loader.record.open.locations[0]
        assert processes.nodes[gone].end() == 0
        load.send(20)
        load.loader.close(PATIENCE)
        status = told(tmp_path, "status")
        assert "offline" in status.stdout
        assert status.stdout.count("serving") == 2
        assert "core_0" in told(tmp_path, "ls").stdout
        processes.restart(gone)
        until_all_copies(tmp_path)
        assert "finished" in told(tmp_path, "ls", "core_0", "--json").stdout
        assert judge(cluster, "core_0", load) == load.acked
