"""What Spark asks of a batch read: the partitions of one snapshot, and then their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quiver.errors import InputError
from quiver.events import Events
from quiver.scan import Extent, Scan
from quiver.scan.plan import Piece
from quiver.spark.filters import expression
from quiver.spark.partitions import plan
from quiver.spark.schema import Nanoseconds, to_spark_schema
from quiver.spark.tasks import Recipe
from quiver.spark.worker import settle

__all__ = ["FilteringReader", "QuiverReader", "choose"]


class QuiverReader(DataSourceReader):
    """Reads partitions of one snapshot; pickled to the workers."""

    # There is no pushFilters here: where filters are not pushed down, merely having one fails the
    # query.

    def __init__(self, scan: Scan, recipe: Recipe, *, bytes_max: int, count_min: int) -> None:
        """Plan to read ``scan`` by ``recipe``."""
        self._scan: Scan | None = scan
        self._recipe = recipe
        self._bytes_max = bytes_max
        self._count_min = count_min

    def partitions(self) -> Sequence[InputPartition]:
        """Give the shares, in order. Spark makes one of value None out of no partitions."""
        settle()
        shares = self._plan()
        self._tell(len(shares))
        return [InputPartition(pieces) for pieces in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share in batches of at most 64 k rows, in order of segment and bundle."""
        settle()
        return self._recipe.read(partition.value) if partition.value else iter(())

    def _plan(self) -> list[tuple[Piece, ...]]:
        scan = self._scan
        if scan is None or all(part.schema is None for part in scan.parts):
            return []  # Nothing is finalized yet, and the user knows the schema: no rows.
        return plan(scan.pieces, bytes_max=self._bytes_max, count_min=self._count_min)

    def _tell(self, partition_count: int) -> None:
        scan = self._scan
        whole = skipped = Extent()
        if scan is not None and partition_count:
            whole, skipped = scan.extent, scan.skipped
        events = Events(store=self._recipe.path)
        events.info(
            "spark.planned",
            partition_count=partition_count,
            segment_count=whole.segments,
            skipped_segment_count=skipped.segments,
            chunk_count=whole.chunks,
            skipped_chunk_count=skipped.chunks,
            row_count=whole.rows,
            skipped_row_count=skipped.rows,
        )
        events.tell()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the snapshot behind: a task is told with its partition what it reads of it."""
        return vars(self) | {"_scan": None}


class FilteringReader(QuiverReader):
    """The same, where Spark hands filters down: by ``pushdown``, and for one query of a load."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Leave out what cannot pass, and give all back: Spark tries each of them again."""
        recipe, scan = self._recipe, self._scan
        if scan is not None:
            # Of the columns that are added nothing is known before a row is read.
            kept = [field for field in recipe.stored if field.name not in recipe.added]
            self._scan = scan.select(where=expression(filters, pa.schema(kept)))
            self._recipe = recipe.leaving_out(expression(filters, recipe.stored))
        return filters


def choose(known: pa.Schema, asked: StructType, nanoseconds: Nanoseconds) -> pa.Schema:
    """Choose the stored columns that a Spark schema asks for; raises InputError if one differs."""
    fields = []
    for field in asked:
        if field.name not in known.names:
            raise InputError(
                f"the schema asks for column {field.name!r}, which is not in the store",
                hint=f"its columns are: {', '.join(known.names)}",
            )
        stored = known.field(field.name)
        offered = to_spark_schema(pa.schema([stored]), nanoseconds=nanoseconds)[0]
        if field.dataType != offered.dataType:
            raise InputError(
                f"the schema asks for column {field.name!r} as {field.dataType.simpleString()}, "
                f"the store has {offered.dataType.simpleString()}",
                hint="ask for the stored type, children nullable, and cast the DataFrame's column",
            )
        fields.append(stored)
    return pa.schema(fields)
