"""The way with Spark: a store, a streaming query, a collection; each batch is one segment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

import pyarrow as pa

import quiver
from bench.demo_stream.processes import descendants
from bench.kit import clocked
from bench.upsert.gauges import Memory, forget_most, memory_of
from bench.upsert.load import GONE, KEY, ORDER, VALUE
from bench.upsert.ours import BUCKETS, rows_of
from quiver.spark import upsert as start_upsert
from quiver.spark.upsert import ways
from quiver.spark.upsert.tending import THREAD

__all__ = ["Sparked", "Took"]

SLOT: Final = "commands"
_CONFIG: Final = {"segment": {"target_size": "1GiB"}, "wal": {"durability": "segment"}}
_TRIGGER: Final = "500 milliseconds"
"""Between two looks for more: so seldom that the other sides are not in its way."""
_TOLD_SECONDS: Final = 30
_PAUSE_SECONDS: Final = 0.05


class Took(NamedTuple):
    """Seconds of one micro-batch."""

    batch: float
    """From its rows to its epoch: what Spark calls addBatch."""
    trigger: float
    """All of it, Spark's planning and its log too."""


class Sparked:
    """A query that takes one segment with each micro-batch; larger ones in tasks, if told to."""

    def __init__(self, spark: Any, folder: Path, *, in_tasks: bool = False) -> None:
        folder.mkdir()
        self._local_times = 1 if in_tasks else ways.LOCAL_TIMES
        self._spark, self._folder = spark, folder
        self._collection = folder / "collection"
        self._store = quiver.open(folder / "store", slots=[SLOT], config=_CONFIG, worker=False)
        self._query: Any = None
        self._told = -1
        self.grown = 0
        """Bytes of memory that the last batch took in this process for a while."""

    def _start(self) -> Any:
        checkpoint = str(self._folder / "checkpoint")
        options = {"slot": SLOT, "subscriber": "bench", "checkpointLocation": checkpoint}
        options |= {"includeMetadata": "true", "sink": "synced", "maxSegmentsPerTrigger": "1"}
        frame = self._spark.readStream.format("quiver").options(**options)
        writer = start_upsert(
            frame.load(str(self._folder / "store")),
            into=str(self._collection),
            key=KEY,
            value=VALUE,
            order_by=ORDER,
            delete_when=GONE,
            buckets=BUCKETS,
            checkpoint=checkpoint,
        )
        return writer.trigger(processingTime=_TRIGGER).start()

    def take(self, commands: pa.Table) -> Took:
        """Put a batch into the store, and wait until the query has it."""
        self._store.append({SLOT: commands})
        self._store.finalize()
        before = forget_most()
        if self._query is None:
            self._query = self._start()
        with mock.patch.object(ways, "LOCAL_TIMES", self._local_times):
            self._query.processAllAvailable()
        own = memory_of()
        assert own is not None
        self.grown = own.most - before
        for thread in threading.enumerate():  # What tends has ended before others are timed.
            if thread.name == THREAD:
                thread.join()
        told = self._progress()
        (done,) = [one for one in told if one.numInputRows]
        if done.numInputRows != commands.num_rows:
            raise SystemExit(f"a micro-batch has {done.numInputRows:,} rows of another batch")
        self._told = told[-1].batchId
        step = done.durationMs
        return Took(step["addBatch"] / 1e3, step["triggerExecution"] / 1e3)

    def _progress(self) -> list[Any]:
        """Give what Spark tells of new micro-batches: where a machine is busy, a little later."""
        until = time.monotonic() + _TOLD_SECONDS
        while True:
            told = [one for one in self._query.recentProgress if one.batchId > self._told]
            if any(one.numInputRows for one in told) or time.monotonic() > until:
                return told
            time.sleep(_PAUSE_SECONDS)

    def job(self) -> float:
        """Run a job of two tasks in Python that do nothing: less no batch in tasks can take."""

        def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return batches

        numbers = self._spark.range(0, 2, 1, 2)
        return clocked(lambda: numbers.mapInArrow(nothing, "id long").collect())

    def memory(self) -> tuple[Memory, list[Memory]]:
        """Say what the JVM has, and each Python worker."""
        jvm = self._spark._jvm.java.lang.ProcessHandle.current().pid()  # noqa: SLF001 No other way.
        workers = [memory_of(pid) for pid in descendants(jvm, named="pyspark.daemon")]
        own = memory_of(jvm)
        assert own is not None
        return own, [worker for worker in workers if worker is not None]

    def rows(self) -> pa.Table:
        """Read all rows."""
        return rows_of(self._collection)

    def stop(self) -> None:
        """End the query and close the store."""
        if self._query is not None:
            self._query.stop()
        self._store.close()
