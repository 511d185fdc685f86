"""``spark.read.format("quiver")``: a store's finalized segments, or a queue, as a data source.

::

    spark.read.format("quiver").option("slot", "logs").load("path/to/store")

Options, in any case (``quiver.spark.options``); an unknown one is an error:

=====================  =========================================================================
``path``               the store's folder, or a queue: usually the argument of ``load``
``slot``               which slot to read; required for a store
``columns``            names separated by commas: the only ones that are read, in this order
``startingSegment``    from this segment on: ``12`` for all cores, or ``core_0:12,core_1:3``
``endingSegment``      up to this segment, and without it (``quiver.spark.span``)
``startingTime``       bundles appended from then on: ISO 8601, or nanoseconds since 1970
``endingTime``         bundles appended before that; cursors include both ends. Of cores whose
                       times never fall, segments out of range are not looked into, so the columns
                       are those of the others, as with a range of segments
``includeMetadata``    ``true`` adds ``_core``, ``_segment_seq``, ``_bundle_index``,
                       ``_ingestion_time``, ``_row_index`` (in the bundle) and ``_store_id``
                       behind the other columns
``mergeSchema``        ``true`` (default): the columns of all segments. ``false``: those of the
                       segment with the highest number; another type than its own is an error
``failOnDataLoss``     ``true`` (default): what is deleted and should be read is an error
``timestampUnit``      ``us`` (default) floors nanoseconds; ``int64`` keeps them as BIGINT
``maxPartitionBytes``  how large a partition may get, such as ``64MiB``; default 256 MiB
``minPartitions``      how many to make at least if there is enough data; default: the cores
``pushdown``           ``once`` takes filters, for one query of a load: see below. Default ``never``
=====================  =========================================================================

Spark hands no column list to a Python data source, so ``columns``, or a schema given with
``.schema(...)``, is what keeps other columns from being read. A given schema must name columns
that are there, with the types of the table in ``quiver.spark.schema``; nothing is cast to it.
Columns that are ``NOT NULL`` in it Spark does not ask for nulls, value by value, which saves
9 percent of its CPU for six columns; a null in one of them is an error.

One ``load`` is one snapshot: the list of segments is fixed when the DataFrame is made, and all that
is derived from it reads the same rows. Load again to see newer ones. If the store has deleted a
segment of the snapshot by then the query fails and says that the snapshot has expired.

**A queue** (``quiver.ship``) is what a path with a scheme names, ``s3://bucket/path``, ``az://``,
``gs://`` or ``file:///folder``, and a folder that holds one. Its entries are the segments that
stores on any machine have shipped; ``load`` takes the list of them as its snapshot, acks nothing
and fences nobody. Options of the table that speak of segments by number, of ``mergeSchema`` and of
``pushdown`` are refused. ``bucket.<name>`` is what the object store is told: ``bucket.endpoint``,
``bucket.access_key_id``, ``bucket.secret_access_key`` and others (``quiver.ship.objects.options``);
what is not said is looked for in the environment of each process. Without ``slot`` the records of
any queue are read as they are: ``sequence``, ``index``, ``ingestion_time``, ``metadata``,
``value``. To know the columns one batch of each schema is fetched, and none if you say them with
``.schema(...)``; then a name that is nowhere is a column of nulls.

With ``pushdown`` Spark hands filters down: what their statistics exclude is not read, most rows
that do not pass are left out, and Spark tries each filter again. But Spark 4.3 keeps one plan for
each ``load``, made with the filters that it saw last, and takes it for every other query and for
both sides of a union: those lose rows. So it is for one query with one set of filters, of a
``load`` of its own, and needs ``spark.sql.python.filterPushdown.enabled``. Ranges of segments and
of time are always safe. What was left out shows in ``number of output rows`` of the scan on Spark's
page, and in ``quiver.scan(..., where=...).skipped``.

Rows of several slots that were one bundle are joined by ``_core``, ``_segment_seq`` and
``_bundle_index``: numbers of segments belong to a core.

Partitions follow the order of cores, segments and bundles, so neighbours in a file go to one task.
Spark asks no Python source on which machine a partition lies best: all machines must see the store
under one path.

``CREATE TABLE t USING quiver OPTIONS (...)`` keeps the schema, but Spark does not hand the options
back: ``SELECT ... FROM t WITH (`path`='...', `slot`='...')``, or make a ``TEMPORARY VIEW``.

``readStream`` takes more of them: ``STREAMING.md``. Writing has options of its own:
``quiver.spark.sink``.

A slot that no finalized segment holds yet has no schema: an error, unless a schema is given, which
then makes an empty DataFrame.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from quiver.cursors import timely
from quiver.disk import LocalDisk
from quiver.errors import ConfigError, MissingError, QuiverError
from quiver.scan import Scan
from quiver.spark import options as o
from quiver.spark.queue import QueueReader, QueueSource, queue_at
from quiver.spark.reader import FilteringReader, QuiverReader, choose
from quiver.spark.schema import arrow_schema, to_spark_schema
from quiver.spark.sink import QuiverStreamWriter, QuiverWriter, batch_writer, stream_writer
from quiver.spark.span import choose_segments
from quiver.spark.stream import QuiverStreamReader
from quiver.spark.stream_query import stream_query, stream_schema, with_metadata
from quiver.spark.tasks import METADATA, Recipe, expired, store_id_of
from quiver.spark.worker import settle
from quiver.timeline import TIME_MAX

__all__ = ["QuiverDataSource"]

_PARTITION_BYTES_MAX: Final = 256 << 20
_NO_PATH: Final = (
    'say .load("path/to/store"); Spark does not hand the options of CREATE TABLE back: make a '
    "TEMPORARY VIEW, or say SELECT ... FROM t WITH (`path`='...', `slot`='...')"
)
_NOT_WRITTEN: Final = ConfigError(
    "path: a queue is not written by Spark, stores are",
    hint="write into a store in a folder, and ship that: quiver ship DIR URL",
)
_TRIES: Final = 5


class QuiverDataSource(DataSource):
    """The source named ``quiver``. Spark makes one for each ``load`` and pickles it along."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options and take the snapshot."""
        super().__init__(dict(options))
        settle()
        self._given = o.Options(options)
        self._is_inferred = False
        self._path = self._given.need(o.PATH, _NO_PATH)
        self._nanoseconds = self._given.get(o.TIMESTAMP_UNIT, "us")
        self._store_id: str | None = None
        self._whole: Scan | None = None
        self._ready: Scan | None = None
        # Spark makes a source for writing too, where there may be no store yet: what is wrong with
        # reading is told to who reads.
        self._queue = queue_at(self._path, self._given)
        self._found: Scan | QuiverError = self._look() if self._queue is None else _NOT_WRITTEN

    @classmethod
    def name(cls) -> str:
        """Give the word behind ``format``."""
        return "quiver"

    def schema(self) -> StructType:
        """Give the slot's representative schema in Spark's types, all nullable."""
        self._is_inferred = True  # Spark asks for it unless the user has given one.
        given = self._given
        if (queue := self._as_queue()) is not None:
            return to_spark_schema(queue.schema(), nanoseconds=self._nanoseconds)
        asks_checkpoint = given.find(o.SUBSCRIBER) and given.find(o.CHECKPOINT_LOCATION)
        if asks_checkpoint:
            schema = with_metadata(given, stream_schema(given, self._all()))
        else:
            schema = self._known_schema()
        return to_spark_schema(schema, nanoseconds=self._nanoseconds)

    def reader(self, schema: StructType) -> QuiverReader | QueueReader:
        """Plan the reading of the columns of ``schema``, which may be the user's own."""
        if (queue := self._as_queue()) is not None:
            return queue.reader(schema, is_inferred=self._is_inferred)
        given, scan = self._given, self._resolved()
        given.check_use("batch")
        stored, metadata = pa.schema([]), given.get(o.INCLUDE_METADATA, False)
        if any(part.schema is not None for part in scan.parts):
            stored = choose(self._known_schema(), schema, self._nanoseconds)
        recipe = Recipe(
            scan.path,
            self._store_id,
            stored,
            arrow_schema(schema),
            columns=tuple(n for n in stored.names if not (metadata and n in METADATA.names)),
            metadata=metadata,
            skip_lost=not given.get(o.FAIL_ON_DATA_LOSS, True),
        )
        kind = FilteringReader if given.get(o.PUSHDOWN, "never") == "once" else QuiverReader
        return kind(
            scan,
            recipe,
            bytes_max=given.get(o.MAX_PARTITION_BYTES, _PARTITION_BYTES_MAX),
            count_min=given.get(o.MIN_PARTITIONS, os.cpu_count() or 1),
        )

    def streamReader(self, schema: StructType) -> QuiverStreamReader:  # noqa: N802
        """Read the columns of ``schema`` as segments come."""
        if (queue := self._as_queue()) is not None:
            return queue.stream_reader(schema, is_inferred=self._is_inferred)
        query = stream_query(self._given, self._all(), schema, is_inferred=self._is_inferred)
        return QuiverStreamReader(query)

    def writer(self, schema: StructType, overwrite: bool) -> QuiverWriter:  # noqa: FBT001
        """Plan a batch write (``quiver.spark.sink``)."""
        self._refuse_queue()
        return batch_writer(self._given, schema, self._found, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QuiverStreamWriter:  # noqa: FBT001, N802
        """Plan the writing of a micro-batch."""
        self._refuse_queue()
        return stream_writer(self._given, schema, self._found, overwrite=overwrite)

    def _as_queue(self) -> QueueSource | None:
        """Give the queue if the path names one; raises what kept it from being looked at."""
        if isinstance(self._queue, QuiverError):
            raise self._queue
        return self._queue

    def _refuse_queue(self) -> None:
        if self._queue is not None:
            raise _NOT_WRITTEN

    def _known_schema(self) -> pa.Schema:
        return with_metadata(self._given, self._resolved().schema)

    def _all(self) -> Scan:
        """Give the snapshot without a range; raises what kept it from being taken."""
        if isinstance(self._found, QuiverError):
            raise self._found
        return self._whole or self._found

    def _resolved(self) -> Scan:
        """Give the snapshot under the one schema that all of it is read as; found out once."""
        if self._ready is None:
            if isinstance(self._found, QuiverError):
                raise self._found
            scan = self._with_parts(self._found)
            held = [part for part in scan.parts if part.schema is not None]
            if held and not self._given.get(o.MERGE_SCHEMA, True):
                newest = max(held, key=lambda part: (part.segment.segment_seq, part.segment.core))
                scan = scan.under(pa.schema(newest.schema or []))
            elif not held and self._whole is not None:
                scan = scan.under(self._whole.schema)
            self._ready = scan
        return self._ready

    def _with_parts(self, scan: Scan) -> Scan:
        """Look into all segments; leave out those that are gone, if that is allowed."""
        for _ in range(_TRIES):
            try:
                _ = scan.parts
            except MissingError as error:
                if self._given.get(o.FAIL_ON_DATA_LOSS, True):
                    raise expired(error) from error
                with closing(LocalDisk(scan.path)) as disk:
                    there = [ref for ref in scan.segments if disk.stat(ref.path) is not None]
                scan = scan.among(there)
            else:
                break
        return scan

    def _look(self) -> Scan | QuiverError:
        given = self._given
        columns = given.get(o.COLUMNS, ())
        try:
            slot = given.need(o.SLOT, 'say .option("slot", "name")')
            scan = Scan(self._path, slot=slot, columns=columns or None)
            with closing(LocalDisk(scan.path)) as disk:
                self._store_id = store_id_of(disk)
            times = given.find(o.STARTING_TIME), given.find(o.ENDING_TIME)
            start, end = given.find(o.STARTING_SEGMENT), given.find(o.ENDING_SEGMENT)
            if (*times, start, end) == (None,) * 4:
                return scan
            self._whole = scan
            if times != (None, None):
                scan = _timely(
                    Scan(self._path, slot=slot, columns=columns or None, ingestion_time=times),
                    times,
                )
            if start is None and end is None:
                return scan
            strict = given.get(o.FAIL_ON_DATA_LOSS, True)
            return scan.among(choose_segments(scan.segments, start, end, strict=strict))
        except QuiverError as error:
            return error.with_traceback(None)  # Frames cannot be pickled, and hold what they saw.


def _timely(scan: Scan, times: tuple[int | None, int | None]) -> Scan:
    """Leave out the segments that lie outside of a range; of few of them the end is read for it."""
    low, high = times
    last_ns = TIME_MAX if high is None else high - 1  # The range is half-open.
    with closing(LocalDisk(scan.path)) as disk:
        return scan.among(timely(disk, scan.segments, (0 if low is None else low, last_ns)))
