"""Data files read: checked once in a process, then views of what the store gave.

A file that was found sound is known by its name, which no other file ever has; what was opened last
is kept open, up to a limit. A map of a known file is taken for what it was; bytes that came through
a network are summed up each time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
from crc32c import crc32c

from quiver.disk import is_mapped, let_go
from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.ipc_file import ArrowFile
from quiver.ship.objects import Bucket
from quiver.upsert.persist.checking import Part, check_columns, check_rows, forget_pages, part_of
from quiver.upsert.persist.format import FileRef
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.rows import Definition

__all__ = ["KEPT_BYTES_MAX", "KNOWN_MAX", "close_all", "keep_open", "open_file"]

KEPT_BYTES_MAX: Final = 256 << 20
"""Bytes of files that are kept open in a process; of maps it is the address space alone."""
KNOWN_MAX: Final = 1 << 14
"""Files that are remembered as sound."""
_COPIED_MAX: Final = 64 << 10
"""A map that is no larger is copied: it holds a descriptor, of which a process has few."""
_LARGE: Final = 16 << 20
"""Of a map that is larger, no more than about so much stays in memory while it is checked."""
_COST: Final = 16 << 10
_COST_OF_MAP: Final = 1 << 20
"""What a file that is kept open counts at least, for what it holds besides its bytes."""


class _Key(NamedTuple):
    place: str
    name: str
    crc32c: int


class _Files:
    """What this process knows of files, up to limits; the oldest goes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sound: OrderedDict[_Key, None] = OrderedDict()
        self._kept: OrderedDict[_Key, tuple[tuple[Part, ...], int]] = OrderedDict()
        self._bytes = 0
        self.bytes_max: int | None = None

    def clear(self) -> None:
        """Know nothing."""
        with self._lock:
            self._sound.clear()
            self._kept.clear()
            self._bytes = 0

    def kept(self, key: _Key) -> tuple[Part, ...] | None:
        """Give a file that is open."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def is_sound(self, key: _Key) -> bool:
        """Whether a file was found sound before."""
        with self._lock:
            return key in self._sound

    def keep(self, key: _Key, parts: tuple[Part, ...], size: int) -> None:
        """Remember that a file is sound, and keep it open if there is room."""
        with self._lock:
            self._sound[key] = None
            self._sound.move_to_end(key)
            while len(self._sound) > KNOWN_MAX:
                self._sound.popitem(last=False)
            most = KEPT_BYTES_MAX if self.bytes_max is None else self.bytes_max
            if size > most or key in self._kept:
                return
            self._kept[key] = parts, size
            self._bytes += size
            while self._bytes > most:
                self._bytes -= self._kept.popitem(last=False)[1][1]


_FILES: Final = _Files()


def close_all() -> None:
    """Forget which files are sound, and close those that nobody uses."""
    _FILES.clear()


def keep_open(byte_count: int) -> None:
    """Keep files of so many bytes open in this process, instead of ``KEPT_BYTES_MAX``."""
    _FILES.bytes_max = byte_count


def open_file(store: Bucket, snapshot: Snapshot, ref: FileRef) -> tuple[Part, ...]:
    """Give the batches of a file. Raises MissingError, DamageError, and what the store raises.

    What looks damaged is read once more before that is said.
    """
    key = _Key(store.place, ref.name, ref.crc32c)
    parts = _FILES.kept(key)
    if parts is not None:
        return parts
    try:
        try:
            sound = _FILES.is_sound(key)
            parts, cost = _read(store, snapshot.definition, ref, is_sound=sound)
        except DamageError:
            parts, cost = _read(store, snapshot.definition, ref, is_sound=False)
    except DamageError as error:
        raise error.at(f"{store.place}/{ref.name}") from None
    _FILES.keep(key, parts, max(ref.byte_count, cost))
    return parts


def _read(
    store: Bucket, definition: Definition, ref: FileRef, *, is_sound: bool
) -> tuple[tuple[Part, ...], int]:
    """Read a file, and say what it costs at least to keep it open."""
    try:
        data = memoryview(store.read(ref.name)).cast("B")
    except MissingError as error:
        raise MissingError(
            f"a file of the collection is gone: {error.message}",
            path=error.path,
            hint="read a new snapshot; if that names it too, somebody else deleted it",
        ) from error
    if len(data) != ref.byte_count:
        raise DamagedEntry("a file has another size", expected=ref.byte_count, found=len(data))
    if not (is_sound and is_mapped(data)) and (found := _sum(data)) != ref.crc32c:
        raise DamagedEntry(
            "the checksum of a file is wrong",
            expected=f"{ref.crc32c:#010x}",
            found=f"{found:#010x}",
        )
    if is_mapped(data) and len(data) <= _COPIED_MAX:
        data = memoryview(bytes(data))
    file = ArrowFile(data, validate=not is_sound)
    if not is_sound:
        check_columns(file.schema, definition, ref)
    mapped = data if is_mapped(data) and len(data) > _LARGE else None
    parts = tuple(part_of(batch, mapped) for batch in _batches(file, mapped))
    if not is_sound:
        check_rows(parts, definition.buckets, ref)
        forget_pages(parts)
    return parts, _COST_OF_MAP if is_mapped(data) else _COST


def _sum(data: memoryview) -> int:
    found = 0
    for start in range(0, len(data), _LARGE):
        found = crc32c(data[start : start + _LARGE], found)
        if len(data) > _LARGE:
            let_go(data, start, start + _LARGE)
    return found


def _batches(file: ArrowFile, mapped: memoryview | None) -> Iterator[pa.RecordBatch]:
    """Give all batches; those of a large map one by one, without what was looked at before."""
    if mapped is None:
        yield from file.batches()
        return
    for index in range(file.chunk_count):
        yield file.chunk(index)
        let_go(mapped)
