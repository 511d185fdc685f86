"""What Spark asks of a batch read: the buckets of one snapshot, and then their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quiver.events import Events
from quiver.spark.filters import expression
from quiver.spark.view.plan import only_buckets
from quiver.spark.view.pruning import buckets_of
from quiver.spark.view.recipe import ViewRecipe
from quiver.spark.view.shares import Range, Share, share_out
from quiver.spark.worker import settle
from quiver.upsert.persist import Snapshot

__all__ = ["FilteringViewReader", "ViewReader"]


class ViewReader(DataSourceReader):
    """Reads one snapshot of a collection; pickled to the workers."""

    # There is no pushFilters here: where filters are not pushed down, merely having one fails the
    # query.

    def __init__(
        self,
        recipe: ViewRecipe,
        snapshot: Snapshot,
        span: Range,
        *,
        bytes_max: int,
        count_min: int,
    ) -> None:
        """Plan to read a range of times of ``snapshot`` by ``recipe``."""
        self._recipe = recipe
        self._snapshot: Snapshot | None = snapshot
        self._range = span
        self._bytes_max = bytes_max
        self._count_min = count_min
        self._buckets: frozenset[int] | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Give the shares, in order. Spark makes one of value None out of no partitions."""
        settle()
        snapshot, sizes = self._snapshot, dict[int, int]()
        if snapshot is not None:
            sizes = self._recipe.sizes(snapshot, self._range)
        kept = {b: n for b, n in sizes.items() if self._buckets is None or b in self._buckets}
        shares = share_out(kept, bytes_max=self._bytes_max, count_min=self._count_min)
        events = Events(store=self._recipe.place)
        events.info(
            "spark.view_planned",
            partition_count=len(shares),
            bucket_count=len(kept),
            skipped_bucket_count=len(sizes) - len(kept),
            byte_count=sum(kept.values()),
        )
        events.tell()
        if snapshot is None:
            return []
        self._recipe.check_errors(Share(snapshot, tuple(kept), self._range))
        return [
            InputPartition(Share(only_buckets(snapshot, buckets), buckets, self._range))
            for buckets in shares
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share in batches of at most 64 k rows, bucket by bucket."""
        settle()
        return self._recipe.read(partition.value) if partition.value else iter(())

    def __getstate__(self) -> dict[str, Any]:
        """Leave the snapshot behind: a task is told with its partition what it reads of it."""
        return vars(self) | {"_snapshot": None}


class FilteringViewReader(ViewReader):
    """The same, where Spark hands filters down: by ``pushdown``, and for one query of a load."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Leave out what cannot pass, and give all back: Spark tries each of them again."""
        recipe, snapshot = self._recipe, self._snapshot
        self._recipe = recipe.leaving_out(expression(filters, recipe.stored))
        if snapshot is not None:
            self._buckets = buckets_of(filters, snapshot.definition, layout=recipe.columns.layout)
        return filters
