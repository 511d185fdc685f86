"""Appends to a chain against appends to one store, on the same disk, each entry synced."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

import quiver
from bench.chain.bare import bare_chain
from bench.chain.nodes import PATIENCE, Nodes
from bench.kit import Bench, clocked, p99, warm
from quiver.chain import Loader, LoaderRules, Partition
from quiver.chain.cluster import Cluster
from quiver.chain.peers import BlockName
from quiver.clock import SystemClock

__all__ = [
    "COPIES",
    "LARGE_BYTES",
    "NAMES",
    "SMALL_BYTES",
    "bundle_of",
    "joined",
    "rates",
    "writing",
]

NAMES: Final = ("n1", "n2", "n3")
LARGE_BYTES: Final = 1 << 20
SMALL_BYTES: Final = 10_000
_LARGE_COUNT: Final = 64
_SMALL_COUNT: Final = 3000
_PACED_COUNT: Final = 400
_SYNCED: Final = 8
"""Of raw writes: about what a store syncs at once."""
_EVERY: Final = 0.01
_SHOWN: Final = 401
_FIRST: Final = 10
"""So many of each are waited for before others are timed: calls are opened for the first one."""
_WARM_BYTES: Final = 256 << 20
COPIES: Final = (1, 2, 3)
Waits: TypeAlias = Callable[[], list[float]]
_CONFIG: Final = {"segment": {"target_size": "1GiB"}}
"""What is timed of the store is its log, as it is of the chain."""


def bundle_of(size: int) -> dict[str, pa.RecordBatch]:
    """Make a bundle of so many bytes that nobody can make smaller."""
    values = np.random.default_rng(7).integers(0, 1 << 62, size // 8)
    return {"events": pa.record_batch({"n": values})}


@contextmanager
def a_store(bench: Bench) -> Iterator[Any]:
    """Open a store; nothing is left of it."""
    place = str(bench.folder / "store")
    try:
        with quiver.open(place, slots=["events"], config=_CONFIG) as store:
            yield store
    finally:
        shutil.rmtree(place)


@contextmanager
def a_loader(cluster: Cluster, copies: int) -> Iterator[Loader]:
    """Take a partition that nobody has; nothing is left of its block."""
    name = f"rf{copies}-{time.monotonic_ns()}"
    loader = cluster.loader(name, ["events"], rules=LoaderRules(rf=copies))
    try:
        loader.wait_open(PATIENCE)
        yield loader
        loader.close(PATIENCE)
    finally:
        loader.abandon()
        partition = Partition(cluster.metadata, name, clock=SystemClock())
        for block in partition.blocks_now(partition.read()):
            for node in block.locations:
                cluster.members(node).drop(BlockName(name, block.number))


def writing(bench: Bench) -> None:
    """Measure throughput with large entries, and latency with small ones."""
    with (
        Nodes(bench.folder / "nodes", NAMES) as nodes,
        quiver.connect(nodes.metadata) as cluster,
    ):
        throughput(bench, cluster)
        latency(bench, cluster)


def rates(
    bench: Bench,
    cluster: Cluster,
    bundle: dict[str, pa.RecordBatch],
    *,
    count: int,
    before: Callable[[], object] = lambda: None,
) -> dict[str, Callable[[], float]]:
    """Give what says how many bytes a second are safe: in one store, and with so many copies.

    ``before`` is done when all is open.
    """

    def store_rate() -> float:
        with a_store(bench) as store:
            before()
            begun = time.perf_counter()
            receipts = [store.append(bundle, wait=False) for _ in range(count)]
            receipts[-1].wait()
            return count * LARGE_BYTES / (time.perf_counter() - begun)

    def chain_rate(copies: int) -> float:
        with a_loader(cluster, copies) as loader:
            before()
            begun = time.perf_counter()
            for _ in range(count):
                loader.send(bundle, timeout=PATIENCE)
            loader.flush(PATIENCE)
            return count * LARGE_BYTES / (time.perf_counter() - begun)

    acts = {f"chain_{copies}": partial(chain_rate, copies) for copies in COPIES}
    return {"single": store_rate, **acts}


def throughput(bench: Bench, cluster: Cluster) -> None:
    """Compare how much a second is safe."""
    bundle, count = bundle_of(LARGE_BYTES), max(int(_LARGE_COUNT * bench.scale), 2)
    message = os.urandom(LARGE_BYTES)

    before = partial(warm, bench.folder, int(_WARM_BYTES * bench.scale))

    def bare_rate(copies: int) -> float:
        with bare_chain(bench.folder, copies) as bare:
            before()
            return bare.rate(message, count)

    def disk_rate() -> float:
        before()
        return _raw_rate(bench.folder / "raw", message, count)

    acts: dict[str, Callable[[], float]] = rates(bench, cluster, bundle, count=count, before=before)
    acts |= {f"bare_{copies}": partial(bare_rate, copies) for copies in COPIES}
    found = bench.interleave(disk=disk_rate, **acts)
    drawn = ("single", *(f"chain_{copies}" for copies in COPIES))
    bench.more["rates"] = {side: found[side] for side in drawn}
    for copies in COPIES:
        ours = found[f"chain_{copies}"]
        bench.add(
            f"throughput of entries of 1 MiB, {copies} copies: chain by the share of one store",
            ours,
            [rate / copies for rate in found["single"]],
            wanted=("at least", 0.8),
            MB_a_second=_median(ours) / 1e6,
            MB_a_second_of_the_store=_median(found["single"]) / 1e6,
            MB_a_second_of_the_disk=_median(found["disk"]) / 1e6,
        )
        bare = found[f"bare_{copies}"]
        share = [rate / copies for rate in found["single"]]
        bench.add(f"the same of bare Flight, {copies} copies", bare, share)


def _raw_rate(path: Path, message: bytes, count: int) -> float:
    """Write them to a file, synced each eight; bytes a second."""
    try:
        with path.open("wb", buffering=0) as file:
            begun = time.perf_counter()
            for number in range(count):
                file.write(message)
                if number % _SYNCED == _SYNCED - 1:
                    os.fdatasync(file.fileno())
            os.fdatasync(file.fileno())
            return count * len(message) / (time.perf_counter() - begun)
    finally:
        path.unlink(missing_ok=True)


def latency(bench: Bench, cluster: Cluster) -> None:
    """Compare how long each entry is waited for: one behind the other, and at one rate."""
    for every, said, name in ((0.0, "one at a time", "waits"), (_EVERY, "100 a second", "paced")):
        count = _FIRST + max(int((_PACED_COUNT if every else _SMALL_COUNT) * bench.scale), 10)
        all_of = bench.interleave(**_waits(bench, cluster, count, every))
        found = {side: [each[_FIRST:] for each in rounds] for side, rounds in all_of.items()}
        bench.more[name] = {side: _quantiles(joined(each)) for side, each in found.items()}
        for copies in COPIES:
            over, under = found[f"chain_{copies}"], found["single"]
            goal: Any = {"wanted": ("at most", 4.0)} if copies == max(COPIES) else {}
            bench.add(
                f"p99 of an entry of 10 KB, {said}, {copies} copies: chain by one store",
                [p99(each) for each in over],
                [p99(each) for each in under],
                ms=p99(joined(over)) * 1e3,
                ms_of_the_store=p99(joined(under)) * 1e3,
                ms_p50=_median(joined(over)) * 1e3,
                ms_p50_of_the_store=_median(joined(under)) * 1e3,
                ms_the_first_of_all=_median([each[0] for each in all_of[f"chain_{copies}"]]) * 1e3,
                **goal,
            )
            bare = found[f"bare_{copies}"]
            bench.add(
                f"the same of bare Flight, {said}, {copies} copies",
                [p99(each) for each in bare],
                [p99(each) for each in under],
                ms=p99(joined(bare)) * 1e3,
                ms_p50=_median(joined(bare)) * 1e3,
                ms_the_first_of_all=_median([each[0] for each in all_of[f"bare_{copies}"]]) * 1e3,
            )


def _waits(bench: Bench, cluster: Cluster, count: int, every: float) -> dict[str, Waits]:
    """Give for each side what waits for so many entries, a new one each so many seconds."""
    bundle = bundle_of(SMALL_BYTES)
    message = os.urandom(SMALL_BYTES)

    def store_waits() -> list[float]:
        with a_store(bench) as store:
            return paced(lambda: store.append(bundle), count, every)

    def chain_waits(copies: int) -> list[float]:
        with a_loader(cluster, copies) as loader:
            return paced(lambda: loader.send(bundle).wait(PATIENCE), count, every)

    def bare_waits(copies: int) -> list[float]:
        with bare_chain(bench.folder, copies) as bare:
            return paced(lambda: bare.wait_for_one(message), count, every)

    acts = {f"chain_{copies}": partial(chain_waits, copies) for copies in COPIES}
    acts |= {f"bare_{copies}": partial(bare_waits, copies) for copies in COPIES}
    return {"single": store_waits, **acts}


def paced(act: Callable[[], Any], count: int, every: float) -> list[float]:
    """Do something so often, each so many seconds or as soon as it was done; seconds of each."""
    found = []
    due = time.perf_counter()
    for _ in range(count):
        time.sleep(max(due - time.perf_counter(), 0.0))
        found.append(clocked(act))
        due = max(due + every, time.perf_counter())
    return found


def joined(rounds: Iterable[list[float]]) -> list[float]:
    """Give what was measured in all rounds."""
    return list(chain.from_iterable(rounds))


def _quantiles(values: list[float]) -> list[float]:
    """Give what a picture shows of many: as many values of each share."""
    shown: list[float] = np.quantile(values, np.linspace(0, 1, _SHOWN)).tolist()
    return shown


def _median(values: list[float]) -> float:
    return float(np.median(values))
