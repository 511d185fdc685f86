"""The way without Spark: commands to differences to files to one append, in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.upsert.load import COLUMNS, GONE, KEY, ORDER, VALUE
from quiver.ship.objects import open_bucket
from quiver.upsert.persist import Collection, FileRef, Snapshot, State, rows_as_of, write_run
from quiver.upsert.rows import Commands, Plan, define, differences, prepare, reduce, rows_of_buckets
from quiver.upsert.tending import Tended, Tender

__all__ = ["BUCKETS", "Ours", "rows_of"]

BUCKETS: Final = 16
_PLAN: Final = Plan(key=[KEY], order_by=[ORDER], delete_when=GONE)


class Ours:
    """A collection in a folder; each batch is one epoch."""

    def __init__(self, folder: Path, *, buckets: int = BUCKETS) -> None:
        self._folder = folder
        self._store: Any = open_bucket(str(folder), environ={})
        self._definition = define(COLUMNS, _PLAN, buckets)
        self._writer = Collection.open(self._store, self._definition, create=True).writer()
        self._tender = Tender(self._writer)
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        self.seconds: dict[str, float] = {}
        """Of the steps of the last batch."""

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begun

    def take(self, table: pa.Table) -> None:
        """Take a batch; when this returns it is durable, and can be read."""
        with self._step("prepare"):
            commands = prepare(table, _PLAN, self._definition)
        with self._step("buckets"):
            snapshot = self._writer.snapshot()
            order, edges = rows_of_buckets(commands.hashes, snapshot.buckets)
            parts = [order[start:end] for start, end in pairwise(edges)]
            one = partial(self._one, snapshot, commands)
            refs = list(self._pool.map(one, range(snapshot.buckets), parts))
        with self._step("append"):
            self._writer.append(refs, snapshot.upper)

    def _one(
        self, snapshot: Snapshot, commands: Commands, bucket: int, rows: Any
    ) -> FileRef | None:
        """Do what there is to do for one bucket, beside others."""
        own = reduce(commands.take(rows))
        looked = State(self._store, snapshot, bucket).lookup(own.hashes, own.keys)
        diffs = differences(own, looked, snapshot.upper)
        return write_run(self._store, snapshot, diffs, bucket=bucket)

    def tend(self) -> Tended:
        """Fold and merge what is due, and delete what nobody needs."""
        return self._tender.tend()

    def rows(self) -> pa.Table:
        """Read all rows."""
        return rows_of(self._folder)

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()


def rows_of(folder: Path) -> pa.Table:
    """Read all rows of a collection, by its code and not by Spark's."""
    store: Any = open_bucket(str(folder), environ={})
    snapshot = Collection.open(store).snapshot()
    parts = [
        pa.table({KEY: batch["key"].field(KEY), VALUE: batch["value"].field(VALUE)})
        for bucket in range(snapshot.buckets)
        for batch in rows_as_of(store, snapshot, bucket)
    ]
    return pa.concat_tables(parts)
