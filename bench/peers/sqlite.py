"""SQLite, a row for each bundle."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from bench.peers.peer import Bundle, Peer, decode

__all__ = ["SqliteDefault", "SqliteFull", "SqliteNormal"]


class SqliteFull(Peer):
    name = "sqlite-full"
    settings = (
        "`journal_mode=WAL`, `synchronous=FULL`, pages of 64 KiB, log checkpointed at 64 MiB; a "
        "blob for each bundle, a transaction for each commit"
    )
    synchronous = "FULL"
    pragmas: tuple[str, ...] = ("page_size = 65536", "wal_autocheckpoint = 1024")

    @classmethod
    def version(cls) -> str:
        return sqlite3.sqlite_version

    def open(self) -> None:
        self._base = sqlite3.connect(self.folder / "base.sqlite", isolation_level=None)
        for setting in (*self.pragmas, "journal_mode = wal", f"synchronous = {self.synchronous}"):
            self._base.execute(f"pragma {setting}").fetchall()
        self._base.execute(
            "create table if not exists bundles (seq integer primary key, value blob)"
        )

    def append(self, bundle: Bundle) -> None:
        if self.mode == "group" and not self._base.in_transaction:
            self._base.execute("begin")
        value = self._encoder.encode(bundle)
        self._base.execute("insert into bundles (value) values (?)", (value,))
        self._appended += 1
        if self.mode == "each":
            self.acked += 1

    def commit(self) -> None:
        if self._base.in_transaction:
            self._base.execute("commit")
        super().commit()

    def close(self) -> None:
        self._base.close()

    def read_all(self) -> Iterator[Bundle]:
        for (value,) in self._base.execute("select value from bundles order by seq"):
            yield decode(value)


class SqliteNormal(SqliteFull):
    name = "sqlite-normal"
    survives = "a kill"
    settings = "the same, `synchronous=NORMAL`: synced at checkpoints only"
    synchronous = "NORMAL"


class SqliteDefault(SqliteFull):
    name = "sqlite-default"
    settings = "the same with its own pages of 4 KiB, and its log checkpointed at 4 MiB"
    pragmas = ()
