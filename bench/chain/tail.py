"""How far a live cursor is behind what its loader knows, one clock for both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import numpy as np

import quiver
from bench.chain.nodes import PATIENCE, Nodes
from bench.chain.writing import NAMES, SMALL_BYTES, bundle_of
from bench.demo_chain.journal import noted
from bench.demo_stream.processes import Actor, python
from bench.kit import Bench
from quiver.chain import LoaderRules
from quiver.chain.cluster import Cluster

__all__ = ["tail"]

_COUNT: Final = 600
_EVERY: Final = 0.005
_GOAL_MS: Final = 1.0


def tail(bench: Bench) -> None:
    """Append 200 entries a second, and compare when each was acknowledged and when it was read."""
    count = max(int(_COUNT * bench.scale), 20)
    folder = bench.folder / "tail"
    with (
        Nodes(folder / "nodes", NAMES) as nodes,
        quiver.connect(nodes.metadata) as cluster,
    ):
        behind = [
            lags(cluster, nodes.metadata, folder / f"{each}", count) for each in range(bench.rounds)
        ]
    every = np.concatenate(behind)
    bench.more["behind"] = every.tolist()
    bench.add(
        "a live cursor in a process of its own behind the ack, 3 copies, p50: by 1 ms",
        [float(np.median(each)) for each in behind],
        [_GOAL_MS] * len(behind),
        wanted=("at most", 1.0),
        ms_p50=float(np.median(every)),
        ms_p99=float(np.percentile(every, 99)),
    )


def lags(cluster: Cluster, metadata: str, folder: Path, count: int) -> Any:
    """Give how many milliseconds the cursor had each entry behind its ack; before it is less."""
    folder.mkdir()
    partition, journal = f"round_{folder.name}", str(folder / "seen")
    loader = cluster.loader(partition, ["events"], rules=LoaderRules(rf=3))
    loader.wait_open(PATIENCE)
    command = python("bench.chain.follower", metadata, partition, journal, str(count))
    follower = Actor("follower", command, log=str(folder / "log"))
    follower.start()
    try:
        if not follower.await_that(lambda: follower.has_said("ready"), PATIENCE):
            raise SystemExit(f"the cursor did not start; see {folder / 'log'}")
        acked, bundle = np.zeros(count), bundle_of(SMALL_BYTES)
        for number in range(count):
            loader.send(bundle).wait(PATIENCE)
            acked[number] = time.monotonic_ns()
            time.sleep(_EVERY)
        if not follower.await_that(lambda: follower.has_said("done"), PATIENCE):
            raise SystemExit(f"the cursor did not come to the end; see {folder / 'log'}")
    finally:
        follower.kill()
        loader.abandon()
    warmed = count // 10
    return ((noted(journal)[:, 1] - acked) / 1e6)[warmed:]
