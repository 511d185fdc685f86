"""The batch jobs, each from the store and from Parquet, in interleaved rounds of one session."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.spark import ready
from bench.spark.cpu import Cpu, spent
from bench.spark.rows import write_store

CODECS = ("none", "snappy")
SOURCES = ("store", "ready", *CODECS)


class Job(NamedTuple):
    """What is done, with which rows, and the least ratio to each Parquet that is wanted."""

    name: str
    rows: str
    act: Callable[[DataFrame, Path], object]
    goals: dict[str, float]
    columns: str = ""


def _write(frame: DataFrame, folder: Path) -> None:
    frame.write.mode("overwrite").option("compression", "snappy").parquet(f"{folder}/out")


def _noop(frame: DataFrame, _folder: Path) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _sum(frame: DataFrame, _folder: Path) -> None:
    frame.agg({"value": "sum"}).collect()


JOBS = (
    Job("write all columns to Parquet", "six", _write, {"none": 0.95, "snappy": 1.05}),
    Job("read all columns (noop)", "six", _noop, {"none": 0.65, "snappy": 0.95}),
    Job("sum of one of 20 columns", "twenty", _sum, {"none": 0.35}, columns="value"),
)


def prepare(spark: SparkSession, folder: Path, scale: float) -> None:
    """Write the stores, and the same rows as Parquet, by Spark itself; check that they are."""
    spark.dataSource.register(ready.ReadySource)
    for name, rows, extra in (("six", 4 << 20, 0), ("twenty", 1 << 20, 14)):
        write_store(folder / name, max(8192, int(rows * scale)), extra=extra)
        frame = load(spark, folder, name, "store")
        for codec in CODECS:
            frame.write.option("compression", codec).parquet(f"{folder}/{name}.{codec}")
            other = load(spark, folder, name, codec)
            checks = [f"count({c})" for c in frame.columns] + ["sum(id)", "sum(hash(*))"]
            if frame.selectExpr(*checks).first() != other.selectExpr(*checks).first():
                raise SystemExit(f"{name}: store and Parquet do not hold the same rows")
    for name, columns in sorted({(job.rows, job.columns) for job in JOBS}):
        ready.write_ready(folder / name, columns, _ready(folder, name, columns))


def measure(spark: SparkSession, folder: Path, rounds: int) -> list[dict[str, object]]:
    """Run all jobs in turn, once to warm up and then ``rounds`` times."""
    found: dict[tuple[str, str], list[tuple[float, Cpu]]] = {}
    for number in range(rounds + 1):
        for job in JOBS:
            for source in SOURCES:
                frame = load(spark, folder, job.rows, source, columns=job.columns)
                before, start = spent(), time.perf_counter()
                job.act(frame, folder)
                result = time.perf_counter() - start, spent() - before
                if number:
                    found.setdefault((job.name, source), []).append(result)
    return [_row(job, found) for job in JOBS]


def _row(job: Job, found: dict[tuple[str, str], list[tuple[float, Cpu]]]) -> dict[str, object]:
    walls = {s: statistics.median(wall for wall, _ in found[job.name, s]) for s in SOURCES}
    cpus = {s: statistics.median(sum(cpu) for _, cpu in found[job.name, s]) for s in SOURCES}
    return {
        "job": job.name,
        "seconds": walls,
        "cpu_seconds": cpus,
        "python_cpu_seconds": statistics.median(cpu.python for _, cpu in found[job.name, "store"]),
        "ratios": {s: walls[s] / walls["store"] for s in job.goals},
        "cpu_ratios": {s: cpus[s] / cpus["store"] for s in job.goals},
        "floor_ratios": {s: walls[s] / walls["ready"] for s in job.goals},
        "floor_cpu_ratios": {s: cpus[s] / cpus["ready"] for s in job.goals},
        "goals": job.goals,
        "rows": [_reported(job, source, found) for source in job.goals],
    }


def _reported(
    job: Job, source: str, found: dict[tuple[str, str], list[tuple[float, Cpu]]]
) -> dict[str, object]:
    """Make a line of the common report: the ratio, and the least and the most of a round."""
    theirs, ours = ([wall for wall, _ in found[job.name, s]] for s in (source, "store"))
    each = [their / our for their, our in zip(theirs, ours, strict=True)]
    ratio = statistics.median(theirs) / statistics.median(ours)
    return {
        "measure": f"{job.name}: a store by Parquet ({source})",
        "ratio": ratio,
        "least": min(each),
        "most": max(each),
        "bound": "at least",
        "wanted": job.goals[source],
        "reached": ratio >= job.goals[source],
    }


def _ready(folder: Path, name: str, columns: str) -> Path:
    return folder / f"{name}.{columns or 'all'}.ready"


def load(
    spark: SparkSession, folder: Path, name: str, source: str, *, columns: str = ""
) -> DataFrame:
    """Load the rows of that name from a source, all columns or some."""
    if source == "ready":
        return spark.read.format(ready.NAME).load(str(_ready(folder, name, columns)))
    if source != "store":
        return spark.read.parquet(f"{folder}/{name}.{source}")
    return spark.read.format("quiver").options(slot="d", columns=columns).load(f"{folder}/{name}")
