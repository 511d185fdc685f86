"""``python -m bench.spark.profile``: where the time of a job goes, in Java and in Python.

Writes ``bench/SPARK_PROFILE.md`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from bench.spark import batch
from bench.spark.cpu import by_thread, since
from bench.spark.flight import REST, STAGES, Flight, stages
from bench.spark.workers import bench_session
from quiver.spark import QuiverDataSource

ROOT = Path(__file__).parents[2]
SOURCES = ("store", "ready", "none")
TITLES = {"store": "store", "ready": "ready batches", "none": "Parquet, uncompressed"}
THREADS = ("tasks", "garbage collector", "compilers", "rest of Java", "Python")
_TOP = 12
_WARM_UPS = 2
_PYTHON = {
    "crc32c": "checksums, which also bring in the pages",
    "validate_table": "Arrow's full validation: offsets, UTF-8",
    "_join": "joining small batches",
    "finish": "Spark's types",
}


class Profile(NamedTuple):
    """Of one run, in the middle of several: seconds by thread, and what Java's tasks were at."""

    seconds: Counter[str]
    stages: Counter[str]
    top: Counter[str]
    samples: int

    def stage_seconds(self, stage: str) -> float:
        """Give the seconds of the tasks' threads that a stage took."""
        return self.seconds["tasks"] * self.stages[stage] / max(1, self.samples)


def main() -> None:
    """Profile, and write the page."""
    options = argparse.ArgumentParser(prog="bench.spark.profile", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=0.5, help="of the number of rows")
    options.add_argument("--dir", help="where to write")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as name:
        folder = Path(name)
        spark = bench_session()
        try:
            batch.prepare(spark, folder, asked.scale)
            found = {
                job.name: _profiles(spark, job, folder, asked.rounds) for job in batch.JOBS[1::-1]
            }
        finally:
            spark.stop()
        python = _python(folder / "six")
    text = (
        "\n".join([_head(asked.rounds, asked.scale), *_java(found), *_told_python(python)]) + "\n"
    )
    if not asked.attempt:
        (ROOT / "bench" / "SPARK_PROFILE.md").write_text(text)
    print(text)


def _profiles(spark: SparkSession, job: batch.Job, folder: Path, rounds: int) -> dict[str, Profile]:
    def run(source: str) -> None:
        job.act(batch.load(spark, folder, job.rows, source), folder)

    for source in SOURCES:  # Java compiles anew what is recorded first.
        flight = Flight(spark)
        flight.start()
        for _ in range(_WARM_UPS):
            run(source)
        flight.discard()
    found = {}
    for source in SOURCES:
        run(source)  # Spark ends Python processes that have waited for a minute.
        flight, taken = Flight(spark), Counter[str]()
        flight.start()
        for _ in range(rounds):
            before = by_thread()
            run(source)
            taken.update(since(before))
        samples = flight.stop(folder / f"{source}.jfr")
        seconds = Counter({kind: value / rounds for kind, value in taken.items()})
        top = Counter(frames[0] for frames in samples)
        found[source] = Profile(seconds, stages(samples), top, len(samples))
    return found


def _python(store: Path) -> dict[str, float]:
    """Read all partitions in this process, warm, and give the CPU of some functions and of all."""
    source = QuiverDataSource({"path": str(store), "slot": "d"})
    reader = source.reader(source.schema())
    partitions = reader.partitions()

    def read() -> None:
        for partition in partitions:
            for _ in reader.read(partition):
                pass

    read()
    began = time.process_time()
    read()
    whole = time.process_time() - began
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(read)
    stats: Any = pstats.Stats(profiler)
    found = dict.fromkeys(_PYTHON.values(), 0.0)
    for (_, _, name), (_, _, _, cumulative, _) in stats.stats.items():
        for mark, title in _PYTHON.items():
            if name == mark or name.endswith(f".{mark}>"):
                found[title] += cumulative
    return found | {"all of it, unprofiled": whole}


def _head(rounds: int, scale: float) -> str:
    about = (
        f"{time.strftime('%Y-%m-%d')}. `python -m bench.spark.profile`: {scale:g} of the rows of "
        f"[SPARK.md](SPARK.md), warm, {rounds} runs each on {os.cpu_count()} cores, load at the "
        f"end {os.getloadavg()[0]:.1f}. Seconds are CPU seconds of a run, by thread from the "
        "kernel; those of the tasks' threads are shared out by samples of Java's flight recorder. "
        "*Ready batches* is a Python source without a store: what lies in memory is handed over "
        "as it is. What its tasks take no Python source can save."
    )
    why = (
        "Rows of a Python source are written twice: out of Arrow's vectors, value by value through "
        "virtual calls, and again by the generated code around the scan. Those of Parquet are "
        "written once, by generated code that knows its columns. And for a source of rows Spark "
        "counts each of them, and gathers the source's metrics anew every few."
    )
    return f"# Where a Spark job's time goes\n\n{about}\n\n{why}"


def _java(found: dict[str, dict[str, Profile]]) -> list[str]:
    lines = []
    for job, profiles in found.items():
        lines += ["", f"## {job}", "", "| CPU seconds | " + _row(TITLES[s] for s in profiles)]
        lines += ["|---|" + "---:|" * len(profiles)]
        for stage in (*(name for name, _ in STAGES), REST):
            if any(one.stages[stage] for one in profiles.values()):
                values = (f"{one.stage_seconds(stage):.2f}" for one in profiles.values())
                lines.append(f"| tasks: {stage} | " + _row(values))
        for kind in THREADS:
            values = (f"{one.seconds[kind]:.2f}" for one in profiles.values())
            lines.append(f"| {'**tasks, all**' if kind == 'tasks' else kind} | " + _row(values))
        totals = (f"**{one.seconds.total():.2f}**" for one in profiles.values())
        lines.append("| **all** | " + _row(totals))
        samples = ", ".join(f"{TITLES[s]} {one.samples:,}" for s, one in profiles.items())
        lines += ["", f"Samples: {samples}. Innermost methods:", ""]
        lines += ["| " + _row(TITLES[source] for source in profiles), "|" + "---|" * len(profiles)]
        tops = [one.top.most_common(_TOP) for one in profiles.values()]
        counts = [one.samples for one in profiles.values()]
        for place in range(max(map(len, tops))):
            cells = (
                f"{top[place][1] / count:.0%} `{top[place][0]}`" if place < len(top) else ""
                for top, count in zip(tops, counts, strict=True)
            )
            lines.append("| " + _row(cells))
    return lines


def _row(cells: Any) -> str:
    return " | ".join(cells) + " |"


def _told_python(found: dict[str, float]) -> list[str]:
    lines = ["", "## Python's side of the store", ""]
    lines += ["Reading all partitions in one process, without Spark.", ""]
    lines += ["| CPU seconds | |", "|---|---:|"]
    return lines + [f"| {name} | {value:.3f} |" for name, value in found.items()]


if __name__ == "__main__":
    main()
