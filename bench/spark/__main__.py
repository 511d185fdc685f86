"""``make bench-spark``: Spark jobs from a store against the same jobs from Parquet.

Writes ``bench/SPARK.md``, ``bench/spark.json`` and ``bench/spark.svg`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from bench.kit import ROOT, save
from bench.spark import batch, streaming
from bench.spark.workers import bench_session

_STEPS = {
    "latestOffset": "ask what is there",
    "queryPlanning": "plan the query",
    "addBatch": "read the rows and hand them over",
    "walCommit": "write down what is about to be read",
    "commitOffsets": "write down that it was",
}


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.spark", description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--scale", type=float, default=1.0, help="of the number of rows")
    options.add_argument("--dir", help="where to write")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        spark = bench_session()
        try:
            batch.prepare(spark, Path(folder), asked.scale)
            rows = batch.measure(spark, Path(folder), asked.rounds)
            figures = streaming.measure(spark, folder, scale=asked.scale, runs=min(asked.rounds, 5))
        finally:
            spark.stop()
    text = page(rows, asked.rounds) + told(figures)
    if not asked.attempt:
        found = {
            "title": "Spark: a store against Parquet",
            "rounds": asked.rounds,
            "scale": asked.scale,
            "rows": [line for row in rows for line in row.pop("rows")],
            "batch": rows,
            "streaming": [one._asdict() for one in figures.figures],
            "micro_batch_seconds": figures.steps,
        }
        save("spark", text, **found)
        plot(rows)
    print(text)


def page(rows: list[dict], rounds: int) -> str:
    """Write the table: a ratio above 1 is faster than Parquet."""
    about = (
        f"{time.strftime('%Y-%m-%d')}. `make bench-spark`; medians of {rounds} interleaved "
        "rounds in one session, warm, on "
        f"{os.cpu_count()} cores; load at the end {os.getloadavg()[0]:.1f}. Store and Parquet hold "
        "the same rows, which is checked. A ratio is Parquet's time by the store's: above 1 the "
        "store is faster. CPU is that of Java and of all Python workers together. *Ready* is a "
        "Python source without a store, which hands over the same batches as they lie in memory: "
        "what no Python source can pass. Where the time goes: [SPARK_PROFILE.md](SPARK_PROFILE.md)."
    )
    head = (
        "| job | Parquet | store s | ready s | Parquet s | ratio | goal | ratio of ready "
        "| CPU ratio | CPU ratio of ready |"
    )
    lines = [
        "# Spark: a store against Parquet",
        "",
        about,
        "",
        "![speed beside Parquet](spark.svg)",
        "",
        head,
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        for source, goal in row["goals"].items():
            ratio = row["ratios"][source]
            lines.append(
                f"| {row['job']} | {source} | {row['seconds']['store']:.2f} "
                f"| {row['seconds']['ready']:.2f} | {row['seconds'][source]:.2f} | {ratio:.2f} "
                f"| {goal:.2f}{'' if ratio >= goal else ' (missed)'} "
                f"| {row['floor_ratios'][source]:.2f} | {row['cpu_ratios'][source]:.2f} "
                f"| {row['floor_cpu_ratios'][source]:.2f} |"
            )
    return "\n".join(lines) + "\n"


def told(found: streaming.Streaming) -> str:
    """Write the tables of streaming."""
    lines = ["", "## Streaming", "", "| measure | value | goal |", "|---|---:|---|"]
    for one in found.figures:
        goal = "" if one.goal is None else f"{one.word} {one.goal}"
        lines.append(f"| {one.name} | {one.value:,.4g} | {goal}{' (missed)' * one.is_missed} |")
    lines += ["", "A micro-batch, step by step. A batch job has the second and the third only."]
    lines += ["", "| seconds | with a store | without |", "|---|---:|---:|"]
    with_store, without = found.steps.values()
    for step, name in _STEPS.items():
        lines.append(f"| {name} | {with_store[step]:.3f} | {without[step]:.3f} |")
    return "\n".join(lines) + "\n"


def plot(rows: list[dict]) -> None:
    """Draw the ratios against their goals, if matplotlib is there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no matplotlib: bench/spark.svg is as it was")
        return
    bars = [
        (f"{row['job']}\nParquet {source}", row["ratios"][source], goal)
        for row in rows
        for source, goal in row["goals"].items()
    ]
    figure = Figure(figsize=(8, 0.6 * len(bars) + 1), layout="constrained")
    axes = figure.subplots()
    axes.barh([name for name, _, _ in bars], [ratio for _, ratio, _ in bars], color="#4a7")
    for place, (_, _, goal) in enumerate(bars):
        axes.plot([goal, goal], [place - 0.4, place + 0.4], color="#c33")
    axes.axvline(1, color="#999", linewidth=0.5)
    axes.set_xlabel("speed, Parquet = 1; red is the goal")
    axes.invert_yaxis()
    figure.savefig(ROOT / "bench" / "spark.svg")


if __name__ == "__main__":
    main()
