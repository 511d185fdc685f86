"""``df.write.format("quiver")`` and ``df.writeStream.format("quiver")``: append into a store.

::

    df.write.format("quiver").mode("append").option("slot", "logs").save("path/to/store")
    df.writeStream.format("quiver").option("slot", "logs").option("checkpointLocation", ...)

=====================  =========================================================================
``path``               the store's folder, usually the argument of ``save`` or ``start``
``slot``               which slot the columns go to; required
``maxRowsPerBundle``   how many rows become one bundle; default 65,536
``maxBytesPerBundle``  and how many bytes, such as ``8MiB``, which is the default
``createIfMissing``    ``true`` makes the store if there is none; default ``false``
``slots``              its slots then, separated by commas; default: ``slot`` alone
``config``             a file of options, as of ``quiver.open``: the same as other writers use
``sinkId``             of a batch write: who repeats it, such as the name of a job; another one for
                       each write into the same slot
``batchId``            and its number, rising: a batch of this sink that is in is passed over
=====================  =========================================================================

Each task stages what it is given, outside of what readers see; the commit lets in all of it, once
(``quiver.sink``). A streaming query is a sink by itself: its id is in its checkpoint, and a batch
that is repeated after a crash is passed over if it is in. A batch write without ``sinkId`` and
``batchId`` is one write: whoever runs the job again writes again. In ``foreachBatch`` give both.

``mode("append")`` is the only one: Spark knows no others for such a source but ``overwrite``, and
what is in a store belongs to its subscribers. Streams have ``outputMode("append")``.

What a task had staged when its process was killed, or when its whole job failed, may stay in the
folder ``staging``. Nobody sees it. A stream's goes with its next batch, any other by ``quiver gc``
once it is a day old.
"""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from quiver import engine
from quiver.clock import SystemClock
from quiver.config import Config
from quiver.config_file import config_of
from quiver.disk import LocalDisk
from quiver.errors import ConfigError, InputError, MissingError, QuiverError
from quiver.manifest import StoreManifest
from quiver.scan import Scan
from quiver.sink import Job, Stage, Staged, abort, check_sink, commit
from quiver.spark import options as o
from quiver.spark.schema import to_spark
from quiver.spark.sink_schema import check_fits, stored_schema
from quiver.spark.worker import settle

__all__ = ["QuiverStreamWriter", "QuiverWriter", "batch_writer", "cut", "stream_writer"]

