"""How much memory a writer takes, and how many bytes it writes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import quiver
from bench.kit import ROOT, Bench
from bench.wal import shapes
from quiver.testing import MemoryDisk

__all__ = ["memory"]

MEGABYTES: Final = (200, 2000)
ROWS: Final = 1000
"""Of the bundles that the bounds are for."""
TARGET_BYTES: Final = 32 << 20
"""Of a segment: the default of ``segment.target_size``."""
_MEMORY_MOST: Final = 4
_WRITTEN_MOST: Final = 2.05
_SEGMENT_MOST: Final = 1.02
_PAUSE_SECONDS: Final = 0.6
_PAUSE_EACH: Final = 100e6
"""Somebody, or the disk, stands still so long each so many bytes."""
_DEPTH: Final = 64
"""Receipts that are waited for at most: a writer that never looks has no bound of its own."""


def memory(bench: Bench) -> None:
    """Write little and much, bundles of three sizes."""
    rounds = max(min(bench.rounds, 3), 1)
    little, much = (max(int(n * bench.scale), 100) for n in MEGABYTES)
    peaks: dict[int, list[float]] = {}
    for megabytes, rows in ((little, ROWS), (much, ROWS), (little, 100), (little, 10_000)):
        runs = [_child(bench.folder, megabytes, rows) for _ in range(rounds)]
        above = [float(each["peak"] - each["imports"]) for each in runs]
        name = f"{megabytes:,} MB in bundles of {rows:,} rows"
        standard = rows == ROWS
        bench.add(
            f"memory at most, above imports, by the size of a segment: {name}",
            above,
            [float(TARGET_BYTES)] * rounds,
            wanted=("at most", _MEMORY_MOST) if standard else None,
            megabytes_of_imports=runs[0]["imports"] / 1e6,
            megabytes_of_arrow_at_most=runs[0]["pool"] / 1e6,
        )
        accepted = [float(each["accepted"]) for each in runs]
        bench.add(
            f"bytes written by bytes taken: {name}",
            [float(each["written"]) for each in runs],
            accepted,
            wanted=("at most", _WRITTEN_MOST) if standard else None,
        )
        bench.add(
            f"bytes of segments by bytes of log entries: {name}",
            [float(each["segments"]) for each in runs],
            accepted,
            wanted=("at most", _SEGMENT_MOST) if standard else None,
        )
        if standard:
            peaks[megabytes] = above
    paused = max(much // 2, little)
    runs = [_child(bench.folder, paused, ROWS, pauses=True) for _ in range(rounds)]
    bench.add(
        f"memory at most, above imports, by the size of a segment: {paused:,} MB in bundles of "
        f"{ROWS:,} rows, with a pause of {_PAUSE_SECONDS:g} s each {_PAUSE_EACH / 1e6:.0f} MB",
        [float(each["peak"] - each["imports"]) for each in runs],
        [float(TARGET_BYTES)] * rounds,
        wanted=("at most", _MEMORY_MOST),
        megabytes_of_arrow_at_most=runs[0]["pool"] / 1e6,
    )
    bench.add(f"memory for {much:,} MB by that for {little:,} MB", peaks[much], peaks[little])


def _child(folder: Path, megabytes: int, rows: int, *, pauses: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "bench.growth.memory", place, str(megabytes), str(rows)),
                *(["--pauses"] if pauses else []),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return dict(json.loads(done.stdout))


def _write(folder: Path, megabytes: int, rows: int, *, pauses: bool) -> dict[str, int]:
    """Write a store and look at this process."""
    import pyarrow as pa

    # What is imported when it is needed first is no memory of this store.
    with quiver.open("first", slots=shapes.SLOTS, disk=MemoryDisk(), worker=False) as first:
        first.append(shapes.standard(10))
    bundles = [shapes.standard(rows, seed) for seed in range(8)]
    sizes = [len(shapes.frames([shapes.encoded(bundle, 0)])[0]) for bundle in bundles]
    imports, before = _peak_bytes(), _written_bytes()
    accepted = number = 0
    pause_at = _PAUSE_EACH if pauses else float("inf")
    receipts: list[Any] = []
    with quiver.open(folder / "store", slots=shapes.SLOTS) as store:
        while accepted < megabytes * 1e6:
            receipts.append(store.append(bundles[number % 8], wait=False))
            accepted += sizes[number % 8]
            number += 1
            if accepted > pause_at:
                pause_at += _PAUSE_EACH
                time.sleep(_PAUSE_SECONDS)
            if len(receipts) == _DEPTH:
                receipts.pop(0).wait()
        receipts.pop().wait()
    segments = (folder / "store").glob("core_0/segments/*.qseg")
    return {
        "imports": imports,
        "peak": _peak_bytes(),
        "pool": pa.default_memory_pool().max_memory(),
        "accepted": accepted,
        "written": _written_bytes() - before,
        "segments": sum(place.stat().st_size for place in segments),
    }


def _peak_bytes() -> int:
    """Say how much memory this process had at most; of its own image, not of who started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _written_bytes() -> int:
    """Say for how many bytes this process made the disk work: pages that it made dirty."""
    return int(Path("/proc/self/io").read_text().split("\nwrite_bytes:")[1].split()[0])


if __name__ == "__main__":
    place, size, each = sys.argv[1:4]
    found = _write(Path(place), int(size), int(each), pauses=len(sys.argv) > 4)
    print(json.dumps(found))
