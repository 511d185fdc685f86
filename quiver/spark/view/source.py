"""What a load sees of a collection: one snapshot of it, its schema, its readers."""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from quiver.errors import ConfigError
from quiver.source.stores import Limits
from quiver.spark.options import Options
from quiver.spark.places import bucket_at
from quiver.spark.reader import choose
from quiver.spark.schema import arrow_schema
from quiver.spark.stream import QuiverStreamReader
from quiver.spark.view import options as v
from quiver.spark.view.driver import ViewDriver
from quiver.spark.view.plan import batch_range
from quiver.spark.view.query import ViewQuery, read_share
from quiver.spark.view.reader import FilteringViewReader, ViewReader
from quiver.spark.view.recipe import ViewRecipe
from quiver.units import MILLISECOND
from quiver.upsert.persist import Collection
from quiver.upsert.viewing.columns import Columns

__all__ = ["View"]

_BATCH_BYTES: Final = 256 << 20
_STREAM_BYTES: Final = 128 << 20
_POLL_NS: Final = 100 * MILLISECOND


class View:
    """One collection as one ``load`` sees it; may be pickled, credentials included."""

    def __init__(self, given: Options, path: str) -> None:
        """Read the manifest. Raises ConfigError, MissingError, RemoteError, DamageError."""
        self._given = given
        self._store = bucket_at(path, given.bucket, noun="collection")
        self._snapshot = Collection.open(self._store).snapshot()
        self._columns = Columns(
            self._snapshot.definition,
            errors=given.get(v.ERRORS, "fail"),
            layout=given.get(v.LAYOUT, "flat"),
            with_changes=given.get(v.CHANGES, False),
            chosen=given.get(v.COLUMNS, ()),
        )

    def schema(self) -> pa.Schema:
        """Give the columns in their own types."""
        return self._columns.schema

    def reader(self, asked: StructType) -> ViewReader:
        """Plan the reading of the snapshot. Raises ConfigError, InputError, SourceError."""
        given, columns = self._given, self._columns
        given.check_use("changes" if columns.with_changes else "state")
        kind = FilteringViewReader if given.get(v.PUSHDOWN, "never") == "once" else ViewReader
        return kind(
            self._recipe(asked),
            self._snapshot,
            batch_range(given, self._snapshot),
            bytes_max=given.get(v.MAX_PARTITION_BYTES, _BATCH_BYTES),
            count_min=given.get(v.MIN_PARTITIONS, os.cpu_count() or 1),
        )

    def stream_reader(self, asked: StructType, *, is_inferred: bool) -> QuiverStreamReader:
        """Read changes as they come. Raises ConfigError, InputError."""
        given = self._given
        if not self._columns.with_changes:
            raise ConfigError(
                "changes: a stream of a collection is one of its changes",
                hint='say .option("changes", "true")',
            )
        given.check_use("changes_stream")
        begin, is_fixed = given.find(v.FROM_EPOCH), not is_inferred or bool(self._columns.chosen)
        query = ViewQuery(
            self._recipe(asked),
            self._snapshot.manifest.collection,
            begin=begin,
            with_state=given.get(v.STARTING_STATE, begin is None),
            limits=Limits(given.get(v.MAX_EPOCHS, 0) or None, given.get(v.MAX_BYTES, 0) or None),
            bytes_max=given.get(v.MAX_PARTITION_BYTES, _STREAM_BYTES),
            count_min=given.get(v.MIN_PARTITIONS, os.cpu_count() or 1),
            poll_ns=given.get(v.POLL_INTERVAL, _POLL_NS),
            fails_on_loss=given.get(v.FAIL_ON_DATA_LOSS, True),
            ignores_change=is_fixed or given.get(v.SCHEMA_CHANGE, "fail") == "ignore",
        )
        return QuiverStreamReader(query, decide=ViewDriver, read=read_share)

    def _recipe(self, asked: StructType) -> ViewRecipe:
        given, columns = self._given, self._columns
        stored = choose(columns.schema, asked, given.get(v.TIMESTAMP_UNIT, "us"))
        return ViewRecipe(self._store, columns, stored, arrow_schema(asked))
