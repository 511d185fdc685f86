"""A source without a store: Arrow batches that lie ready, exactly as Spark wants them.

Its workers map a file once and hand over what is in it; nothing is checked, copied or converted.
What remains is Spark's own way from a Python worker to its rows: no Python source can be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from quiver.spark import QuiverDataSource
from quiver.spark.worker import settle

NAME = "ready"


def write_ready(store: Path, columns: str, folder: Path) -> None:
    """Write what the source of a store gives to each task, one file for each."""
    folder.mkdir()
    source = QuiverDataSource({"path": str(store), "slot": "d", "columns": columns})
    reader = source.reader(source.schema())
    for number, partition in enumerate(reader.partitions()):
        batches = list(reader.read(partition))
        with pa.ipc.new_file(str(folder / f"{number}.arrow"), batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)


class ReadySource(DataSource):
    """``spark.read.format("ready").load(folder)``."""

    @classmethod
    def name(cls) -> str:
        """Give the word behind ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Give the schema of the batches."""
        return from_arrow_schema(_batches(self._files()[0])[0].schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Read all files, each as a partition."""
        return ReadyReader(self._files())

    def _files(self) -> list[str]:
        return sorted(str(file) for file in Path(self.options["path"]).glob("*.arrow"))


class ReadyReader(DataSourceReader):
    """Hands over the batches of files."""

    def __init__(self, files: Sequence[str]) -> None:
        """Read ``files``."""
        self._files = files

    def partitions(self) -> Sequence[InputPartition]:
        """Give one partition for each file."""
        settle()
        return [InputPartition(file) for file in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the batches of a file, mapped once for each worker."""
        settle()
        return iter(_batches(partition.value))


@lru_cache(maxsize=16)
def _batches(file: str) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(pa.memory_map(file))
    return [reader.get_batch(index) for index in range(reader.num_record_batches)]
