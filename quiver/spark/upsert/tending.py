"""The collection tended behind a batch: by the tasks, where there is much to fold.

A thread of the driver does it, while Spark plans the next batch and reads its rows; before that is
appended it has ended. Tasks of the next batch may read files that it takes out of the manifest:
they are there until the grace is over, and nobody deletes them before the batch after that.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from quiver.errors import FencedError
from quiver.events import Events
from quiver.ship.objects import Bucket
from quiver.spark.upsert.wire import RESULT_DDL, result, step
from quiver.spark.worker import settle
from quiver.upsert.persist import FileRef, Snapshot
from quiver.upsert.tending import Act, Hands, Tender, perform

__all__ = ["THREAD", "Behind", "hands"]

THREAD: Final = "quiver-tending"
"""The name of the thread that tends."""
ROWS_MIN: Final = 200_000
"""Acts that read no more rows than this are done by the driver before tasks would have begun."""


@dataclass(frozen=True)
class _Doing:
    """Some acts, for ``mapInArrow``: goes to the workers, which get the numbers of theirs."""

    store: Bucket
    snapshot: Snapshot
    acts: Sequence[Act]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give rows of ``wire.RESULT``, with the number of an act instead of a bucket."""
        settle()
        for batch in batches:
            numbers: Any = batch.column(0)
            for number in numbers.to_pylist():
                ref = perform(self.store, self.snapshot, self.acts[number])
                yield result(number, json.dumps(ref).encode())


def hands(spark: SparkSession, store: Bucket) -> Hands:
    """Give what has acts done."""

    def do(snapshot: Snapshot, acts: Sequence[Act]) -> Iterable[FileRef]:
        if len(acts) == 1 or sum(act.rows for act in acts) <= ROWS_MIN:
            return (perform(store, snapshot, act) for act in acts)
        parts = min(len(acts), 2 * max(1, spark.sparkContext.defaultParallelism))
        numbers = spark.range(0, len(acts), 1, parts)
        doing = step(_Doing(store, snapshot, acts))
        found: dict[int, bytes] = dict(numbers.mapInArrow(doing, RESULT_DDL).collect())
        return [FileRef(*json.loads(bytes(found[number]))) for number in range(len(acts))]

    return do


class Behind:
    """Has a collection tended behind each append, one time after the other."""

    def __init__(self, tender: Tender, place: str) -> None:
        self._tender, self._place = tender, place
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self, hands: Hands) -> None:
        """Begin what an append made due; the time before must have ended.

        Garbage is looked for here and now, while no task writes what nobody names yet. What goes
        wrong with that is told by ``end`` as well: the append is in.
        """
        self._thread = None
        try:
            self._tender.sweep()
        except Exception as error:  # noqa: BLE001 It is raised by who comes next.
            self._failed(error)
            return
        # A driver that ends does not wait for it: what it leaves is a file that nobody names.
        self._thread = threading.Thread(target=self._tend, args=(hands,), name=THREAD, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until it has ended."""
        if self._thread is not None:
            self._thread.join()

    def end(self) -> None:
        """Wait until it has ended, and raise what went wrong."""
        self.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _tend(self, hands: Hands) -> None:
        try:
            self._tender.fold(hands)
        except Exception as error:  # noqa: BLE001 It is raised by who comes next.
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._error = error
        events = Events(store=self._place)
        if not isinstance(error, FencedError):  # Then another query tends.
            events.warning("spark.tending_failed", error=error)
        events.tell()
