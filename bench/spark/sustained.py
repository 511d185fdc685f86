"""Rows a second of a stream that has run for a while, beside a batch that reads the same rows.

A query finds many segments and takes four with each micro-batch. Its first one starts processes and
compiles; those after it are measured, from the start of the second to the end of the last. A batch
job reads the very segments that a micro-batch reads. And a Python source without a store runs the
same micro-batches: what it takes is Spark's own.
"""

from __future__ import annotations

import shutil
import statistics
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

import quiver
from bench.spark import ready

__all__ = ["Sustained", "measure"]

_SEGMENTS: Final = 4
"""With each micro-batch."""
_BATCHES: Final = 5
_BUNDLE_ROWS: Final = 50_000
_CONFIG: Final = {"segment": {"target_size": "1GiB"}, "wal": {"durability": "segment"}}
_OPTIONS: Final = {"slot": "events", "maxSegmentsPerTrigger": str(_SEGMENTS)}
STEPS: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


class Sustained(NamedTuple):
    """Rows a second of each round, and seconds of the steps of a micro-batch, all medians."""

    batch: list[float]
    stream: list[float]
    ready: list[float]
    first: list[float]
    """Of the first micro-batch of a query of the store."""
    steps: dict[str, dict[str, float]]
    """Of the store's stream and of the one without a store."""


def measure(spark: Any, folder: Path, rows: int, *, runs: int) -> Sustained:
    """Run all three in turn, once to warm up and then so many times."""
    bundles = max(1, rows // _BUNDLE_ROWS // _SEGMENTS)
    rows = bundles * _BUNDLE_ROWS * _SEGMENTS
    store = folder / "sustained"
    _write(store, bundles)
    ready.write_ready_stream(folder / "sustained.ready", path=str(store), **_OPTIONS)
    rates: dict[str, list[float]] = {"batch": [], "quiver": [], ready.NAME: [], "first": []}
    steps: dict[str, list[dict[str, int]]] = {"quiver": [], ready.NAME: []}
    sources = {"quiver": (store, _OPTIONS), ready.NAME: (folder / "sustained.ready", {})}
    for number in range(runs + 1):
        seconds = [_batch(spark, store, first) for first in range(1, _BATCHES)]
        found = {
            name: _stream(spark, name, place, options=options, folder=folder)
            for name, (place, options) in sources.items()
        }
        if not number:
            continue
        rates["batch"].append(rows / statistics.median(seconds))
        for name, told in found.items():
            if [one.numInputRows for one in told] != [rows] * _BATCHES:
                raise SystemExit(f"{name}: the micro-batches have other rows than the batches")
            rates[name].append(rows * (_BATCHES - 1) / _span(told[1:]))
            steps[name] += [one.durationMs for one in told[1:]]
        rates["first"].append(rows / found["quiver"][0].durationMs["triggerExecution"] * 1e3)
    shutil.rmtree(store)
    each = {
        name: {step: statistics.median(one[step] for one in told) / 1e3 for step in STEPS}
        for name, told in steps.items()
    }
    return Sustained(rates["batch"], rates["quiver"], rates[ready.NAME], rates["first"], each)


def _write(store: Path, bundles: int) -> None:
    numbers = np.arange(_BUNDLE_ROWS)
    text = pa.array(np.char.add("row ", numbers.astype(str)))
    batch = pa.record_batch({"n": numbers, "value": numbers / 7, "text": text})
    with quiver.open(store, slots=["events"], config=_CONFIG, worker=False) as opened:
        for _ in range(_BATCHES * _SEGMENTS):
            for _ in range(bundles):
                opened.append({"events": batch})
            opened.finalize()


def _batch(spark: Any, store: Path, number: int) -> float:
    """Read what the micro-batch of this number reads; gives seconds."""
    some = {"startingSegment": number * _SEGMENTS, "endingSegment": (number + 1) * _SEGMENTS}
    frame = spark.read.format("quiver").options(slot="events", **some).load(str(store))
    began = perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return perf_counter() - began


def _stream(
    spark: Any, name: str, place: Path, *, options: dict[str, str], folder: Path
) -> list[Any]:
    """Run a query of its own to its end; gives what it told of each micro-batch."""
    checkpoint = folder / "checkpoint of a stream"
    live = spark.readStream.format(name).options(**options).load(str(place))
    writer = live.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint)
    return [one for one in query.recentProgress if one.numInputRows]


def _span(told: list[Any]) -> float:
    """Give the seconds from the start of the first to the end of the last."""
    began, last = (datetime.fromisoformat(one.timestamp) for one in (told[0], told[-1]))
    return (last - began).total_seconds() + told[-1].durationMs["triggerExecution"] / 1e3
