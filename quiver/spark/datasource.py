"""``spark.read.format("quiver")``: a store's finalized segments as a Spark data source.

::

    spark.read.format("quiver").option("slot", "logs").load("path/to/store")

Options, in any case (``quiver.spark.options``); an unknown one is an error:

=====================  =========================================================================
``path``               the store's folder, usually the argument of ``load``
``slot``               which slot to read; required
``columns``            names separated by commas: the only ones that are read, in this order
``timestampUnit``      ``us`` (default) floors nanoseconds; ``int64`` keeps them as BIGINT
``maxPartitionBytes``  how large a partition may get, such as ``256MiB``; default 128 MiB
``minPartitions``      how many to make at least if there is enough data; default: the cores
=====================  =========================================================================

Spark hands no column list to a Python data source, so ``columns``, or a schema given with
``.schema(...)``, is what keeps other columns from being read. A given schema must name columns
that are there, with the types of the table in ``quiver.spark.schema``; nothing is cast to it.

One ``load`` is one snapshot: the list of segments is fixed when the DataFrame is made, and all that
is derived from it reads the same rows. Load again to see newer ones. If the store has deleted a
segment of the snapshot by then the query fails and says so.

Writing has options of its own: ``quiver.spark.sink``.

A slot that no finalized segment holds yet has no schema: an error, unless a schema is given, which
then makes an empty DataFrame.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from quiver.errors import QuiverError
from quiver.scan import Scan
from quiver.spark import options as o
from quiver.spark.partitions import plan
from quiver.spark.reader import QuiverReader, choose
from quiver.spark.schema import arrow_schema, to_spark_schema
from quiver.spark.sink import QuiverStreamWriter, QuiverWriter, batch_writer, stream_writer

__all__ = ["QuiverDataSource"]

_PARTITION_BYTES_MAX: Final = 128 << 20


class QuiverDataSource(DataSource):
    """The source named ``quiver``. Spark makes one for each ``load`` and pickles it along."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options and take the snapshot."""
        super().__init__(dict(options))
        self._given = o.Options(options)
        self._path = self._given.need(o.PATH, 'say .load("path/to/store")')
        self._nanoseconds = self._given.get(o.TIMESTAMP_UNIT, "us")
        # Spark makes a source for writing too, where there may be no store yet: what is wrong with
        # reading is told to who reads.
        self._found: Scan | QuiverError = self._look()

    @classmethod
    def name(cls) -> str:
        """Give the word behind ``format``."""
        return "quiver"

    def schema(self) -> StructType:
        """Give the slot's representative schema in Spark's types, all nullable."""
        return to_spark_schema(self._scan.schema, nanoseconds=self._nanoseconds)

    def reader(self, schema: StructType) -> QuiverReader:
        """Plan the reading of the columns of ``schema``, which may be the user's own."""
        given, scan = self._given, self._scan
        given.check_use("batch")
        target = arrow_schema(schema)
        if all(part.schema is None for part in scan.parts):
            # Nothing is finalized yet, and the user knows the schema: no rows.
            return QuiverReader(scan, stored=pa.schema([]), target=target, pieces=[])
        stored = choose(scan.schema, schema, self._nanoseconds)
        pieces = plan(
            scan.parts,
            bytes_max=given.get(o.MAX_PARTITION_BYTES, _PARTITION_BYTES_MAX),
            count_min=given.get(o.MIN_PARTITIONS, os.cpu_count() or 1),
        )
        return QuiverReader(scan, stored=stored, target=target, pieces=pieces)

    def writer(self, schema: StructType, overwrite: bool) -> QuiverWriter:  # noqa: FBT001
        """Plan a batch write (``quiver.spark.sink``)."""
        return batch_writer(self._given, schema, self._found, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QuiverStreamWriter:  # noqa: FBT001, N802
        """Plan the writing of a micro-batch."""
        return stream_writer(self._given, schema, self._found, overwrite=overwrite)

    @property
    def _scan(self) -> Scan:
        """The snapshot; raises what kept it from being taken."""
        if isinstance(self._found, QuiverError):
            raise self._found
        return self._found

    def _look(self) -> Scan | QuiverError:
        columns = self._given.get(o.COLUMNS, ())
        try:
            slot = self._given.need(o.SLOT, 'say .option("slot", "name")')
            return Scan(self._path, slot=slot, columns=columns or None)
        except QuiverError as error:
            return error.with_traceback(None)  # Frames cannot be pickled, and hold what they saw.
