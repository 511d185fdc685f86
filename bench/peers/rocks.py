"""RocksDB, a value for each bundle."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from rocksdict import DBCompressionType, Options, Rdict, WriteOptions

from bench.peers.peer import Bundle, Peer, decode

__all__ = ["RocksDb"]


class RocksDb(Peer):
    name = "rocksdb"
    packages = ("rocksdict",)
    settings = (
        "keys in order, no compression, memtables of 64 MiB, old logs used again; `sync=True` for "
        "each put, for the 25 ms `flush_wal(sync=True)`"
    )

    @classmethod
    def version(cls) -> str:
        return f"rocksdict {metadata.version('rocksdict')}"

    def open(self) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(DBCompressionType.none())
        options.set_write_buffer_size(64 << 20)
        options.set_max_background_jobs(2)
        options.set_recycle_log_file_num(2)
        self._base = Rdict(str(self.folder / "base"), options)
        write = WriteOptions()
        write.sync = self.mode == "each"
        self._base.set_write_options(write)

    def append(self, bundle: Bundle) -> None:
        value = bytes(self._encoder.encode(bundle))
        self._base.put(self._appended.to_bytes(8, "big"), value)
        self._appended += 1
        if self.mode == "each":
            self.acked += 1

    def commit(self) -> None:
        if self.mode == "group":
            self._base.flush_wal(True)
        super().commit()

    def close(self) -> None:
        self._base.close()

    def read_all(self) -> Iterator[Bundle]:
        for value in self._base.values():
            yield decode(value)
