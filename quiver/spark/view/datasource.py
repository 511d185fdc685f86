"""``spark.read.format("quiver-view")``: what Spark asks of it first. ``VIEW.md`` tells the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from quiver.errors import ConfigError, QuiverError
from quiver.spark.options import Options
from quiver.spark.schema import to_spark_schema
from quiver.spark.stream import QuiverStreamReader
from quiver.spark.view import options as v
from quiver.spark.view.reader import ViewReader
from quiver.spark.view.source import View
from quiver.spark.worker import settle

__all__ = ["QuiverViewDataSource"]

_NO_PATH: Final = (
    'say .load("path/to/collection"); Spark does not hand the options of CREATE TABLE back: make a '
    "TEMPORARY VIEW, or say SELECT ... FROM t WITH (`path`='...')"
)


class QuiverViewDataSource(DataSource):
    """The source named ``quiver-view``. Spark makes one for each ``load`` and pickles it along."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check the options and take the snapshot."""
        super().__init__(dict(options))
        settle()
        self._given = Options(options, v.TABLE)
        self._is_inferred = False
        path = self._given.need(v.PATH, _NO_PATH)
        # Spark makes a source for writing too: what is wrong with reading is told to who reads.
        self._found: View | QuiverError
        try:
            self._found = View(self._given, path)
        except QuiverError as error:
            # Frames cannot be pickled, and hold what they saw.
            self._found = error.with_traceback(None)

    @classmethod
    def name(cls) -> str:
        """Give the word behind ``format``."""
        return "quiver-view"

    def schema(self) -> StructType:
        """Give the columns of the view in Spark's types, all nullable."""
        self._is_inferred = True  # Spark asks for it unless the user has given one.
        nanoseconds = self._given.get(v.TIMESTAMP_UNIT, "us")
        return to_spark_schema(self._view.schema(), nanoseconds=nanoseconds)

    def reader(self, schema: StructType) -> ViewReader:
        """Plan the reading of the columns of ``schema``, which may be the user's own."""
        return self._view.reader(schema)

    def streamReader(self, schema: StructType) -> QuiverStreamReader:  # noqa: N802
        """Read the columns of ``schema`` as changes come."""
        return self._view.stream_reader(schema, is_inferred=self._is_inferred)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002, FBT001
        """Refuse to write."""
        raise _not_written()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, FBT001, N802
        """Refuse to write."""
        raise _not_written()

    @property
    def _view(self) -> View:
        if isinstance(self._found, QuiverError):
            raise self._found
        return self._found


def _not_written() -> ConfigError:
    return ConfigError(
        "a view is only read", hint="write a collection by quiver.spark.upsert, or quiver upsert"
    )
