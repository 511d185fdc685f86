"""Plain files: an Arrow file for each bundle, or Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.peer import Bundle, Peer, decode
from bench.wal.shapes import SLOTS

__all__ = ["ArrowFiles", "ParquetFiles"]


class ArrowFiles(Peer):
    name = "arrow-files"
    settings = (
        "a file of four IPC streams for each bundle, fdatasync, then fsync of the folder; read "
        "where they are mapped"
    )

    @classmethod
    def version(cls) -> str:
        return f"pyarrow {pa.__version__}"

    def open(self) -> None:
        place = self.folder / "files"
        place.mkdir(exist_ok=True)
        self._place = os.open(place, os.O_RDONLY | os.O_DIRECTORY)

    def append(self, bundle: Bundle) -> None:
        value = self._encoder.encode(bundle)
        name, flags = f"{self._appended:08}.arrows", os.O_WRONLY | os.O_CREAT | os.O_EXCL
        file = os.open(name, flags, 0o600, dir_fd=self._place)
        try:
            if os.write(file, value) != len(value):
                raise OSError("written in part")
            os.fdatasync(file)
        finally:
            os.close(file)
        os.fsync(self._place)
        self._appended += 1
        self.acked += 1

    def close(self) -> None:
        os.close(self._place)

    def read_all(self) -> Iterator[Bundle]:
        place = self.folder / "files"
        for name in sorted(os.listdir(place)):
            with pa.memory_map(str(place / name)) as file:
                yield decode(file.read_buffer())


class ParquetFiles(Peer):
    name = "parquet-files"
    settings = (
        "a file for each slot of each bundle, pyarrow's defaults (snappy), each fdatasynced, then "
        "fsync of the folder; comes back with other dictionaries"
    )
    exact = False

    @classmethod
    def version(cls) -> str:
        return f"pyarrow {pa.__version__}"

    def open(self) -> None:
        place = self.folder / "files"
        place.mkdir(exist_ok=True)
        self._place = os.open(place, os.O_RDONLY | os.O_DIRECTORY)

    def append(self, bundle: Bundle) -> None:
        for slot in SLOTS:
            name = self.folder / "files" / f"{self._appended:08}.{slot}"
            with name.open("xb", buffering=0) as file:
                pq.write_table(pa.Table.from_batches([bundle[slot]]), file)
                os.fdatasync(file.fileno())
        os.fsync(self._place)
        self._appended += 1
        self.acked += 1

    def close(self) -> None:
        os.close(self._place)

    def read_all(self) -> Iterator[Bundle]:
        place = self.folder / "files"
        names = set(os.listdir(place))
        for number in range(len(names)):
            if f"{number:08}.{SLOTS[-1]}" not in names:
                break
            yield {
                slot: pq.read_table(place / f"{number:08}.{slot}", partitioning=None)
                for slot in SLOTS
            }
