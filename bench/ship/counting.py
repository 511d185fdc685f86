"""A bucket that counts the requests which a store like S3 would be sent, and bill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from quiver.disk import Bytes
from quiver.ship.objects import Bucket, Found, Listed, Tag
from quiver.ship.objects.remote import _PIECE as PIECE

__all__ = ["PIECE", "CountingBucket"]

_LISTED_AT_ONCE = 1000


class CountingBucket:
    """Goes before another bucket; ``counts`` has PUT, GET, LIST and DELETE.

    A put that is larger than ``piece`` goes up in pieces, each a PUT, between one that begins and
    one that ends it.
    """

    def __init__(self, inner: Bucket, *, piece: int = PIECE) -> None:
        self._inner, self._piece = inner, piece
        self.counts: Counter[str] = Counter()

    @property
    def place(self) -> str:
        return self._inner.place

    @property
    def base(self) -> str:
        return self._inner.base

    def get(self, key: str) -> Found:
        self.counts["GET"] += 1
        return self._inner.get(key)

    def get_if_changed(self, key: str, tag: Tag) -> Found | None:
        self.counts["GET"] += 1
        return self._inner.get_if_changed(key, tag)

    def read(self, key: str) -> Bytes:
        self.counts["GET"] += 1
        return self._inner.read(key)

    def put(self, key: str, data: Bytes | Sequence[Bytes]) -> Tag:
        parts = data if isinstance(data, (list, tuple)) else [data]
        size = sum(memoryview(part).nbytes for part in parts)
        self.counts["PUT"] += 1 if size <= self._piece else 2 + -(-size // self._piece)
        return self._inner.put(key, data)

    def write(self, key: str, data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> None:
        self.put(key, list(data) if isinstance(data, Iterator) else data)

    def put_if(self, key: str, data: Bytes, tag: Tag | None, *, within: float | None = None) -> Tag:
        self.counts["PUT"] += 1
        return self._inner.put_if(key, data, tag, within=within)

    def list(self, prefix: str) -> Iterator[Listed]:
        found = [*self._inner.list(prefix)]
        self.counts["LIST"] += max(-(-len(found) // _LISTED_AT_ONCE), 1)
        yield from found

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        self.counts["DELETE"] += -(-len(keys) // _LISTED_AT_ONCE)
        return self._inner.delete(keys)
