"""The collection tended behind a batch: by the tasks, where there is much to fold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from quiver.ship.objects import Bucket
from quiver.spark.upsert.wire import RESULT_DDL, result, step
from quiver.spark.worker import settle
from quiver.upsert.persist import FileRef, Snapshot
from quiver.upsert.tending import Act, Hands, perform

__all__ = ["hands"]

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
