"""The ledger on a disk: opened for each act, so that a file put in its place is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Final

from quiver.disk import Disk, File
from quiver.errors import DamageError, MissingError, StorageError
from quiver.ledger.format import (
    CORES_MAX,
    FILE_BYTES_MAX,
    RECORD_BYTES,
    Record,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
    record_offset,
)

__all__ = ["LEDGER_NAME", "read_ledger", "write_record"]

LEDGER_NAME: Final = "ledger"
_READS: Final = 3
"""A record may be read while its core writes it; then it is sound the next time."""


def read_ledger(disk: Disk, cores: Iterable[int], *, store_id: bytes) -> dict[int, Record]:
    """Read the records of these cores; those that are not sound are left out.

    Raises StorageError if there is something else in the place of the file.
    """
    missing, found = {core for core in cores if core < CORES_MAX}, {}
    try:
        file = disk.open(LEDGER_NAME)
    except MissingError:
        return {}
    with closing(file):
        for _ in range(_READS):
            data = file.read(0, record_offset(max(missing, default=0)) + RECORD_BYTES)
            for core in tuple(missing):
                at = record_offset(core)
                with suppress(DamageError):
                    found[core] = decode_record(
                        data[at : at + RECORD_BYTES], core, store_id=store_id
                    )
                    missing.discard(core)
            if not any(len(data) > record_offset(core) for core in missing):
                break
    return found


def write_record(disk: Disk, record: Record, *, store_id: bytes) -> None:
    """Write a record in its place, in a file that is made, or made a ledger, if need be.

    Raises StorageError if there is something else in its place, VersionError if a newer Quiver
    made it.
    """
    with closing(_open(disk)) as file:
        size = file.size()
        if size > FILE_BYTES_MAX:
            file.truncate(FILE_BYTES_MAX)
        if _needs_header(file, store_id):
            file.write(0, encode_header(store_id))
        file.write(record_offset(record.core), encode_record(record, store_id))


def _needs_header(file: File, store_id: bytes) -> bool:
    try:
        return decode_header(file.read(0, RECORD_BYTES)) != store_id
    except DamageError:
        return True


def _open(disk: Disk) -> File:
    with suppress(MissingError):
        return disk.open(LEDGER_NAME, writable=True)
    try:
        return disk.create(LEDGER_NAME)
    except StorageError:
        return disk.open(LEDGER_NAME, writable=True)  # Another core was faster.
