"""What streaming from a store with Spark costs, beside a batch.

Three figures, each the median of what was measured: rows a second of a stream that takes all there
is, against a batch that reads the same; seconds from an append to the commit of its micro-batch,
with a segment for each append; seconds to plan a batch over ten thousand segments, and one trigger
with nothing new.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

import quiver
from quiver.checkpoint import CheckpointFolder
from quiver.spark import QuiverDataSource

__all__ = ["Figure", "measure"]

_BUNDLE_ROWS: Final = 50_000
_SEGMENT: Final = {"segment": {"target_size": "32MiB"}}
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


def measure(spark: Any, folder: str, *, scale: float, runs: int) -> list[Figure]:
    """Measure all three, each in a folder of its own."""
    found = _planning(os.path.join(folder, "many"), int(10_000 * scale), runs)
    found |= _throughput(spark, folder, int(4_000_000 * scale), runs=runs)
    found |= _latency(spark, folder, int(40 * scale))
    ratio = found["stream_rows_per_second"] / found["batch_rows_per_second"]
    return [
        Figure("rows a second of a stream, by those of a batch", ratio, "at least", 0.8),
        Figure("rows a second of a stream", found["stream_rows_per_second"]),
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


def _batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows)
    text = pa.array(np.char.add("row ", numbers.astype(str)))
    return pa.record_batch({"n": numbers, "value": numbers / 7, "text": text})


def _throughput(spark: Any, folder: str, rows: int, *, runs: int) -> dict[str, float]:
    store = os.path.join(folder, "large")
    with quiver.open(store, slots=["events"], config=_SEGMENT) as opened:
        for first in range(0, rows, _BUNDLE_ROWS):
            opened.append({"events": _batch(first, _BUNDLE_ROWS)})
    batch, stream = [], []
    for number in range(runs + 1):  # The first of each warms up.
        frame = spark.read.format("quiver").option("slot", "events").load(store)
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        batch.append(time.perf_counter() - began)
        live = spark.readStream.format("quiver").options(slot="events").load(store)
        checkpoint = os.path.join(folder, f"checkpoint {number}")
        writer = live.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        stream += [one.durationMs["triggerExecution"] / 1e3 for one in query.recentProgress[:1]]
    return {
        "batch_rows_per_second": rows / statistics.median(batch[1:]),
        "stream_rows_per_second": rows / statistics.median(stream[1:]),
    }


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
