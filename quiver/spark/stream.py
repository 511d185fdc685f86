"""``spark.readStream.format("quiver")``: the finalized segments of a store, as they come.

Offsets are positions in each core (``quiver.checkpoint.offsets``), so a batch that is done again
has the very same rows. ``StreamDriver`` decides, in a process of its own; tasks only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
from quiver.spark.stream_driver import StreamDriver
from quiver.spark.stream_query import StreamQuery
from quiver.spark.stream_read import check_query, read_share
from quiver.spark.worker import settle

__all__ = ["QuiverStreamReader"]

_QUERY_ID = "sql.streaming.queryId"


class QuiverStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's face of a ``StreamDriver``. Nothing is opened before Spark asks something."""

    def __init__(self, query: StreamQuery) -> None:
        """Read what ``query`` says."""
        self._query = query
        self._driver: StreamDriver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Go to the tasks without what belongs to the process that decides."""
        return {"_query": self._query, "_driver": None}

    @property
    def _decides(self) -> StreamDriver:
        if self._driver is None:
            self._driver = StreamDriver(self._query, clock=SystemClock())
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
        check_query(self._query, None if context is None else context.getLocalProperty(_QUERY_ID))
        return read_share(self._query, partition.value or ())

    def commit(self, end: dict[str, Any]) -> None:
        """Ack, as the subscriber, what is committed and on the disk."""
        self._decides.commit(end)

    def stop(self) -> None:
        """Let go of the store."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
