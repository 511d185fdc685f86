"""A store that nobody empties: what its acts cost while the backlog grows from 1 GB to 20."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import quiver
from bench.growth.probes import Samples, claims, repeated, traced_bytes
from bench.kit import Bench, warm
from bench.wal import shapes

__all__ = ["Stage", "backlog"]

SIZES: Final = (1, 2, 5, 10, 20)
"""In GB of log entries."""
ROWS: Final = 10_000
_SPARE_BYTES: Final = 20_000_000_000
"""So much of the disk is left free."""
_LEFT_OUT: Final = (
    "\nThe backlog was grown up to {:g} GB: there was no time for {:g} GB, which "
    "`make bench-growth` takes."
)
_WINDOW_BYTES: Final = 400_000_000
"""Before each size so much is timed, in parts."""
_PARTS: Final = 5
_FILLING: Final = {"wal": {"durability": "segment"}}
"""The fastest way up to where the measuring begins: each byte is written once."""
_MEASURED: Final = {"wal": {"durability": "sync"}}


class Stage(NamedTuple):
    """What was found at one size."""

    gigabytes: float
    segments: int
    memory: int
    samples: Samples


def backlog(bench: Bench, seconds: float) -> list[Stage]:
    """Grow a store and look at each size; whatever happens, it is deleted.

    A size that could not be reached within so many seconds in all is left out.
    """
    folder = bench.folder / "backlog"
    sizes = [size * bench.scale for size in SIZES]
    room = shutil.disk_usage(bench.folder).free - _SPARE_BYTES
    possible = [size for size in sizes if size * 1e9 < room]
    if possible != sizes:
        bench.notes.append(f"\nThe disk had room for {possible[-1] if possible else 0} GB only.")
    bundles = [shapes.standard(ROWS, seed) for seed in range(8)]
    frame_bytes = len(shapes.frames([shapes.encoded(bundles[0], 0)])[0])
    stages: list[Stage] = []
    try:
        quiver.open(folder, slots=shapes.SLOTS).close()
        with quiver.open(folder) as store:
            store.subscribe("steady")  # It has everything yet to come, and takes a little of it.
            store.subscribe("stopped")
        written, begun, last = 0, time.monotonic(), 0.0
        for size in possible:
            spent = time.monotonic() - begun
            if written and spent + last * (size * 1e9 - written) > seconds:
                bench.notes.append(_LEFT_OUT.format(stages[-1].gigabytes, size))
                break
            before = written
            took, written = _grow(folder, bundles, size * 1e9, written, frame_bytes=frame_bytes)
            stages.append(_looked_at(folder, size, took))
            last = (time.monotonic() - begun - spent) / (written - before)
            print(f"{size:g} GB: {stages[-1].segments} segments, {spent:.0f} s before", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return stages


def _grow(
    folder: Path, bundles: list[Any], goal: float, written: int, *, frame_bytes: int
) -> tuple[list[float], int]:
    """Append up to a size; seconds for a megabyte of the last of it, in parts."""
    window = min(_WINDOW_BYTES, (goal - written) / 2)
    turns = itertools.cycle(bundles)
    with quiver.open(folder, config=_FILLING) as store:
        while written < goal - window:
            store.append(next(turns))
            written += frame_bytes
        store.finalize()
    os.sync()
    warm(folder.parent)
    with quiver.open(folder, config=_MEASURED) as store:
        marks = [(time.perf_counter(), written)]
        while written < goal:
            receipt = store.append(next(turns), wait=False)
            written += frame_bytes
            if written - marks[-1][1] >= window / _PARTS or written >= goal:
                receipt.wait()
                marks.append((time.perf_counter(), written))
    pairs = itertools.pairwise(marks)
    return [(b[0] - a[0]) / (b[1] - a[1]) * 1e6 for a, b in pairs], written


def _looked_at(folder: Path, size: float, took: list[float]) -> Stage:
    """Time what may depend on how much there is."""
    samples: Samples = {"append": took}

    def open_and_close() -> None:
        quiver.open(folder, worker=False).close()

    samples["open"] = repeated(open_and_close, 5)
    samples["scan"] = repeated(lambda: quiver.scan(folder, slot=shapes.SLOTS[0]).schema, 5)
    memory = traced_bytes(lambda: quiver.open(folder, worker=False))
    with quiver.open(folder, worker=False) as store:
        ready = store.subscribe("steady", slots=[shapes.SLOTS[-1]])
        samples["claim and ack"] = claims(ready)
        samples["tick"] = repeated(store.maintain)
        samples["lag"] = repeated(lambda: store.lag("stopped"))
        samples["stats"] = repeated(store.stats)
    segments = len(list(folder.glob("core_0/segments/*.qseg")))
    return Stage(size, segments, memory, samples)
