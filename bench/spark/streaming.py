"""What streaming from a store with Spark costs, beside a batch.

Medians of what was measured: rows a second of a stream that has run for a while, against a batch
that reads the same (``bench.spark.sustained``); seconds from an append to the commit of its
micro-batch, with a segment for each append; seconds to plan a batch over ten thousand segments, and
one trigger with nothing new.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

import quiver
from bench.spark import sustained
from quiver.checkpoint import CheckpointFolder
from quiver.spark import QuiverDataSource

__all__ = ["Figure", "Streaming", "measure"]

_POLL_SECONDS: Final = 0.005


class Figure(NamedTuple):
    """One line of the page; without a goal it is told only."""

    name: str
    value: float
    word: str = ""
    goal: float | None = None

    @property
    def is_missed(self) -> bool:
        """Whether there is a goal, and this is on the wrong side of it."""
        if self.goal is None:
            return False
        return self.value < self.goal if self.word == "at least" else self.value > self.goal


class Streaming(NamedTuple):
    """All figures, and the seconds of the steps of a micro-batch, with a store and without."""

    figures: list[Figure]
    steps: dict[str, dict[str, float]]


def measure(spark: Any, folder: str, *, scale: float, runs: int) -> Streaming:
    """Measure all of it, each in a folder of its own."""
    median = statistics.median
    found = _planning(os.path.join(folder, "many"), int(10_000 * scale), runs)
    long = sustained.measure(spark, Path(folder), int(4_000_000 * scale), runs=runs)
    found |= _latency(spark, folder, int(40 * scale))
    batch, stream, floor, first = map(median, long[:4])
    figures = [
        Figure("rows a second of a stream, by those of a batch", stream / batch, "at least", 0.8),
        Figure("the same of a stream without a store, which is Spark's own", floor / batch),
        Figure("the same of the first micro-batch of a query", first / batch),
        Figure("rows a second of a stream", stream),
        Figure(
            "seconds from an append to the commit of its micro-batch, median",
            found["append_to_commit_p50_seconds"],
            "at most",
            1.5,
        ),
        Figure("the same, slowest", found["append_to_commit_max_seconds"]),
        Figure(
            f"seconds to plan a batch over {found['plan_segments']:,.0f} segments",
            found["plan_seconds"],
            "at most",
            0.5,
        ),
        Figure("seconds of a trigger with nothing new", found["idle_trigger_seconds"]),
    ]
    return Streaming(figures, long.steps)


def _batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows)
    text = pa.array(np.char.add("row ", numbers.astype(str)))
    return pa.record_batch({"n": numbers, "value": numbers / 7, "text": text})


def _latency(spark: Any, folder: str, appends: int) -> dict[str, float]:
    store, checkpoint = os.path.join(folder, "live"), os.path.join(folder, "checkpoint live")
    seconds = []
    with quiver.open(store, slots=["events"]) as opened:
        opened.append({"events": _batch(0, 100)})
        opened.finalize()
        live = spark.readStream.format("quiver").options(slot="events").load(store)
        writer = live.writeStream.format("parquet").option("path", os.path.join(folder, "out"))
        query = writer.option("checkpointLocation", checkpoint).start()
        query.processAllAvailable()
        place = CheckpointFolder(checkpoint)
        for number in range(appends):
            began = time.perf_counter()
            opened.append({"events": _batch(number * 100, 100)})
            opened.finalize()
            while _committed(place) < opened.info().next_segment_seq:
                time.sleep(_POLL_SECONDS)
            seconds.append(time.perf_counter() - began)
        query.stop()
    return {
        "append_to_commit_p50_seconds": statistics.median(seconds),
        "append_to_commit_max_seconds": max(seconds),
    }


def _committed(folder: CheckpointFolder) -> int:
    newest = folder.committed()[-1]
    return int(folder.offsets(newest)[0]["splits"]["core_0"]["segment_seq"])


def _planning(store: str, segments: int, runs: int) -> dict[str, float]:
    small = {"wal": {"durability": "segment"}}
    with quiver.open(store, slots=["events"], config=small, worker=False) as opened:
        for number in range(segments):
            opened.append({"events": pa.record_batch({"n": [number] * 50})})
            opened.finalize()
    plans, idle = [], []
    everything = ReadAllAvailable()
    for _ in range(runs):
        source = QuiverDataSource({"path": store, "slot": "events"})
        reader = source.streamReader(source.schema())
        start = reader.initialOffset()
        began = time.perf_counter()
        end = reader.latestOffset(start, everything)
        reader.partitions(start, end)
        plans.append(time.perf_counter() - began)
        for _ in range(20):
            began = time.perf_counter()
            reader.latestOffset(end, everything)
            reader.reportLatestOffset()
            idle.append(time.perf_counter() - began)
    return {
        "plan_segments": segments,
        "plan_seconds": statistics.median(plans),
        "idle_trigger_seconds": statistics.median(idle),
    }
