"""A source without a store: Arrow batches that lie ready, exactly as Spark wants them.

Its workers map a file once and hand over what is in it; nothing is checked, copied or converted.
What remains is Spark's own way from a Python worker to its rows: no Python source can be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
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
        _write(folder / f"{number}.arrow", reader.read(partition))


def write_ready_stream(folder: Path, **options: str) -> None:
    """Write what a stream from a store gives to each task: a folder for each micro-batch."""
    source = QuiverDataSource(options)
    reader = source.streamReader(source.schema())
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    batch = 0
    while (end := reader.latestOffset(start, limit)) != start:
        (folder / str(batch)).mkdir(parents=True)
        for number, partition in enumerate(reader.partitions(start, end)):
            _write(folder / str(batch) / f"{number}.arrow", reader.read(partition))
        start, batch = end, batch + 1
    reader.stop()


def _write(file: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pa.ipc.new_file(str(file), first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


class ReadySource(DataSource):
    """``spark.read.format("ready").load(folder)``; of folders in it, ``readStream``."""

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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Read one folder with each micro-batch."""
        return ReadyStreamReader(self.options["path"])

    def _files(self) -> list[str]:
        return sorted(str(file) for file in Path(self.options["path"]).rglob("*.arrow"))


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


class ReadyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands over the batches of the files of folder 0, then those of folder 1, and so on."""

    def __init__(self, folder: str) -> None:
        """Read the folders in ``folder``."""
        self._folder = folder
        self._count = sum(1 for _ in Path(folder).iterdir())

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin with the first."""
        return {"next": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Take one more."""
        return {"next": min(start["next"] + 1, self._count)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Say nothing: there is one folder in each batch anyway."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Know the end already."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Give one partition for each file."""
        folders = [Path(self._folder, str(n)) for n in range(start["next"], end["next"])]
        files = [file for folder in folders for file in sorted(folder.glob("*.arrow"))]
        return [InputPartition(str(file)) for file in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the batches of a file, mapped once for each worker."""
        settle()
        return iter(_batches(partition.value))


@lru_cache(maxsize=64)
def _batches(file: str) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(pa.memory_map(file))
    return [reader.get_batch(index) for index in range(reader.num_record_batches)]
