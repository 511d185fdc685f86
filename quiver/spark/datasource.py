"""``spark.read.format("quiver")``: a store's finalized segments as a Spark data source.

::

    spark.read.format("quiver").option("slot", "logs").load("path/to/store")

Options, in any case; an unknown one is an error:

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

The source is for reading only: what is to be stored goes through ``quiver.open``.

A slot that no finalized segment holds yet has no schema: an error, unless a schema is given, which
then makes an empty DataFrame.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NoReturn, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quiver.errors import ConfigError, InputError
from quiver.scan import Scan, conform
from quiver.spark.batch import merge, split
from quiver.spark.partitions import Piece, plan
from quiver.spark.schema import Nanoseconds, arrow_schema, to_spark, to_spark_schema
from quiver.units import parse_bytes

__all__ = ["QuiverDataSource", "QuiverReader"]

_OPTIONS: Final = (
    "path",
    "slot",
    "columns",
    "timestampUnit",
    "maxPartitionBytes",
    "minPartitions",
)
_READ_ONLY: Final = "format quiver is for reading only"
_PARTITION_BYTES_MAX: Final = 128 << 20


class QuiverDataSource(DataSource):
    """The source named ``quiver``. Spark makes one for each ``load`` and pickles it along."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options and take the snapshot."""
        super().__init__(dict(options))
        given = _checked(options)
        path = _required(given, "path", 'say .load("path/to/store")')
        # Spark makes a source for writing too, and most who try that name no slot.
        slot = _required(given, "slot", f'say .option("slot", "name"); {_READ_ONLY}')
        columns = [name.strip() for name in given.get("columns", "").split(",") if name.strip()]
        self._nanoseconds = _nanoseconds(given.get("timestampunit", "us"))
        self._bytes_max = _positive(
            "maxPartitionBytes",
            parse_bytes(
                given.get("maxpartitionbytes", _PARTITION_BYTES_MAX), key="maxPartitionBytes"
            ),
        )
        self._count_min = _positive(
            "minPartitions",
            _whole("minPartitions", given.get("minpartitions", os.cpu_count() or 1)),
        )
        self._scan = Scan(path, slot=slot, columns=columns or None)

    @classmethod
    def name(cls) -> str:
        """Give the word behind ``format``."""
        return "quiver"

    def schema(self) -> StructType:
        """Give the slot's representative schema in Spark's types, all nullable."""
        return to_spark_schema(self._scan.schema, nanoseconds=self._nanoseconds)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002, FBT001
        """Refuse: Spark asks for this when a DataFrame is to be written."""
        raise InputError(_READ_ONLY, hint="append with quiver.open(path).append(...)")

    def reader(self, schema: StructType) -> QuiverReader:
        """Plan the reading of the columns of ``schema``, which may be the user's own."""
        target = arrow_schema(schema)
        if all(part.schema is None for part in self._scan.parts):
            # Nothing is finalized yet, and the user knows the schema: no rows.
            return QuiverReader(self._scan, stored=pa.schema([]), target=target, pieces=[])
        stored = _match(self._scan.schema, schema, self._nanoseconds)
        pieces = plan(self._scan.parts, bytes_max=self._bytes_max, count_min=self._count_min)
        return QuiverReader(self._scan, stored=stored, target=target, pieces=pieces)


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


def _match(known: pa.Schema, asked: StructType, nanoseconds: Nanoseconds) -> pa.Schema:
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


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in _OPTIONS}
    given = {key.lower(): value for key, value in options.items()}
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known: {', '.join(_OPTIONS)}"
            raise ConfigError(f"format quiver has no option {key!r}", hint=hint)
    return given


def _required(given: Mapping[str, str], key: str, hint: str) -> str:
    value = given.get(key, "")
    if not value:
        raise ConfigError(f"format quiver needs the option {key!r}", hint=hint)
    return value


def _nanoseconds(value: str) -> Nanoseconds:
    if value not in ("us", "int64"):
        raise ConfigError(f"timestampUnit: {value!r} is none of us, int64")
    return cast("Nanoseconds", value)


def _whole(key: str, value: str | int) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise ConfigError(f"{key}: {value!r} is not a whole number") from error


def _positive(key: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{key}: must be above zero")
    return value
