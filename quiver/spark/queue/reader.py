"""What Spark asks of a batch read: the batches of one snapshot of a queue, and then their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quiver.events import Events
from quiver.spark.queue.query import Recipe
from quiver.spark.queue.shares import Share, size_of
from quiver.spark.worker import settle

__all__ = ["QueueReader"]


class QueueReader(DataSourceReader):
    """Reads the shares of one snapshot; pickled to the workers. Acks nothing and fences nobody."""

    def __init__(self, recipe: Recipe, shares: Sequence[Share], *, place: str) -> None:
        """Read ``shares`` of the queue at ``place``."""
        self._recipe = recipe
        self._shares = tuple(shares)
        self._place = place

    def partitions(self) -> Sequence[InputPartition]:
        """Give the shares, in order. Spark makes one of value None out of no partitions."""
        settle()
        descriptors = [each for share in self._shares for each in share.descriptors]
        events = Events(store=self._place)
        events.info(
            "spark.queue_planned",
            partition_count=len(self._shares),
            batch_count=len(descriptors),
            byte_count=sum(map(size_of, descriptors)),
        )
        events.tell()
        return [InputPartition(share) for share in self._shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share in batches of at most 64 k rows, in the order of the queue."""
        settle()
        return self._recipe.read(partition.value) if partition.value else iter(())

    def __getstate__(self) -> dict[str, Any]:
        """Leave the shares behind: a task is told with its partition what it reads."""
        return vars(self) | {"_shares": ()}
