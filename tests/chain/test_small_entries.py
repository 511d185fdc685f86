"""Small entries that are waited for, of a node that is a process: who wakes, who is struck."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from cluster_kit import row, value_of
from node_processes import PATIENCE, Load, Processes
from strikes import Struck

from quiver.chain import polling, use_polling
from quiver.chain.loading import LoaderRules

pytestmark = pytest.mark.timeout(240)
ONE = LoaderRules(rf=1)
COUNT = 300


def woken(process_id: int) -> int:
    """How often threads of gRPC's pool slept in a process, and went on."""
    found = 0
    for task in Path(f"/proc/{process_id}/task").iterdir():
        if (task / "comm").read_text().strip() == "event_engine":
            lines = (task / "status").read_text().splitlines()
            (line,) = [each for each in lines if each.startswith("voluntary_ctxt_switches")]
            found += int(line.split()[1])
    return found


def woken_while_loaded(folder: Path) -> int:
    """Count it for entries that are waited for, one behind the other."""
    with (
        Processes(folder, "a") as processes,
        processes.connect() as cluster,
        cluster.loader("p", ["events"], rules=ONE) as loader,
    ):
        load = Load(loader)
        load.send(20)
        process_id = processes.nodes["a"].process.pid
        before = woken(process_id)
        load.send(COUNT)
        found = woken(process_id) - before
    assert (folder / "a.log").read_text() == ""
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.skipif(not pa.__version__.startswith("26."), reason="gRPC is told so with Arrow 26")
def test_a_node_waits_for_messages_by_itself_unless_somebody_says_what_grpc_does(
    tmp_path, monkeypatch
):
    for name in ("own", "said"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    own = woken_while_loaded(tmp_path / "own")
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    assert woken_while_loaded(tmp_path / "said") > max(COUNT, 2 * own)  # Time wakes them as well.


LOADS = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from quiver.chain import use_polling
assert use_polling() is (sys.argv[2] == "own")
import quiver
from node_processes import Load
from test_small_entries import ONE, own_woken
with quiver.connect(sys.argv[1]) as cluster, cluster.loader("p", ["events"], rules=ONE) as loader:
    load = Load(loader)
    load.send(20)
    before = own_woken()
    load.send(300)
    print(own_woken() - before)
"""


def own_woken() -> int:
    return woken(os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.skipif(not pa.__version__.startswith("26."), reason="gRPC is told so with Arrow 26")
def test_a_loader_may_have_grpc_wake_it_and_nobody_before(tmp_path):
    found = {}
    here = Path(__file__).parent
    plain = {key: value for key, value in os.environ.items() if key != "GRPC_EXPERIMENTS"}
    with Processes(tmp_path, "a"):
        for name, said in (("own", {}), ("said", {"GRPC_EXPERIMENTS": ""})):
            words = (str(tmp_path / "meta"), name, str(here), str(here.parent / "kit"))
            done = subprocess.run(
                [sys.executable, "-c", LOADS, *words],
                env=plain | said, check=False, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            found[name] = int(done.stdout)
    assert found["said"] > max(COUNT, 2 * found["own"])


def test_another_arrow_is_told_nothing(monkeypatch):
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    monkeypatch.setattr(polling, "_ARROW", "1.")
    assert not use_polling()
    assert "GRPC_EXPERIMENTS" not in os.environ


def test_wherever_who_waits_is_interrupted_each_entry_is_in_once_at_most(tmp_path):
    """And all later ones are: the block that he was interrupted in ends, and another one begins."""
    is_armed = False

    def strike(*_):
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise Struck

    acked, value = [], 0
    with Processes(tmp_path, "a") as processes, processes.connect() as cluster:
        loader = cluster.loader("p", ["events"], rules=ONE)
        loader.send(row(value, 200), timeout=PATIENCE).wait(PATIENCE)
        before = signal.signal(signal.SIGALRM, strike)
        try:
            for number in range(200):
                # Again and again: pyarrow lets no exception out of some of what it calls.
                signal.setitimer(signal.ITIMER_REAL, 3e-5 + number * 3e-6, 0.01)
                try:
                    is_armed = True
                    while True:
                        value += 1
                        loader.send(row(value, 200), timeout=PATIENCE).wait(PATIENCE)
                        acked.append(value)
                except Struck:
                    continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        loader.send(row(value + 1, 200), timeout=PATIENCE).wait(PATIENCE)
        loader.close(PATIENCE)
        with cluster.cursor("p") as cursor:
            found = [(message.wal_seq, value_of(message)) for message in cursor]
    values = [each for _, each in found]
    assert values == sorted(set(values))
    assert {0, value + 1, *acked} <= set(values)
    assert [seq for seq, _ in found] == list(range(len(found)))
