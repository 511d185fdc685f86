"""What a store says of the sources it follows, for ``quiver dump`` and ``quiver check``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, TypeAlias

from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.errors import DamageError, VersionError
from quiver.progress import PROGRESS_NAME, Note, decode_note, read_progress
from quiver.progress.format import (
    COPY_BYTES_MAX,
    HEAD,
    TABLE_BYTES_MAX,
    decode_copy,
    decode_table,
)
from quiver.segment import SegmentInfo, read_noted

__all__ = ["ProgressItem", "note_fields", "noted_items", "progress_faults", "progress_items"]

ProgressItem: TypeAlias = tuple[int, int, dict[str, Any] | DamageError]
"""Where it is, its bytes, and what it says or what is wrong."""


def note_fields(data: bytes | memoryview) -> dict[str, Any]:
    """Give what a note says, or what is wrong with it."""
    try:
        return _fields(decode_note(data))
    except (DamageError, VersionError) as error:
        return {"progress": error.message}


def _fields(note: Note) -> dict[str, Any]:
    splits = [{"split": split, "state": state} for split, state in note.states.items()]
    return {"source": note.source, "epoch": note.epoch, "splits": splits}


def noted_items(disk: Disk, info: SegmentInfo) -> Iterator[ProgressItem]:
    """Do the same with what a segment says, if it says something."""
    if info.progress is None:
        return
    offset, length, _ = info.progress
    try:
        data = read_noted(disk, info, bytes_max=TABLE_BYTES_MAX)
        yield offset, length, {"notes": _notes(decode_table(data))}
    except DamageError as error:
        yield offset, length, error


def _notes(notes: Iterable[tuple[int, Note]]) -> list[dict[str, Any]]:
    return [{"wal_seq": wal_seq, **_fields(note)} for wal_seq, note in notes]


def progress_items(disk: Disk, path: str) -> Iterator[ProgressItem]:
    """Take the file apart: where each copy is, its bytes, and what it says or what is wrong."""
    with closing(disk.open(path)) as file:
        data = file.read(0, 2 * COPY_BYTES_MAX + 1)
    at = 0
    while at < len(data):
        rest = memoryview(data)[at:]
        try:
            if len(rest) < HEAD.size:
                decode_copy(rest, core=0, store_id=b"")
            _, _, _, core, store_id, *_ = HEAD.unpack_from(rest)
            content, length = decode_copy(rest, core=core, store_id=store_id)
        except DamageError as error:
            yield at, len(rest), error.at("", base=at - error.offset)
            return
        fields = {"core": core, "store_id": store_id.hex(), "wal_seq": content.wal_seq}
        yield at, length, {**fields, "notes": _notes(content.notes)}
        at += length


def progress_faults(disk: Disk, core: int, store_id: str) -> list[DamageError] | list[VersionError]:
    """Say what is wrong with the file of a core, or that it is of a newer format."""
    path = f"{core_folder(core)}/{PROGRESS_NAME}"
    try:
        return read_progress(disk, path, core=core, store_id=store_id)[1]
    except VersionError as error:
        return [VersionError(f"{disk.locate(path)}: {error.message}", hint=error.hint)]
