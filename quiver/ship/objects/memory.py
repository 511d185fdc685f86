"""A bucket in the memory of this process: for tests, and for what need not outlive it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quiver.clock import Clock, SystemClock
from quiver.disk import Bytes
from quiver.errors import MissingError
from quiver.ship.objects.bucket import Conflict, Found, Listed, Tag
from quiver.ship.objects.keys import check_base, full_key, parts_of

__all__ = ["MemoryBucket"]

_MS: Final = 1_000_000


class _Kept(NamedTuple):
    data: bytes
    tag: Tag
    changed_ms: int


class _Objects:
    """What all buckets of one store share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.kept: dict[str, _Kept] = {}
        self.puts = 0


class MemoryBucket:
    """Objects in memory; each put gets a tag that no other has. Cannot be pickled."""

    def __init__(
        self, path: str = "", *, clock: Clock | None = None, objects: _Objects | None = None
    ) -> None:
        """Begin an empty store; ``objects`` is for ``at``."""
        self._base = check_base(path)
        self._objects = objects or _Objects(clock or SystemClock())

    def at(self, path: str = "") -> MemoryBucket:
        """Look at another path of the same store."""
        return MemoryBucket(path, objects=self._objects)

    @property
    def place(self) -> str:
        """Its address as messages show it."""
        return f"memory:{self._base.rstrip('/')}"

    @property
    def base(self) -> str:
        """Where its keys begin below the root of the store."""
        return self._base

    def get(self, key: str) -> Found:
        """Read an object whole."""
        kept = self._look(key)
        return Found(kept.data, kept.tag)

    def get_if_changed(self, key: str, tag: Tag) -> Found | None:
        """Read an object unless it still is the one that ``tag`` names: then None."""
        kept = self._look(key)
        return None if kept.tag == tag else Found(kept.data, kept.tag)

    def read(self, key: str) -> Bytes:
        """Read an object whole, without a tag."""
        return self.get(key).data

    def put(self, key: str, data: Bytes | Sequence[Bytes]) -> Tag:
        """Put an object, whatever was there; parts are joined."""
        full = full_key(self._base, key)
        whole = b"".join(parts_of(data))
        with self._objects.lock:
            return self._keep(full, whole)

    def write(self, key: str, data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> None:
        """Put an object whose tag nobody wants."""
        self.put(key, parts_of(data))

    def put_if(self, key: str, data: Bytes, tag: Tag | None, *, within: float | None = None) -> Tag:
        """Put an object if ``tag`` names what is there; None: only if nothing is. Or Conflict."""
        del within  # There is no server to wait for.
        full = full_key(self._base, key)
        whole = b"".join(parts_of(data))
        with self._objects.lock:
            kept = self._objects.kept.get(full)
            found = kept.tag if kept else None
            if found != tag:
                raise Conflict(f"{full} in {self.place} is not the one that was read", path=full)
            return self._keep(full, whole)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Go through objects whose keys begin with ``prefix``, as they are at the first step."""
        begin = self._base + prefix
        with self._objects.lock:
            found = [(full, k) for full, k in self._objects.kept.items() if full.startswith(begin)]
        for full, kept in found:
            yield Listed(full[len(self._base) :], len(kept.data), kept.changed_ms)

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete objects; all of them could be."""
        full = [full_key(self._base, key) for key in keys]
        with self._objects.lock:
            for key in full:
                self._objects.kept.pop(key, None)
        return []

    def _look(self, key: str) -> _Kept:
        full = full_key(self._base, key)
        with self._objects.lock:
            kept = self._objects.kept.get(full)
        if kept is None:
            raise MissingError(f"there is no {full} in {self.place}", path=full)
        return kept

    def _keep(self, full: str, data: bytes) -> Tag:
        self._objects.puts += 1
        tag = str(self._objects.puts)
        self._objects.kept[full] = _Kept(data, tag, self._objects.clock.wall_ns() // _MS)
        return tag

    def __repr__(self) -> str:
        """Say which one it is."""
        return f"MemoryBucket({self._base!r})"
