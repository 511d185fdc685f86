"""Bring ``quiver.json`` back when it is damaged or gone, from what else knows it.

Each segment carries the store's id and the slot table of its time; the logs carry the digest of the
table that holds now. A table is believed if that digest is its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

from crc32c import crc32c

from quiver.disk import Disk, copy_range
from quiver.engine.core import core_folder, core_numbers
from quiver.errors import DamagedEntry, DamageError, InputError, MissingError
from quiver.manifest import MANIFEST_NAME, StoreManifest, slots_from_json
from quiver.segment import SegmentReader, parse_segment_name
from quiver.slots import SlotTable
from quiver.wal import ACTIVE_NAME
from quiver.wal.format import HEADER_BYTES, encode_header

__all__ = ["restore_manifest"]

_BYTES_MAX = 1 << 20


def restore_manifest(disk: Disk) -> DamageError | None:
    """Make ``quiver.json`` readable; give what was wrong with it, None if nothing was.

    Raises that error if nothing tells the slot table, VersionError for a newer format, MissingError
    if there is no store.
    """
    try:
        StoreManifest.read(disk)
    except DamageError as error:
        damage = error
    except MissingError:
        if not any(disk.stat(f"{core_folder(number)}/wal") for number in core_numbers(disk)):
            raise
        place = disk.locate(MANIFEST_NAME)
        damage = DamagedEntry("the manifest of a store with data is gone", path=place)
    else:
        return None
    digests = _digests_of_logs(disk)
    for store_id, slots in [*_from_segments(disk), *_from_itself(disk)]:
        if not digests or slots.digest() in digests:
            _set_aside(disk, damage)
            StoreManifest(store_id, slots).write(disk)
            return damage
    raise damage


def _from_segments(disk: Disk) -> Iterator[tuple[str, SlotTable]]:
    """Give what the segments say, of each core the newest first."""
    for number in core_numbers(disk):
        folder = f"{core_folder(number)}/segments"
        entries = [] if disk.stat(folder) is None else disk.list_dir(folder)
        for entry in reversed(entries):
            if not entry.is_file or parse_segment_name(entry.name) is None:
                continue
            try:
                with SegmentReader.open(disk, f"{folder}/{entry.name}") as reader:
                    if reader.slots is not None and reader.store_id:
                        yield reader.store_id, reader.slots
            except DamageError:
                continue  # One that is sound will tell.


def _from_itself(disk: Disk) -> Iterator[tuple[str, SlotTable]]:
    """Give the slot table of a manifest that is damaged elsewhere."""
    data = _read(disk, MANIFEST_NAME, _BYTES_MAX)
    try:
        fields = json.loads(data)
        slots = slots_from_json(fields["slots"])
    except (ValueError, KeyError, TypeError, AttributeError, InputError, RecursionError):
        return
    known = next((store_id for store_id, _ in _from_segments(disk)), None)
    yield known or uuid.uuid4().hex, slots


def _digests_of_logs(disk: Disk) -> set[bytes]:
    found = set()
    for number in core_numbers(disk):
        folder = f"{core_folder(number)}/wal"
        entries = [] if disk.stat(folder) is None else disk.list_dir(folder)
        for entry in entries:
            if entry.is_file and entry.name.startswith(ACTIVE_NAME):
                data = _read(disk, f"{folder}/{entry.name}", HEADER_BYTES)
                digest = data[-16:]
                if data == encode_header(digest):
                    found.add(digest)
    return found


def _read(disk: Disk, path: str, length: int) -> bytes:
    if disk.stat(path) is None:
        return b""
    file = disk.open(path)
    try:
        return file.read(0, length)
    finally:
        file.close()


def _set_aside(disk: Disk, damage: DamageError) -> None:
    """Copy what is there to the quarantine of the first core."""
    if disk.stat(MANIFEST_NAME) is None:
        return
    file = disk.open(MANIFEST_NAME)
    try:
        end = file.size()
        name = f"{MANIFEST_NAME}.{crc32c(file.read(0, end)):08x}"
        folder = f"{core_folder(core_numbers(disk)[0])}/quarantine"
        copy_range(disk, folder, name, file=file, offset=0, end=end, error=damage)
    finally:
        file.close()