_ROWS: Final = 65_536
_BYTES: Final = 8 << 20
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Message(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged


@dataclass(frozen=True, slots=True)
class _Plan:
    """What tasks and the driver of one write share; pickled to both."""

    path: str
    slot: str
    target: pa.Schema
    config: Config
    rows_max: int
    bytes_max: int

    def stage(self, batches: Iterable[pa.RecordBatch], job: Job, task: str) -> Message:
        """Stage what one task is given; what it staged goes if it fails."""
        settle()
        try:
            disk = LocalDisk(self.path)
        except MissingError as error:
            raise MissingError(
                f"host {platform.node()} does not see {self.path}, where the driver has a store",
                path=self.path,
                hint="executors elsewhere need the store's folder under the same path",
            ) from error
        with closing(disk):
            stage = Stage(disk, job, task, config=self.config, clock=SystemClock())
            try:
                for bundle in cut(batches, rows_max=self.rows_max, bytes_max=self.bytes_max):
                    stage.add({self.slot: to_spark(bundle, self.target)})
                return Message(stage.finish())
            except BaseException:
                stage.discard()
                raise

    def commit(self, job: Job, parts: Sequence[Staged]) -> None:
        with closing(LocalDisk(self.path)) as disk:
            commit(disk, job, parts, config=self.config, clock=SystemClock())

    def abort(self, job: Job | None, parts: Sequence[Staged]) -> None:
        with closing(LocalDisk(self.path)) as disk:
            abort(disk, job, parts)


class QuiverWriter(DataSourceArrowWriter):
    """One batch write; Spark gives the same one to its tasks and to its commit."""

    def __init__(self, plan: _Plan, job: Job) -> None:
        """Write ``job`` as the plan says."""
        self._plan = plan
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:  # type: ignore[override]
        """Stage the rows of one task."""
        return self._plan.stage(iterator, self._job, _task())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Let all of it in."""
        self._plan.commit(self._job, _parts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Take back what was staged."""
        self._plan.abort(self._job, _parts(messages))


class QuiverStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch; Spark makes another one for the commit, which knows what messages tell."""

    def __init__(self, plan: _Plan) -> None:
        """Write as the plan says."""
        self._plan = plan
        self._name = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:  # type: ignore[override]
        """Stage the rows of one task, under the id of the query."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        if not query:
            raise ConfigError("Spark does not tell which streaming query this task belongs to")
        return self._plan.stage(iterator, Job(self._name, check_sink(query)), _task())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Let all of it in, unless it is."""
        parts = _parts(messages)
        if parts:
            self._plan.commit(replace(parts[0].job, batch_id=batchId), parts)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Take back what was staged; the batch comes again under the same number."""
        self._plan.abort(None, _parts(messages))


def batch_writer(
    given: o.Options, schema: StructType, found: Scan | QuiverError, *, overwrite: bool
) -> QuiverWriter:
    """Plan a batch write; raises what is wrong with it before anything is staged."""
    plan = _plan(given, schema, found, overwrite=overwrite)
    sink, batch_id = given.get(o.SINK_ID, ""), given.get(o.BATCH_ID, -1)
    if (sink == "") != (batch_id < 0):
        raise ConfigError(
            "sinkId and batchId go together",
            hint="both name a batch that may be repeated; leave both out for one that is not",
        )
    if sink:  # A batch may have rows for several slots: each is a write of its own.
        with closing(LocalDisk(plan.path)) as disk:
            slot_id = StoreManifest.read(disk).slots[plan.slot].slot_id
        sink = f"{check_sink(sink)}--{slot_id}"
    return QuiverWriter(plan, Job(uuid.uuid4().hex, sink, max(batch_id, 0)))


def stream_writer(
    given: o.Options, schema: StructType, found: Scan | QuiverError, *, overwrite: bool
) -> QuiverStreamWriter:
    """Plan the writing of a micro-batch."""
    if given.get(o.SINK_ID, "") or given.get(o.BATCH_ID, -1) >= 0:
        raise ConfigError(
            "sinkId and batchId have no meaning for a stream",
            hint="its checkpoint says which query it is, and Spark numbers its batches",
        )
    return QuiverStreamWriter(_plan(given, schema, found, overwrite=overwrite))


def _plan(
    given: o.Options, schema: StructType, found: Scan | QuiverError, *, overwrite: bool
) -> _Plan:
    given.check_use("write")
    if overwrite:
        raise InputError(
            "format quiver appends and never overwrites: what is in a store belongs to its "
            "subscribers",
            hint='mode("append"), or outputMode("append") of a stream',
        )
    path = os.path.abspath(given.need(o.PATH, 'say .save("path/to/store")'))
    slot = given.need(o.SLOT, 'say .option("slot", "name")')
    config = config_of(given.get(o.CONFIG, "") or None)
    target = stored_schema(schema)
    if isinstance(found, MissingError):
        _make(path, slot, given=given, config=config)
    elif isinstance(found, QuiverError):
        raise found
    elif any(part.schema is not None for part in found.parts):
        check_fits(found.schema, target)
    return _Plan(
        path,
        slot,
        target,
        config,
        given.get(o.MAX_ROWS_PER_BUNDLE, _ROWS),
        given.get(o.MAX_BYTES_PER_BUNDLE, _BYTES),
    )


def _make(path: str, slot: str, *, given: o.Options, config: Config) -> None:
    """Make the store, if that was asked for; somebody may have made it since."""
    slots = given.get(o.SLOTS, ()) or (slot,)
    if slot not in slots:
        raise ConfigError(f"slots: {slot!r}, which is to be written, is not among them")
    if not given.get(o.CREATE_IF_MISSING, default=False):
        raise MissingError(
            f"there is no Quiver store in {path}",
            path=path,
            hint='make one with quiver.open(path, slots=[...]), or say option("createIfMissing", '
            '"true")',
        )
    engine.open(path, slots=slots, config=config, worker=False).close()
    with closing(LocalDisk(path)) as disk:
        StoreManifest.read(disk).slots[slot]


def cut(
    batches: Iterable[pa.RecordBatch], *, rows_max: int, bytes_max: int
) -> Iterator[pa.RecordBatch]:
    """Make bundles of batches: as many rows as may be, and no more; a row is never cut."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for part in _slices(batches, rows_max=rows_max, bytes_max=bytes_max):
        if waiting and (rows + part.num_rows > rows_max or size + part.nbytes > bytes_max):
            yield _join(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
    if waiting:
        yield _join(waiting)


def _slices(
    batches: Iterable[pa.RecordBatch], *, rows_max: int, bytes_max: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        step = max(1, min(rows_max, batch.num_rows * bytes_max // max(1, batch.nbytes)))
        yield from (batch.slice(first, step) for first in range(0, batch.num_rows, step))


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    arrow: Any = pa  # Its stubs lack concat_batches.
    return batches[0] if len(batches) == 1 else arrow.concat_batches(batches)


def _parts(messages: Iterable[WriterCommitMessage | None]) -> list[Staged]:
    """Give what tasks have staged; those that failed have no message."""
    return [message.staged for message in messages if isinstance(message, Message)]


def _task() -> str:
    """Name this attempt of this task; no other one of this Spark has the name."""
    context = TaskContext.get()
    if context is None:
        return "0"
    return f"{context.partitionId()}-{context.taskAttemptId()}"
