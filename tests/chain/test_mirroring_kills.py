"""A real process mirrors a cluster of real nodes; both are killed, again and again: all is once.

``QUIVER_MIRROR_KILLS`` says how often; some by default.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from node_processes import PATIENCE, Load, Processes, small

import quiver
from quiver.chain import Mirror, Partition
from quiver.chain.cluster import Cluster
from quiver.clock import SystemClock

CHILD = Path(__file__).parents[1] / "kit" / "mirror_child.py"
KILLS = int(os.environ.get("QUIVER_MIRROR_KILLS", "3"))
MIRRORED = {"segment": {"time": "caller"}}


def alone(cluster: Cluster) -> set[str]:
    """The nodes that have the only copy of a block: without them its readers wait, and have to."""
    opened = Partition(cluster.metadata, "core_0", clock=SystemClock())
    blocks = opened.blocks_now(opened.read())
    return {block.locations[0] for block in blocks if len(block.locations) == 1}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_bundle_is_once_whatever_kills_nodes_and_who_mirrors_them(tmp_path: Path) -> None:
    store_path = str(tmp_path / "store")
    lot = random.Random(KILLS)
    command = [sys.executable, str(CHILD), store_path, str(tmp_path / "meta")]
    names = ("a", "b", "c")
    with Processes(tmp_path, *names) as nodes, nodes.connect() as cluster:
        load = Load(cluster.loader("core_0", ["events"], rules=small(2)))
        load.send(10)
        for _ in range(KILLS):
            victim = nodes.nodes[lot.choice(sorted(set(names) - alone(cluster)))]
            sending = threading.Thread(target=load.send, args=(60,))
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                sending.start()
                for _ in range(lot.randint(1, 20)):
                    assert child.stdout.readline(), "it ended by itself"
                victim.kill()
                for _ in range(lot.randint(1, 20)):
                    assert child.stdout.readline(), "it ended by itself"
                child.kill()
            sending.join()
            nodes.restart(victim.name)
        load.send(10)  # Of all before, the last of them may have everything.
        load.loader.close(timeout=PATIENCE)
        with quiver.open(store_path, core=0, worker=False, config=MIRRORED) as store:
            assert store.recovery.damage == []
            with Mirror(store, cluster) as mirror:
                assert 0 < mirror.run(once=True).bundle_count < len(load.acked)
    with quiver.cursor(store_path) as cursor:
        found = [message.bundle["events"]["n"][0].as_py() for message in cursor]
    assert found == load.acked == list(range(len(found)))
