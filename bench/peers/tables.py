"""Tables: a transaction, or a commit to each of four tables, for each bundle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata

import pyarrow as pa

from bench.peers.peer import Bundle, Peer
from bench.wal.shapes import SLOTS

__all__ = ["Delta", "DuckDb", "Lance"]

os.environ.setdefault("LANCE_LOG", "error")  # It tells of each new table.


def _table(bundle: Bundle, slot: str) -> pa.Table:
    return pa.Table.from_batches([bundle[slot]])


class DuckDb(Peer):
    name = "duckdb"
    packages = ("duckdb",)
    settings = (
        "four tables, one transaction for each bundle, `checkpoint_threshold` 1 GB; comes back "
        "without dictionaries"
    )
    exact = False

    @classmethod
    def version(cls) -> str:
        return metadata.version("duckdb")

    def open(self) -> None:
        import duckdb

        self._base = duckdb.connect(str(self.folder / "base.duckdb"))
        self._base.execute("set checkpoint_threshold = '1GB'")
        found = self._base.sql("select table_name from duckdb_tables()").fetchall()
        self._tables = {name for (name,) in found}

    def append(self, bundle: Bundle) -> None:
        tables = {slot: _table(bundle, slot) for slot in SLOTS}
        for slot, table in tables.items():
            self._base.register(f"new_{slot}", table)
            if slot not in self._tables:
                self._base.execute(f"create table {slot} as from new_{slot} limit 0")
                self._tables.add(slot)
        self._base.execute("begin")
        for slot in tables:
            self._base.execute(f"insert into {slot} from new_{slot}")
        self._base.execute("commit")
        self._appended += 1
        self.acked += 1

    def close(self) -> None:
        self._base.close()

    def first(self) -> Bundle:
        return {slot: self._base.sql(f"from {slot} limit 1").to_arrow_table() for slot in SLOTS}

    def read_all(self) -> Iterator[Bundle]:
        for slot in SLOTS:
            for batch in self._base.sql(f"from {slot}").to_arrow_reader():
                yield {slot: batch}


class Delta(Peer):
    name = "delta"
    packages = ("deltalake",)
    survives = "a kill"
    settings = (
        "four tables, a commit to each for each bundle; syncs nothing; comes back without "
        "dictionaries, unsigned numbers and nanoseconds"
    )
    exact = False

    @classmethod
    def version(cls) -> str:
        return f"deltalake {metadata.version('deltalake')}"

    def open(self) -> None:
        import deltalake

        self._delta = deltalake
        self._tables: dict[str, deltalake.DeltaTable] = {}
        for slot in SLOTS:
            place = str(self.folder / slot)
            if deltalake.DeltaTable.is_deltatable(place):
                self._tables[slot] = deltalake.DeltaTable(place)

    def append(self, bundle: Bundle) -> None:
        for slot in SLOTS:
            place: object = self._tables.get(slot) or str(self.folder / slot)
            self._delta.write_deltalake(place, _table(bundle, slot), mode="append")
            if slot not in self._tables:
                self._tables[slot] = self._delta.DeltaTable(place)
        self._appended += 1
        self.acked += 1

    def close(self) -> None:
        self._tables.clear()

    def first(self) -> Bundle:
        rows = {slot: self._tables[slot].to_pyarrow_dataset() for slot in SLOTS}
        return {slot: rows[slot].head(1) for slot in SLOTS}

    def read_all(self) -> Iterator[Bundle]:
        for slot in SLOTS:
            for batch in self._tables[slot].to_pyarrow_dataset().to_batches():
                yield {slot: batch}


class Lance(Peer):
    name = "lance"
    packages = ("lance",)
    survives = "a kill"
    settings = "four datasets, an append to each for each bundle; syncs nothing"

    @classmethod
    def version(cls) -> str:
        return f"pylance {metadata.version('pylance')}"

    def open(self) -> None:
        import lance

        self._lance = lance
        self._tables: dict[str, lance.LanceDataset] = {}
        for slot in SLOTS:
            if (self.folder / slot).exists():
                self._tables[slot] = lance.dataset(str(self.folder / slot))

    def append(self, bundle: Bundle) -> None:
        for slot in SLOTS:
            place = self._tables.get(slot) or str(self.folder / slot)
            self._tables[slot] = self._lance.write_dataset(
                _table(bundle, slot), place, mode="append"
            )
        self._appended += 1
        self.acked += 1

    def close(self) -> None:
        self._tables.clear()

    def first(self) -> Bundle:
        return {slot: self._tables[slot].head(1) for slot in SLOTS}

    def read_all(self) -> Iterator[Bundle]:
        for slot in SLOTS:
            for batch in self._tables[slot].to_batches():
                yield {slot: batch}
