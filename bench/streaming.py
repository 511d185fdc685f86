"""``python -m bench.streaming``: what streaming from a store with Spark costs, beside a batch.

Three figures, each the median of what was measured: rows a second of a stream that takes all there
is, against a batch that reads the same; seconds from an append to the commit of its micro-batch,
with a segment for each append; seconds to plan a batch over ten thousand segments, and one trigger
with nothing new.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

import quiver
from quiver.checkpoint import CheckpointFolder
from quiver.spark import QuiverDataSource, session

__all__ = ["main"]

_BUNDLE_ROWS: Final = 50_000
_SEGMENT: Final = {"segment": {"target_size": "32MiB"}}
_POLL_SECONDS: Final = 0.005


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.streaming", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--appends", type=int, default=30)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="quiver-streaming-")
    try:
        found = _planning(os.path.join(folder, "many"), options.segments, options.runs)
        spark = session("quiver bench", config={"spark.log.level": "ERROR"})
        found |= _throughput(spark, folder, options.rows, runs=options.runs)
        found |= _latency(spark, folder, options.appends)
        spark.stop()
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=2))


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
        began = time.perf_counter()
        frame = spark.read.format("quiver").option("slot", "events").load(store)
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


if __name__ == "__main__":
    main()
