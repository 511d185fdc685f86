"""Metadata in a bucket: a folder of this machine, an object store, or memory."""

from __future__ import annotations

from typing import Final

from quiver.chain.metadata.store import Kept, Revision, check_data
from quiver.disk import Bytes
from quiver.errors import InputError, RemoteError
from quiver.ship.objects import Bucket, FolderBucket

__all__ = ["BucketMetadata"]

_WITHIN: Final = 5.0


class BucketMetadata:
    """Takes from a bucket what metadata need."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    @property
    def place(self) -> str:
        """Its address as messages show it."""
        return self._bucket.place

    def get(self, key: str) -> Kept:
        """Read an object."""
        found = self._bucket.get(_within(key))
        return Kept(bytes(found.data), found.tag)

    def peek(self, key: str) -> bytes:
        """Read what an object is just now."""
        if isinstance(self._bucket, FolderBucket):
            return self._bucket.peek(_within(key))
        return self.get(key).data

    def cas(self, key: str, revision: Revision | None, data: Bytes) -> Revision:
        """Put an object if ``revision`` names what is there; None: only if nothing is."""
        return self._bucket.put_if(_within(key), check_data(key, data), revision, within=_WITHIN)

    def keys(self, prefix: str) -> list[str]:
        """List the keys that begin with ``prefix``, sorted."""
        return sorted(seen.key for seen in self._bucket.list(_within(prefix)))

    def delete(self, key: str) -> None:
        """Delete an object; one that is missing is deleted."""
        if self._bucket.delete([_within(key)]):
            raise RemoteError(f"{self.place} does not delete {key}", path=key, retryable=True)

    def __repr__(self) -> str:
        """Say which one it is."""
        return f"BucketMetadata({self._bucket!r})"


def _within(key: str) -> str:
    """Give a key, or how some begin, that leads nowhere else: it may come from any client."""
    if key.startswith("/") or {".", ".."} & set(key.split("/")) or "\0" in key:
        raise InputError(f"{key!r:.120} is no key of metadata", hint="a key is like core_0/record")
    return key
