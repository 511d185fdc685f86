"""``spark.readStream.format("quiver")``: segments of a store, or of a queue, as they come.

Offsets are positions in each core (``quiver.checkpoint.offsets``) or in the queue
(``quiver.spark.queue.offsets``), so a batch that is done again has the very same rows. A driver
decides, in a process of its own; tasks only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from quiver.clock import SystemClock
from quiver.source.stores import Limits
from quiver.spark.stream_driver import StreamDriver
from quiver.spark.stream_read import check_query, read_share
from quiver.spark.worker import settle

__all__ = ["QuiverStreamReader"]

_QUERY_ID = "sql.streaming.queryId"


class Query(Protocol):
    """What a driver and the tasks of a query have to agree on; goes to both."""

    @property
    def limits(self) -> Limits:
        """How much a batch takes at most."""
        ...

    @property
    def checkpoint(self) -> str:
        """The folder of the query's checkpoint; empty if it is not known, or elsewhere."""
        ...


class Driver(Protocol):
    """The one process of a query that decides. Offsets are what it makes of them."""

    def initial(self) -> dict[str, Any]:
        """Say where a query without a checkpoint begins."""
        ...

    def aim(self) -> None:
        """Take what is there now as the end of the query."""
        ...

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Say up to where the next batch goes; ``start`` itself if there is nothing new."""
        ...

    def report(self) -> dict[str, Any]:
        """Say how far the source is, and how much of that is in no batch yet."""
        ...

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[Any]:
        """Share out what lies between two offsets."""
        ...

    def commit(self, end: Mapping[str, Any]) -> None:
        """Ack what is committed and on the disk by now."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class QuiverStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's face of a driver. Nothing is opened before Spark asks something."""

    def __init__(
        self,
        query: Query,
        *,
        decide: Callable[..., Driver] = StreamDriver,
        read: Callable[..., Iterator[pa.RecordBatch]] = read_share,
    ) -> None:
        """Read what ``query`` says; ``decide`` makes a driver of it, ``read`` a task's rows."""
        self._query, self._decide, self._read = query, decide, read
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Go to the tasks without what belongs to the process that decides."""
        return vars(self) | {"_driver": None}

    @property
    def _decides(self) -> Driver:
        if self._driver is None:
            self._driver = self._decide(self._query, clock=SystemClock())
        return self._driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Say where a query without a checkpoint begins."""
        return self._decides.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Say what limits a batch; Spark hands it back unless all is to be read."""
        limits = self._query.limits
        if limits.segments_max is not None:
            return ReadMaxFiles(limits.segments_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Say up to where the next batch goes; asked at each trigger."""
        return self._decides.latest(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what is there now as the end."""
        self._decides.aim()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Say how far the store is, and how far the query is behind; shown in its progress."""
        return self._decides.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Share a batch out into tasks."""
        return [InputPartition(spans) for spans in self._decides.partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the share of one task."""
        settle()
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        check_query(self._query.checkpoint, query_id)
        return self._read(self._query, partition.value or ())

    def commit(self, end: dict[str, Any]) -> None:
        """Ack, as the subscriber, what is committed and on the disk."""
        self._decides.commit(end)

    def stop(self) -> None:
        """Let go of the store."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
