"""``format("quiver-telemetry")``: a store of telemetry as rows, each joined inside its bundle.

Tasks read whole bundles and join their slots in Arrow, since ids mean nothing outside of a bundle.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quiver.disk import LocalDisk
from quiver.errors import ConfigError, MissingError
from quiver.manifest import StoreManifest
from quiver.otel.batch import Batch
from quiver.otel.joined import SCHEMAS, SIGNALS, joined_rows
from quiver.otel.signals import OTLP_SLOTS, PAYLOADS, ROOT_SLOTS, TELEMETRY
from quiver.scan import SegmentRef, SlotPart
from quiver.scan.snapshot import SlotLookup, list_segments, open_segment
from quiver.source.stores import Limits, Span
from quiver.source.stores.bundles import read_bundles
from quiver.spark import options as o
from quiver.spark.batch import gather, split
from quiver.spark.schema import to_spark_schema
from quiver.spark.stream import QuiverStreamReader
from quiver.spark.stream_driver import StreamDriver
from quiver.spark.stream_plan import share_out, weigh
from quiver.spark.stream_query import StreamQuery
from quiver.spark.tasks import expired, open_store
from quiver.spark.worker import settle

__all__ = ["ROWS", "TelemetryDataSource"]

_PARTITION_BYTES_MAX: Final = 128 << 20
_PLACE: Final = pa.schema(
    {"_core": pa.int32(), "_segment_seq": pa.int64(), "_bundle_index": pa.int64()}
)
ROWS: Final = o.Option("rows", o.one_of(*SCHEMAS), frozenset({"batch", "stream"}))
_TABLE: Final = o.Table(
    "quiver-telemetry",
    (
        *(ROWS, o.PATH, o.MAX_PARTITION_BYTES, o.MIN_PARTITIONS, o.FAIL_ON_DATA_LOSS),
        *(o.STARTING_OFFSETS, o.MAX_SEGMENTS, o.MAX_BYTES),
        *(o.SUBSCRIBER, o.CHECKPOINT_LOCATION, o.SINK),
    ),
)


class TelemetryDataSource(DataSource):
    """The source named ``quiver-telemetry``; the option ``rows`` says which rows are made."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options; a batch takes its snapshot when Spark asks for a reader."""
        super().__init__(dict(options))
        settle()
        self._given = o.Options(options, _TABLE)
        self._path = self._given.need(o.PATH, 'say .load("path/to/store")')
        self._rows = self._given.need(ROWS, f"one of {', '.join(SCHEMAS)}")
        with closing(LocalDisk(self._path)) as disk:
            manifest = StoreManifest.read(disk)
            self._path = disk.root
        root = ROOT_SLOTS[SIGNALS[self._rows]]
        if root not in manifest.slots or manifest.slots[root] != TELEMETRY[root]:
            raise ConfigError(
                f"the store in {self._path} has no slot {root!r}: it is none of telemetry",
                hint="a store of telemetry is made by quiver run, or with quiver.otel.TELEMETRY",
            )
        self._store_id = manifest.store_id
        self._taken: tuple[Span, ...] | None = None

    @classmethod
    def name(cls) -> str:
        """Give the word behind ``format``."""
        return "quiver-telemetry"

    def schema(self) -> StructType:
        """Give the columns of the rows, which are the same whatever is in the store."""
        return to_spark_schema(_schema(self._rows))

    def reader(self, schema: StructType) -> TelemetryReader:
        """Plan the reading of all segments that are finalized now; the first time decides."""
        self._given.check_use("batch")
        if self._taken is None:
            with closing(open_store(self._path, self._store_id)) as disk:
                self._taken = tuple(Span(segment) for segment in list_segments(disk))
        return TelemetryReader(self._query(schema), self._taken)

    def streamReader(self, schema: StructType) -> QuiverStreamReader:  # noqa: N802
        """Read segments as they come."""
        given = self._given
        given.check_use("stream")
        if given.get(o.SUBSCRIBER, "") and not given.get(o.CHECKPOINT_LOCATION, ""):
            raise ConfigError("subscriber: needs the option checkpointLocation as well")
        return QuiverStreamReader(self._query(schema), decide=TelemetryDriver, read=read_rows)

    def _query(self, schema: StructType) -> StreamQuery:
        given, known = self._given, _schema(self._rows)
        if schema != to_spark_schema(known):
            raise ConfigError(
                "a schema of your own has no meaning here", hint="select columns of the DataFrame"
            )
        root = ROOT_SLOTS[SIGNALS[self._rows]]
        return StreamQuery(
            self._path,
            self._store_id,
            self._rows,
            TELEMETRY[root].slot_id,
            stored=known,
            target=known,
            start=given.get(o.STARTING_OFFSETS, "earliest"),
            limits=Limits(given.get(o.MAX_SEGMENTS, 0) or None, given.get(o.MAX_BYTES, 0) or None),
            bytes_max=given.get(o.MAX_PARTITION_BYTES, _PARTITION_BYTES_MAX),
            count_min=given.get(o.MIN_PARTITIONS, os.cpu_count() or 1),
            is_fixed=True,
            ignores_change=False,
            fails_on_loss=given.get(o.FAIL_ON_DATA_LOSS, True),
            subscriber=given.get(o.SUBSCRIBER, ""),
            checkpoint=given.get(o.CHECKPOINT_LOCATION, ""),
            sink=given.get(o.SINK, ""),
        )


