"""Throughput where the disk is what is waited for: it takes so many bytes a second and no more.

The limit is that of a control group of Linux (``blkio.throttle.write_bps_device``, version 1), in
which everything of this measure runs: the loader, the nodes, and the store they are compared with.
It takes root; where it cannot be set the rows are left out, and the page says so.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import quiver
from bench.chain.nodes import Nodes
from bench.chain.writing import COPIES, LARGE_BYTES, NAMES, bundle_of, rates
from bench.kit import Bench
from quiver.chain.cluster import Cluster

__all__ = ["bound"]

_GROUPS: Final = Path("/sys/fs/cgroup/blkio")
_LIMIT: Final = "blkio.throttle.write_bps_device"
_BYTES_A_SECOND: Final = 200_000_000
_COUNT: Final = 192
"""Of a mebibyte: a second. The kernel lets a tenth of that through at once when it was idle."""


def bound(bench: Bench) -> None:
    """Compare how much a second is safe on a disk that takes 200 MB a second."""
    with _slow_disk(bench.folder) as is_slow:
        if not is_slow:
            bench.notes.append(f"LEFT OUT: a disk that is slow, which takes root and {_GROUPS}.\n")
            return
        place = bench.folder / "slow"
        with Nodes(place, NAMES) as nodes, quiver.connect(nodes.metadata) as cluster:
            _compare(bench, cluster)


def _compare(bench: Bench, cluster: Cluster) -> None:
    count = max(int(_COUNT * bench.scale), 2)
    found = bench.interleave(**rates(bench, cluster, bundle_of(LARGE_BYTES), count=count))
    for copies in COPIES:
        ours = found[f"chain_{copies}"]
        bench.add(
            f"entries of 1 MiB, a disk of {_BYTES_A_SECOND // 1_000_000} MB a second, {copies} "
            "copies: chain by the share of one store",
            ours,
            [rate / copies for rate in found["single"]],
            wanted=("at least", 0.8),
            MB_a_second=statistics.median(ours) / 1e6,
            MB_a_second_of_the_store=statistics.median(found["single"]) / 1e6,
        )


@contextmanager
def _slow_disk(folder: Path) -> Iterator[bool]:
    """Have this process, and those that it starts, write no faster; gives whether they do."""
    group = _GROUPS / f"quiver-bench-{os.getpid()}"
    before = _GROUPS / _own_group().lstrip("/") / "cgroup.procs"
    try:
        group.mkdir()
    except OSError:
        yield False
        return
    try:
        try:
            (group / _LIMIT).write_text(f"{_disk_of(folder)} {_BYTES_A_SECOND}")
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            yield False
            return
        yield True
    finally:
        before.write_text(str(os.getpid()))
        group.rmdir()


def _own_group() -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if "blkio" in names.split(","):
            return path
    return ""


def _disk_of(folder: Path) -> str:
    """Name the whole disk that a folder is on."""
    device = folder.stat().st_dev
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    if (node / "partition").exists():
        node = node.parent
    return (node / "dev").read_text().strip()
