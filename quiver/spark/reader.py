"""Read the partitions of one snapshot, in the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quiver.errors import InputError
from quiver.scan import Scan, conform
from quiver.spark.batch import merge, split
from quiver.spark.partitions import Piece
from quiver.spark.schema import Nanoseconds, to_spark, to_spark_schema

__all__ = ["QuiverReader", "choose"]


class QuiverReader(DataSourceReader):
    """Reads partitions of one snapshot; pickled to the workers."""

    # There is no pushFilters here: with Spark's default settings merely having one fails the query.

    def __init__(
        self,
        scan: Scan,
        *,
        stored: pa.Schema,
        target: pa.Schema,
        pieces: Sequence[tuple[Piece, ...]],
    ) -> None:
        """Read ``pieces`` as ``stored``, the slot's own types, and give them as ``target``."""
        self._scan = scan
        self._stored = stored
        self._target = target
        self._pieces = pieces

    def partitions(self) -> Sequence[InputPartition]:
        """Give the shares, in order. Spark makes one of value None out of no partitions."""
        return [InputPartition(pieces) for pieces in self._pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share in batches of at most 64 k rows, in order of segment and bundle."""
        return merge(self._convert(partition.value or ()))

    def _convert(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            for batch in self._scan.batches(piece.segment, first=piece.first, stop=piece.stop):
                for part in split(batch):
                    yield to_spark(conform(part, self._stored), self._target)


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