class TelemetryReader(DataSourceReader):
    """Reads the segments of one snapshot; pickled to the workers."""

    def __init__(self, query: StreamQuery, spans: Sequence[Span]) -> None:
        """Plan to read ``spans``."""
        self._query = query
        self._spans: Sequence[Span] = spans

    def partitions(self) -> Sequence[InputPartition]:
        """Give the shares, in order. Spark makes one of value None out of no partitions."""
        settle()
        query, lookup = self._query, SlotLookup(self._query.slot_id, lambda _: False)
        with closing(open_store(query.path, query.store_id)) as disk:
            weighed = weigh(self._spans, lambda segment: _whole(lookup.part(disk, segment)))
        shares = share_out(weighed, bytes_max=query.bytes_max, count_min=query.count_min)
        return [InputPartition(spans) for spans in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share."""
        settle()
        try:
            yield from read_rows(self._query, partition.value or ())
        except MissingError as error:
            raise expired(error) from error

    def __getstate__(self) -> dict[str, Any]:
        """Leave the snapshot behind: a task is told with its partition what it reads of it."""
        return vars(self) | {"_spans": ()}


class TelemetryDriver(StreamDriver):
    """Decides what a stream reads, for whom a segment is more than one slot of it."""

    def _look(self, segment: SegmentRef) -> SlotPart | None:
        part = self._planner.part(segment)
        return None if part is None else _whole(part)


def _whole(part: SlotPart) -> SlotPart:
    """Weigh all of a segment: rows are made of many slots, or of requests."""
    return replace(part, row_count=1, byte_count=part.segment.file_bytes)


def _schema(rows: str) -> pa.Schema:
    return pa.schema([*SCHEMAS[rows], *_PLACE])


def read_rows(query: StreamQuery, spans: Iterable[Span]) -> Iterator[pa.RecordBatch]:
    """Give the rows of some spans, in order, in batches as Spark likes them."""
    return gather(_rows(query, spans), query.stored, lambda rows: rows)


def _rows(query: StreamQuery, spans: Iterable[Span]) -> Iterator[pa.RecordBatch]:
    rows, signal = query.slot, SIGNALS[query.slot]
    with closing(open_store(query.path, query.store_id)) as disk:
        for span in spans:
            for index, bundle in _bundles(disk, span, _slots(rows)):
                place = (span.segment.core, span.segment.segment_seq, index)
                for found in joined_rows(rows, Batch(signal, bundle)):
                    yield from split(_placed(found, place))


def _slots(rows: str) -> Sequence[str]:
    signal = SIGNALS[rows]
    return ["resource_attrs", "scope_attrs", *PAYLOADS[signal], OTLP_SLOTS[signal]]


def _bundles(disk: LocalDisk, span: Span, slots: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Give bundles of a span with the slots that they fill, in order, without a copy."""
    with open_segment(disk, span.segment) as reader:
        found: dict[str, Iterator[tuple[int, int | None, pa.RecordBatch]]] = {
            slot: read_bundles(reader, TELEMETRY[slot].slot_id, first=span.first, stop=span.stop)
            for slot in slots
        }
        heads = {slot: next(each, None) for slot, each in found.items()}
        heads = {slot: head for slot, head in heads.items() if head is not None}
        while heads:
            index = min(head[0] for head in heads.values() if head)
            bundle = {slot: head[2] for slot, head in heads.items() if head and head[0] == index}
            for slot in bundle:
                heads[slot] = next(found[slot], None)
            heads = {slot: head for slot, head in heads.items() if head is not None}
            yield index, bundle


def _placed(rows: pa.RecordBatch, place: tuple[int, int, int]) -> pa.RecordBatch:
    added = [
        pa.repeat(pa.scalar(value, field.type), rows.num_rows)
        for value, field in zip(place, _PLACE, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *added], schema=pa.schema([*rows.schema, *_PLACE])
    )
