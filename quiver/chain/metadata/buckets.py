"""Metadata in a bucket: a folder of this machine, an object store, or memory."""

from __future__ import annotations

from typing import Final

from quiver.chain.metadata.store import Kept, Revision, check_data
from quiver.disk import Bytes
from quiver.errors import RemoteError
from quiver.ship.objects import Bucket

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
        found = self._bucket.get(key)
        return Kept(bytes(found.data), found.tag)

    def cas(self, key: str, revision: Revision | None, data: Bytes) -> Revision:
        """Put an object if ``revision`` names what is there; None: only if nothing is."""
        return self._bucket.put_if(key, check_data(key, data), revision, within=_WITHIN)

    def keys(self, prefix: str) -> list[str]:
        """List the keys that begin with ``prefix``, sorted."""
        return sorted(seen.key for seen in self._bucket.list(prefix))

    def delete(self, key: str) -> None:
        """Delete an object; one that is missing is deleted."""
        if self._bucket.delete([key]):
            raise RemoteError(f"{self.place} does not delete {key}", path=key, retryable=True)

    def __repr__(self) -> str:
        """Say which one it is."""
        return f"BucketMetadata({self._bucket!r})"
