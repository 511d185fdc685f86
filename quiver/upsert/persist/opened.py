"""Data files read: checked once in a process, then views of what the store gave.

Nothing of a file is believed before its size, its checksum, Arrow's own validation and the order of
its rows were found right. What was is remembered by the file's name, which no other file ever has;
the bytes of those that were used last are kept as well, up to a limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.ipc_file import ArrowFile
from quiver.ship.objects import Bucket
from quiver.upsert.persist.format import FileRef
from quiver.upsert.persist.order import Hashes
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.rows.definition import DIFF, ERROR, HASH, KEY, TIME, Definition

__all__ = ["Part", "close_all", "open_file"]

KEPT_BYTES_MAX: Final = 192 << 20
KNOWN_MAX: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Part:
    """One record batch of a file, with what is looked at in all of its rows."""

    rows: pa.RecordBatch
    hashes: Hashes
    times: npt.NDArray[np.uint64] | None
    """None in a base."""
    diffs: npt.NDArray[np.int64] | None
    place: str
    """Where the file is, for messages."""


class _Kept:
    """What this process knows of files."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sound: OrderedDict[tuple[str, int], None] = OrderedDict()
        self.parts: OrderedDict[tuple[str, int], tuple[tuple[Part, ...], int]] = OrderedDict()
        self.byte_count = 0


_KEPT: Final = _Kept()


def close_all() -> None:
    """Forget what was opened; what is in use stays readable."""
    with _KEPT.lock:
        _KEPT.sound.clear()
        _KEPT.parts.clear()
        _KEPT.byte_count = 0


def open_file(store: Bucket, snapshot: Snapshot, ref: FileRef) -> tuple[Part, ...]:
    """Give the batches of a file. Raises MissingError, DamageError, and what the store raises."""
    key = ref.name, ref.crc32c
    with _KEPT.lock:
        found = _KEPT.parts.get(key)
        if found is not None:
            _KEPT.parts.move_to_end(key)
            return found[0]
        is_sound = key in _KEPT.sound
    place = f"{store.place}/{ref.name}"
    try:
        parts = _read(store, snapshot.definition, ref, is_sound=is_sound)
    except DamageError as error:
        raise error.at(place) from None
    _keep(key, parts, ref.byte_count)
    return parts


def _keep(key: tuple[str, int], parts: tuple[Part, ...], size: int) -> None:
    with _KEPT.lock:
        _KEPT.sound[key] = None
        while len(_KEPT.sound) > KNOWN_MAX:
            _KEPT.sound.popitem(last=False)
        if size > KEPT_BYTES_MAX or key in _KEPT.parts:
            return
        _KEPT.parts[key] = parts, size
        _KEPT.byte_count += size
        while _KEPT.byte_count > KEPT_BYTES_MAX:
            _KEPT.byte_count -= _KEPT.parts.popitem(last=False)[1][1]


def _read(
    store: Bucket, definition: Definition, ref: FileRef, *, is_sound: bool
) -> tuple[Part, ...]:
    try:
        data = memoryview(store.read(ref.name)).cast("B")
    except MissingError as error:
        raise MissingError(
            f"a file of the collection is gone: {error.message}",
            path=error.path,
            hint="it was swept while this was read, or somebody deleted it; read a new snapshot",
        ) from error
    if len(data) != ref.byte_count:
        raise DamagedEntry("a file has another size", expected=ref.byte_count, found=len(data))
    if not is_sound and (found := crc32c(data)) != ref.crc32c:
        raise DamagedEntry(
            "the checksum of a file is wrong",
            expected=f"{ref.crc32c:#010x}",
            found=f"{found:#010x}",
        )
    file = ArrowFile(data, validate=not is_sound)
    if not is_sound:
        _check_columns(file.schema, definition, ref)
    parts = tuple(_part(batch, f"{store.place}/{ref.name}") for batch in file.batches())
    if not is_sound:
        _check_rows(parts, definition.buckets, ref)
    return parts


def _part(batch: pa.RecordBatch, place: str) -> Part:
    def numbers(name: str) -> Any:  # noqa: ANN401
        column: Any = batch.column(name)
        if column.null_count:
            raise DamagedEntry(f"the column {name} of a file has nulls")
        return column.to_numpy()

    is_run = TIME in batch.schema.names
    times, diffs = (numbers(TIME), numbers(DIFF)) if is_run else (None, None)
    return Part(batch, numbers(HASH), times, diffs, place)


def _check_columns(schema: pa.Schema, definition: Definition, ref: FileRef) -> None:
    """See that a file has our columns, and the key of the collection."""
    wanted = definition.diffs if ref.kind == "run" else definition.state
    exact = {HASH, KEY, ERROR, TIME, DIFF}
    if schema.names != wanted.names:
        raise DamagedEntry("a file has other columns", expected=wanted.names, found=schema.names)
    for own, other in zip(schema, wanted, strict=True):
        is_right = own.type == other.type if own.name in exact else pa.types.is_struct(own.type)
        if not is_right:
            raise DamagedEntry(
                f"the column {own.name} of a file is of another type",
                expected=str(other.type),
                found=str(own.type),
            )


def _check_rows(parts: tuple[Part, ...], buckets: int, ref: FileRef) -> None:
    """See that rows are as many, of one bucket, in order, and of epochs that the file may have."""
    rows = sum(part.rows.num_rows for part in parts)
    if rows != ref.rows:
        raise DamagedEntry("a file has another number of rows", expected=ref.rows, found=rows)
    last = -1
    for part in parts:
        hashes = part.hashes
        if not len(hashes):
            raise DamagedEntry("a batch of a file has no rows")
        sound = int(hashes[0]) >= last and bool(np.all(hashes[1:] >= hashes[:-1]))
        sound = sound and bool(np.all(hashes % np.uint64(buckets) == ref.bucket))
        if part.times is not None and part.diffs is not None:
            sound = sound and int(part.times.min()) >= ref.first
            sound = sound and int(part.times.max()) <= ref.last
            sound = sound and bool(np.all(np.abs(part.diffs) == 1))
        if not sound or part.rows.column(KEY).null_count:
            raise DamagedEntry(
                "the rows of a file are not in order, or not of its bucket or epochs"
            )
        last = int(hashes[-1])
