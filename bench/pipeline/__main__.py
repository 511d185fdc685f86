"""``make bench-pipeline``: a job from NDJSON to Parquet with a store in the middle, and without.

Writes ``bench/PIPELINE.md`` and ``bench/pipeline.json`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.kit import Bench, warm
from bench.pipeline import jobs
from bench.pipeline.sink import FILE_BUNDLES, same
from bench.pipeline.source import bundles, write_text

TEXT_BYTES: Final = 480_000_000
TARGET: Final = 1.05
Job = Callable[[Path, Path], dict[str, float] | None]

NOTES: Final = f"""
## The job

A thread reads lines of JSON, a mebibyte at a time, decodes them with `pyarrow.json`, parses times,
leaves out what is for debugging, derives routes, encodes dictionaries and sums up what services
did. Every {FILE_BUNDLES} such bundles become a Parquet file for each of two slots, synced, renamed,
and its folder synced. Arrow's own threads are off on both sides.

Without a store, rows go to the sink directly, or through a queue in memory to a thread of its own.
With one, each bundle is appended (`wal.durability` `sync`, `wait=False`: durable within 25 ms), a
subscriber takes runs of bundles once they are in segments, and acks them when their files are
synced. Files are cut at the same bundles and compared, row by row. The time ends when the last
file is synced and the store is closed: a store has to finish its last segment for that, which a
job that goes on never waits for. On one core nothing overlaps: that is what it costs in all.

`seconds of` beside a row are by the clock, of the store's part in the thread of the job (to open,
append, to be handed runs as tables, to ack, to finish the last segment, to close), and on a
processor, of its own threads, which write segments and sync.
"""


class Run(NamedTuple):
    """One run of a job."""

    wall: float
    cpu: float
    threads: dict[str, float]


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(
            Path(folder),
            rounds=asked.rounds,
            scale=asked.scale,
            part="pipeline",
            title="A store in the middle of a job: NDJSON to Parquet",
        )
        measure(bench)
    bench.notes = [NOTES]
    if not asked.attempt:
        bench.save()
    print(bench.page())


def measure(bench: Bench) -> None:
    """Run the job in each form, in turn."""
    text = bench.folder / "text.ndjson"
    write_text(text, int(TEXT_BYTES * bench.scale))
    arrow = sum(batch.nbytes for bundle in bundles(text) for batch in bundle.values())
    found = bench.interleave(
        plain_threads=lambda: run(bench, text, jobs.plain_threads),
        through_threads=lambda: run(bench, text, jobs.through_threads),
        plain=lambda: run(bench, text, jobs.plain),
        through=lambda: run(bench, text, jobs.through),
        plain_pinned=lambda: run(bench, text, jobs.plain, core=True),
        through_pinned=lambda: run(bench, text, jobs.through, core=True),
    )
    sizes = {"text_megabytes": text.stat().st_size / 1e6, "arrow_megabytes": arrow / 1e6}
    shape = "sink in a thread of its own"
    compare(bench, shape, found["through_threads"], found["plain_threads"], **sizes)
    compare(bench, "one thread for all", found["through"], found["plain"])
    compare(bench, "all on one core", found["through_pinned"], found["plain_pinned"], wanted=False)


def run(bench: Bench, text: Path, job: Job, *, core: bool = False) -> Run:
    """Run a job once and compare what came out with what came out first."""
    place = bench.folder / "round"
    warm(bench.folder)
    os.sync()  # Neither the last run nor the warming is to be written in this one's time.
    every = os.sched_getaffinity(0)
    if core:
        os.sched_setaffinity(0, {min(every)})
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        threads = job(text, place)
        found = Run(time.perf_counter() - wall, time.process_time() - cpu, threads or {})
    finally:
        os.sched_setaffinity(0, every)
    first = bench.folder / "first"
    if first.exists():
        same(place / "out", first)
    else:
        (place / "out").rename(first)
    shutil.rmtree(place)
    return found


def compare(
    bench: Bench,
    shape: str,
    ours: list[Run],
    theirs: list[Run],
    *,
    wanted: bool = True,
    **more: Any,
) -> None:
    """Note what a store adds: time, and work of processors."""
    walls = [[each.wall for each in runs] for runs in (ours, theirs)]
    cpus = [[each.cpu for each in runs] for runs in (ours, theirs)]
    seconds = {"seconds_without": statistics.median(walls[1])}
    bound = ("at most", TARGET) if wanted else None
    bench.add(f"time with a store, {shape}", *walls, wanted=bound, **seconds, **more)
    threads = {
        f"seconds_of_{name.replace('-', '_')}": statistics.median(r.threads[name] for r in ours)
        for name in ours[0].threads
        if all(name in each.threads for each in ours)
    }
    added = statistics.median(a - b for a, b in zip(*cpus, strict=True))
    bench.add(f"work of processors with a store, {shape}", *cpus, seconds_added=added, **threads)


if __name__ == "__main__":
    main()
