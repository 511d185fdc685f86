"""What a task is told of one slot of a queue, and how it reads its share: elsewhere perhaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from quiver.casts import conform
from quiver.errors import InputError
from quiver.promote import common_type
from quiver.schemas import same_schema_as, same_type
from quiver.ship.consumer import Batch
from quiver.ship.consumer.fetcher import POISON
from quiver.source.stores import read_bundles
from quiver.spark.batch import gather, merge, split
from quiver.spark.queue.fetching import Fetching
from quiver.spark.queue.record import open_call, slot_id_of
from quiver.spark.queue.shares import Share
from quiver.spark.schema import Nanoseconds, arrow_schema, to_spark, to_spark_all, to_spark_schema
from quiver.spark.stream_read import check_schema
from quiver.spark.tasks import METADATA, Place, with_place

__all__ = ["SlotRecipe"]


@dataclass(frozen=True)
class SlotRecipe:
    """How to read one slot: ``stored`` are its own types, ``target`` those of Spark.

    Without ``stored`` nothing was looked up: each segment is held against what Spark wants.
    """

    fetching: Fetching
    slot: str
    target: pa.Schema
    stored: pa.Schema | None = None
    nanoseconds: Nanoseconds = "us"
    is_fixed: bool = False
    ignores_change: bool = False
    metadata: bool = False

    @property
    def in_files(self) -> pa.Schema:
        """The columns that are read, without those that no file has."""
        known = self.target if self.stored is None else self.stored
        if not self.metadata:
            return known
        return pa.schema([field for field in known if field.name not in METADATA.names])

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Read one share. Raises SourceError for a batch that is gone or damaged, RemoteError."""
        if self.stored is None:
            found = merge(self._loose(share))
            return (batch for batch in found if batch.num_rows)
        return gather(self._exact(share, self.stored), self.stored, to_spark_all(self.target))

    def _exact(self, share: Share, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Give rows in the slot's own types."""
        in_files, checked = self.in_files, list[Callable[[pa.Schema], bool]]()
        is_ready = same_schema_as(in_files)
        for place, batch in self._chunks(share):
            if not any(is_same(batch.schema) for is_same in checked):
                check_schema(batch.schema, self, place=_text(place))
                checked.append(same_schema_as(batch.schema))
            first = 0
            for part in split(batch):
                rows = part if is_ready(part.schema) else conform(part, in_files)
                yield conform(with_place(rows, place, first), stored) if self.metadata else rows
                first += part.num_rows

    def _loose(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Give rows as Spark wants them, whose types are held against that segment by segment."""
        checked = list[Callable[[pa.Schema], bool]]()
        for place, batch in self._chunks(share):
            if not any(is_same(batch.schema) for is_same in checked):
                self._check(batch.schema, _text(place))
                checked.append(same_schema_as(batch.schema))
            first = 0
            for part in split(batch):
                rows = with_place(part, place, first) if self.metadata else part
                yield to_spark(rows, self.target)
                first += part.num_rows

    def _check(self, found: pa.Schema, place: str) -> None:
        """Raise InputError unless each column is of the type that was asked for, or a narrower."""
        for field in self.in_files:
            index = found.get_field_index(field.name)
            if index < 0:
                continue
            one = pa.schema([found.field(index)])
            offered = arrow_schema(to_spark_schema(one, nanoseconds=self.nanoseconds)).field(0)
            joined = common_type(field.type, offered.type)
            if joined is None or not same_type(joined, field.type):
                raise InputError(
                    f"{place} has column {field.name!r} as {offered.type}, and the schema asks "
                    f"for {field.type}",
                    hint="ask for a type that holds it, and cast the DataFrame's column",
                )

    def _chunks(self, share: Share) -> Iterator[tuple[Place, pa.RecordBatch]]:
        """Go through the bundles of a share that have the slot."""
        columns = self.in_files.names if self.is_fixed else None
        for descriptor, batch in self.fetching.ahead(share):
            try:
                for index in range(len(batch.calls)):
                    yield from self._of_call(batch, index, share, columns=columns)
            except POISON as error:
                if isinstance(error, InputError):
                    raise  # Of types: the batch is sound.
                self.fetching.lost(descriptor, error, epoch=share.epoch)

    def _of_call(
        self, batch: Batch, index: int, share: Share, *, columns: list[str] | None
    ) -> Iterator[tuple[Place, pa.RecordBatch]]:
        with open_call(batch, index) as (segment, reader):
            slot_id = slot_id_of(reader, self.slot)
            if slot_id is None:
                return
            source, store_id = (segment.core, segment.segment_seq), segment.store_id
            for bundle_index, time_ns, rows in read_bundles(reader, slot_id, columns=columns):
                if share.has(time_ns):
                    yield Place(*source, bundle_index, time_ns, store_id), rows


def _text(place: Place) -> str:
    """How messages call where a bundle is from."""
    return f"segment {place.segment_seq} of core {place.core} of store {place.store_id}"
