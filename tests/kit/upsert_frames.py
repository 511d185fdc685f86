"""What Spark does with a micro-batch of an upserting query, in this process and without a JVM.

Steps travel as Spark has them travel, and rows are spread over partitions as it spreads them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from quiver.ship.objects import FolderBucket
from quiver.spark.upsert.batches import Batches, Target
from quiver.spark.upsert.preparing import Reading
from quiver.upsert.persist import Collection, Snapshot, changes, rows_as_of
from quiver.upsert.rows import Definition

Rows = list[dict[str, Any]]


class Died(BaseException):
    """The process is gone."""


class Frame:
    """Rows in partitions, and what is done to them."""

    def __init__(
        self, context: Any, parts: Iterable[list[pa.RecordBatch]], dies_at: int | None = None
    ) -> None:
        self.sparkSession = SimpleNamespace(sparkContext=context, range=self._range)
        self.parts = list(parts)
        self.context, self.dies_at = context, dies_at

    def _range(self, start: int, end: int, each: int, count: int) -> Frame:
        found: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for number in range(start, end, each):
            found[number % count].append(pa.record_batch({"id": [number]}))
        return Frame(self.context, found, self.dies_at)

    def mapInArrow(self, step: Callable[..., Any], schema: str) -> Frame:  # noqa: N802
        done = []
        for part in self.parts:
            self.context.tasks += 1
            if self.context.tasks == self.dies_at:
                raise Died
            for _ in range(self.context.attempts):
                made = list(pickle.loads(cloudpickle.dumps(step))(iter(part)))
            done.append(made)
        names = [column.split()[0] for column in schema.split(",")]
        assert all(batch.schema.names == names for part in done for batch in part)
        return Frame(self.context, done, self.dies_at)

    def repartitionById(self, count: int, column: str) -> Frame:  # noqa: N802
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for part in reversed(self.parts):  # In no order that anybody may rely on.
            for batch in part:
                parts[batch.column(column)[0].as_py() % count].append(batch)
        return Frame(self.context, parts, self.dies_at)

    def sortWithinPartitions(self, column: str) -> Frame:  # noqa: N802
        ordered = [
            sorted(part, key=lambda row: row.column(column)[0].as_py()) for part in self.parts
        ]
        return Frame(self.context, ordered, self.dies_at)

    def collect(self) -> list[tuple[Any, ...]]:
        rows = [row for part in self.parts for batch in part for row in batch.to_pylist()]
        return [tuple(row.values()) for row in rows]


@dataclass
class Context:
    """What a thread of a query knows: which query, and which of its starts."""

    query: str
    run: str
    defaultParallelism: int = 2  # noqa: N815
    master: str = "local[2]"
    attempts: int = 1
    tasks: int = 0

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return self.query if name.endswith("queryId") else self.run


@dataclass
class Query:
    """A query with its checkpoint: starts, and batches by number."""

    place: str
    definition: Definition
    reading: Reading
    name: str = "query"
    how: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    starts: int = 0
    attempts: int = 1

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again."""
        self.starts += 1
        store = FolderBucket(self.place)
        target = Target(store, self.definition, **{"source": "spark"} | dict(self.how))
        self.batches = Batches(target, self.reading)

    def frame(self, *tasks: Rows, dies_at: int | None = None) -> Frame:
        names = [f"c{at}" for at in range(len(self.reading.types))]
        parts = []
        for rows in tasks:
            made = pa.RecordBatch.from_pylist(rows, schema=self.reading.types)
            parts.append([pa.RecordBatch.from_arrays(made.columns, names=names)])
        context = Context(self.name, f"{self.name} {self.starts}", attempts=self.attempts)
        return Frame(context, parts, dies_at)

    def put(self, *tasks: Rows, commits: bool = True, dies_at: int | None = None) -> None:
        """Do a batch; without a commit it comes again."""
        self.batches(self.frame(*tasks, dies_at=dies_at), self.number)
        self.batches.wait()
        self.number += commits

    def snapshot(self) -> Snapshot:
        return Collection.open(FolderBucket(self.place)).snapshot()

    def state(self) -> list[dict[str, Any]]:
        snapshot, store = self.snapshot(), FolderBucket(self.place)
        return [
            row
            for bucket in range(snapshot.buckets)
            for batch in rows_as_of(store, snapshot, bucket)
            for row in batch.to_pylist()
        ]

    def sums(self) -> dict[Any, int]:
        """Add up all differences there ever were, by key and value."""
        snapshot, store = self.snapshot(), FolderBucket(self.place)
        found: dict[Any, int] = {}
        for bucket in range(snapshot.buckets):
            for batch in changes(store, snapshot, bucket, after=0):
                for row in batch.to_pylist():
                    at = (*row["key"].values(), *(row["value"] or {}).values())
                    found[at] = found.get(at, 0) + row["diff"]
        return {at: count for at, count in found.items() if count}
