"""Who is started, who is killed when, and when all is through."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Final

import quiver
from bench.demo_stream.compare import committed
from bench.demo_stream.processes import descendants, kill
from bench.demo_stream.stage import Stage
from bench.demo_upsert.slots import ASK
from quiver.ship.objects import open_bucket
from quiver.upsert.persist import Collection

__all__ = ["KILLS", "Play"]

KILLS: Final = 4
"""The writer, Python processes, Spark, and Spark with its checkpoint."""
_START_SECONDS: Final = 90.0
_MORE_SECONDS: Final = 30.0
"""So long it is waited for new epochs between two kills."""
_ANSWER_SECONDS: Final = 90.0
_WORKERS: Final = 2
"""So many Python processes of Spark are killed: those that were started last."""


class Play:
    """A store, its writer, a query and its collection, in a folder of their own."""

    def __init__(self, folder: str, tell: Callable[[str], object]) -> None:
        self._stage = stage = Stage(folder, tell)
        self.bundles, self.store, self.checkpoint, self.collection, self.answers = (
            os.path.join(folder, name)
            for name in ("board.arrow", "store", "checkpoint", "collection", "answers")
        )
        places = [self.store, self.checkpoint, self.collection, self.answers]
        self._writer = stage.actor("writer", "bench.demo_upsert.writer", [self.store, self.bundles])
        self._query = stage.actor("query", "bench.demo_upsert.query", places)
        self.epoch = 0
        """The last one when Spark was killed first."""

    @property
    def kills(self) -> int:
        """How many were killed."""
        return self._stage.kills

    def run(self) -> None:
        """Play until all is in the collection, and was read back."""
        os.makedirs(self.answers)
        try:
            self._begin()
            self._kill_writer()
            self._kill_workers()
            self.epoch = self._kill_query()
            self._kill_query(with_checkpoint=True)
            self._end()
        finally:
            self._stage.close()

    # the beginning -------------------------------------------------------------------------------

    def _begin(self) -> None:
        stage = self._stage
        stage.start(self._writer, "ready")
        # The slot has to have a segment before its columns are known.
        segments = os.path.join(self.store, "core_0", "segments")
        stage.await_that("a segment", lambda: any(map(is_segment, os.listdir(segments))))
        stage.say("the writer appends, an hour of the board with each bundle")
        self._start_query()
        stage.say(f"Spark upserts: epoch {self._latest()} is in the collection")

    def _start_query(self) -> None:
        self._stage.start(self._query, "running")
        self._query.await_that(lambda: self._query.has_said("batch"), _START_SECONDS)

    def _latest(self) -> int:
        """Say which epoch is the last in the collection."""
        store = open_bucket(self.collection, environ=os.environ)
        return Collection.open(store).snapshot().latest

    # the kills -----------------------------------------------------------------------------------

    def _kill_writer(self) -> None:
        self._writer.kill()
        durable = sum(line.startswith("durable") for line in self._writer.lines)
        self._stage.note(f"the writer, behind {durable:,} durable bundles")
        self._stage.start(self._writer, "ready")
        self._await_more()

    def _kill_workers(self) -> None:
        """Kill some Python processes of Spark, whatever they do just then."""
        pythons = sorted(descendants(self._query.pid, named="pyspark.daemon"))
        if pythons:
            kill(*pythons[-_WORKERS:])
            what = f"{min(_WORKERS, len(pythons))} of {len(pythons)} Python processes of Spark"
            self._stage.note(f"{what}, at epoch {self._latest()}")
        self._await_more()

    def _kill_query(self, *, with_checkpoint: bool = False) -> int:
        """Kill Spark and start it again; gives the last epoch that there was."""
        self._query.kill()
        latest = self._latest()
        what = f"Spark and its JVM, at epoch {latest}"
        if with_checkpoint:
            shutil.rmtree(self.checkpoint)
            what += "; and its checkpoint is deleted"
        self._stage.note(what)
        self._start_query()
        self._stage.say(f"Spark upserts on: epoch {self._latest()}")
        self._await_more()
        return latest

    def _await_more(self) -> None:
        latest = self._latest()
        self._stage.has_come(lambda: self._latest() > latest + 1, _MORE_SECONDS, self._revive)

    def _is_past(self, epoch: int, end: int) -> bool:
        """Whether there is a later epoch, or all segments below a number are committed."""
        return self._latest() > epoch or committed(self.checkpoint).get(0, 0) >= end

    def _revive(self) -> None:
        self._stage.revive(self._query)

    # the end -------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Let all that is written be upserted, and the collection be read back."""
        stage = self._stage
        stage.await_that(
            "the end of the writer", lambda: self._writer.has_said("done"), self._revive
        )
        stage.await_that("the end of the writer", lambda: not self._writer.is_alive)
        with quiver.open(self.store) as store:
            end = store.info().next_segment_seq
        stage.say(f"the writer is done: {end:,} segments")
        while committed(self.checkpoint).get(0, 0) < end:
            latest = self._latest()
            stage.await_that("one more epoch", lambda: self._is_past(latest, end), self._revive)  # noqa: B023
        stage.say(f"all is in the collection: epoch {self._latest()}")
        with open(os.path.join(self.answers, f"{ASK}.new"), "w", encoding="utf-8") as file:
            file.write(str(self.epoch))
        os.rename(file.name, os.path.join(self.answers, ASK))
        if not self._query.await_that(lambda: self._query.has_said("answered"), _ANSWER_SECONDS):
            raise SystemExit(f"the query did not answer; see {os.path.dirname(self.answers)}")
        stage.say("Spark has read it: as it is, as it was, and all changes")


def is_segment(name: str) -> bool:
    """Whether a file is a finished segment."""
    return name.endswith(".qseg")
