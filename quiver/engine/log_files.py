"""Recovered bundles read again out of the files of the log, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, Self

from quiver.disk import File, read_into
from quiver.engine.arena import new_memory
from quiver.engine.core import Core
from quiver.errors import DamagedEntry, MissingError
from quiver.payload import EncodedBundle, StoredBundle
from quiver.wal import Place
from quiver.wal.format import ENTRY_OVERHEAD, LENGTH, decode_stored

__all__ = ["LogFiles"]

_AT_ONCE: Final = 16 << 20
"""Bytes read at once: the system has large pages for them, each as dear as a small one."""


class LogFiles:
    """The files of the log, one open at a time: bundles come in the order in which they are."""

    def __init__(self, core: Core, bundles: Sequence[EncodedBundle | StoredBundle]) -> None:
        self._core = core
        self._bundles = bundles
        self._generation = -1
        self._file: File | None = None
        self._view = memoryview(b"")
        self._seen = 0, 0, 0
        """Which bytes of the log the view has: the generation, from where, up to where."""
        self._place = "", 0
        """The file they are in, and where they begin there."""
        self.last: list[memoryview] = []
        """What was read last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def fetch(self, place: int, stored: StoredBundle) -> EncodedBundle:
        """Read the bundle at a place; raises DamagedEntry if it is gone or not what it was.

        Raises StorageError if the log cannot be read.
        """
        self.last = []
        start = stored.offset + LENGTH.size
        generation, first, end = self._seen
        if stored.generation != generation or not first <= start <= start + stored.length <= end:
            self._look(stored, self._end(place, stored))
            first = self._seen[1]
        body = self._view[start - first : start - first + stored.length]
        self.last = [body]
        try:
            return decode_stored(body, stored.checksum)
        except DamagedEntry as error:
            path, base = self._place
            raise error.at(path, base=base + stored.offset - first) from error

    def _end(self, place: int, stored: StoredBundle) -> int:
        """Say up to where entries follow without a gap; what is in a gap may be unreadable."""
        begin, end = stored.offset, stored.offset + stored.length + ENTRY_OVERHEAD
        for each in islice(self._bundles, place + 1, None):
            if not isinstance(each, StoredBundle):
                break
            follows = each.generation == stored.generation and each.offset == end
            further = end + each.length + ENTRY_OVERHEAD
            if not follows or further - begin > _AT_ONCE:
                break
            end = further
        return end

    def _look(self, stored: StoredBundle, end: int) -> None:
        self._seen, self._view = (0, 0, 0), memoryview(b"")  # Nothing is right if the read fails.
        with self._core.lock:
            # Once it is open, what becomes of its name and of the log does not matter.
            path, (generation, offset) = self._core.where_in_log(
                Place(stored.generation, stored.offset)
            )
            place = self._core.disk.locate(path)
            try:
                file = self._open(path, generation)
            except MissingError as error:
                text = f"bundle {stored.wal_seq} is gone with its file of the log"
                raise DamagedEntry(text, path=place, offset=offset) from error
        start, length = stored.offset + LENGTH.size, end - stored.offset - LENGTH.size
        memory = new_memory(length)
        count = read_into(file, offset + LENGTH.size, memory)
        self._view = memory[:count].toreadonly()
        self._seen, self._place = (stored.generation, start, end), (place, offset + LENGTH.size)

    def _open(self, path: str, generation: int) -> File:
        if self._file is None or generation != self._generation:
            self.__exit__()
            self._file, self._generation = self._core.disk.open(path), generation
        return self._file
