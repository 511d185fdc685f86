"""LMDB, a value for each bundle."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb

from bench.peers.peer import Bundle, Peer, decode

__all__ = ["Lmdb", "LmdbWriteMap"]

_MAP_BYTES = 8 << 30


class Lmdb(Peer):
    name = "lmdb"
    packages = ("lmdb",)
    settings = (
        "defaults (synced, no write map), keys appended in order, a transaction for each commit; "
        "each commit is an fdatasync and a write of its meta page with O_DSYNC; values are read "
        "where they are mapped"
    )

    writemap = False

    @classmethod
    def version(cls) -> str:
        return ".".join(map(str, lmdb.version()))

    def open(self) -> None:
        self._base = lmdb.open(
            str(self.folder / "base"), map_size=_MAP_BYTES, writemap=self.writemap
        )
        self._work: lmdb.Transaction | None = None

    def append(self, bundle: Bundle) -> None:
        value = self._encoder.encode(bundle)
        if self._work is None:
            self._work = self._base.begin(write=True)
        self._work.put(self._appended.to_bytes(8, "big"), value, append=True)
        self._appended += 1
        if self.mode == "each":
            self.commit()

    def commit(self) -> None:
        if self._work is not None:
            self._work.commit()
            self._work = None
        super().commit()

    def close(self) -> None:
        self._base.close()

    def read_all(self) -> Iterator[Bundle]:
        with self._base.begin(buffers=True) as look, look.cursor() as cursor:
            for _, value in cursor:
                yield decode(value)

    def first(self) -> Bundle:
        with self._base.begin() as look:
            return decode(look.get((0).to_bytes(8, "big")))


class LmdbWriteMap(Lmdb):
    name = "lmdb-writemap"
    settings = (
        "the same, `writemap=True`: pages are written where they are mapped, which a stray pointer "
        "or a full disk turns into a crash"
    )
    writemap = True
