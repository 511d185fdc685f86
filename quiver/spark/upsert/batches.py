"""What the driver does with each micro-batch: have it prepared and applied, and append it.

::

    rows -> prepare, reduce, pack -> by bucket -> reduce, look up, differences, run -> append
            each partition           shuffle      each bucket                         the driver

The append is the one moment at which a batch comes in, as a whole, with how far its source is.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from quiver.errors import ConfigError, MissingError, SourceError
from quiver.events import Events
from quiver.ship.objects import Bucket
from quiver.spark.upsert.fitting import fit
from quiver.spark.upsert.preparing import Preparing, Reading
from quiver.spark.upsert.recovery import Batch, advanced, decide
from quiver.spark.upsert.straight import Look, Straight
from quiver.spark.upsert.tending import Behind, hands
from quiver.spark.upsert.ways import Found, Work
from quiver.upsert.persist import Collection, Snapshot, Writer
from quiver.upsert.rows import Definition, Misfit
from quiver.upsert.tending import Limits, Tender

__all__ = ["Batches", "Target", "look"]

_QUERY: Final = "sql.streaming.queryId"
_RUN: Final = "spark.jobGroup.id"
"""Spark's names for what query a thread works for, and for which of its starts."""


@dataclass(frozen=True)
class Target:
    """A collection, and what is written to it."""

    store: Bucket
    wanted: Definition
    """What the rows of the query ask for; its buckets are those of a new collection."""
    source: str
    """Under which name the manifest keeps how far the query is."""
    misfit: Misfit = "fail"
    history: int = 100

    def fit(self, known: Definition) -> Definition:
        """Give what rows are written under."""
        return fit(known, self.wanted, misfit=self.misfit)


def look(store: Bucket) -> Collection | None:
    """Open a collection that may not be there yet."""
    with suppress(MissingError):
        return Collection.open(store)
    return None


@dataclass
class _Run:
    """One start of a query: it writes until another one does."""

    writer: Writer
    behind: Behind
    definition: Definition
    """What it writes rows under: the collection's, or a wider one."""


class Batches:
    """What ``foreachBatch`` calls, in the driver; each start of a query opens a writer."""

    def __init__(
        self,
        target: Target,
        reading: Reading,
        straight: Straight | None = None,
        *,
        look: Look = lambda *_: None,
    ) -> None:
        """Write what is read by ``reading``, or ``straight``. Nothing is opened yet."""
        self._target, self._reading = target, reading
        self._straight, self._look = straight, look
        self._mutex = threading.Lock()
        self._runs: dict[str, _Run] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Append one batch; nothing if it is in. Raises FencedError if a newer query writes.

        What went wrong when the collection was tended behind the batch before is raised too.
        """
        context = frame.sparkSession.sparkContext
        query, run = (context.getLocalProperty(name) for name in (_QUERY, _RUN))
        if not query or not run:
            raise ConfigError("Spark does not say which query this is", hint="is it Spark Connect?")
        mine = self._open(run, (query, number))
        snapshot = mine.writer.snapshot()
        batch = decide(snapshot.sources, self._target.source, (query, number))
        events = Events(store=mine.writer.place)
        with events.telling():
            if batch.is_known:
                events.info("spark.batch_repeated", query=query, batch=number)
                return
            if batch.replaces and not batch.floors:
                events.warning("spark.batches_again", query=query, replaces=batch.replaces)
            found = self._applied(frame, mine, snapshot, batch=batch)
            mine.behind.end()
            self._append(mine, snapshot, batch=batch, found=found)
            events.info(
                "spark.batch_upserted",
                query=query,
                batch=number,
                epoch=snapshot.upper,
                way=found.way,
                command_count=sum(each.commands for each in found.buckets),
                row_count=sum(each.run.rows for each in found.buckets if each.run),
            )
            mine.behind.begin(hands(frame.sparkSession, self._target.store))

    def wait(self) -> None:
        """Wait until nothing is tended any more."""
        with self._mutex:
            runs = list(self._runs.values())
        for each in runs:
            each.behind.wait()

    def _open(self, run: str, batch: tuple[str, int]) -> _Run:
        """Give the writer of a start of the query; the first time it fences all others.

        But not if it could not go on itself.
        """
        with self._mutex:
            found = self._runs.get(run)
            if found is None:
                target = self._target
                collection = look(target.store)
                decide(collection.snapshot().sources if collection else {}, target.source, batch)
                if collection is None:
                    collection = Collection.open(target.store, target.wanted, create=True)
                how = target.fit(collection.snapshot().definition)
                writer = collection.writer()
                behind = Behind(Tender(writer, Limits(history=target.history)), writer.place)
                found = self._runs[run] = _Run(writer, behind, how)
            return found

    def _applied(self, frame: DataFrame, mine: _Run, snapshot: Snapshot, *, batch: Batch) -> Found:
        """Have the rows of a batch prepared and applied; their runs belong to nobody yet."""
        target = self._target
        wider = snapshot.widened(mine.definition.value)
        parts = min(wider.buckets, max(1, frame.sparkSession.sparkContext.defaultParallelism))
        prepare = Preparing(
            self._reading, wider.definition, parts, floors=batch.floors, misfit=target.misfit
        )
        work = Work(target.store, prepare, wider, self._straight, self._look)
        return work.done(frame, (batch.query, batch.number))

    def _append(self, mine: _Run, snapshot: Snapshot, *, batch: Batch, found: Found) -> None:
        source = self._target.source
        records = advanced(snapshot.sources, source, batch, ends=found.ends)
        appended = mine.writer.append(
            [each.run for each in found.buckets],
            snapshot.upper,
            sources=records,
            value=mine.definition.value,
        )
        if appended.was_persisted:  # By ourselves: who else writes has fenced us.
            raise SourceError(
                f"{mine.writer.place} has epoch {snapshot.upper:,} of somebody else",
                split=source,
                hint="start the query again",
            )
