"""The truncate sidecar: where recovery may start. It is a hint, and losing it costs only time.

What decides is the sequence numbers that segments hold. The sidecar is believed only as far as
the entry at its place shows that everything before it is in segments already (``reader.py``).
"""

from __future__ import annotations

from contextlib import closing

from crc32c import crc32c

from quiver.disk import Disk, copy_range, replace
from quiver.errors import DamageError, MissingError
from quiver.wal.format import Place
from quiver.wal.sidecar import SIDECAR, decode_sidecar, encode_sidecar

__all__ = ["SIDECAR_NAME", "read_sidecar", "set_sidecar_aside", "write_sidecar"]

SIDECAR_NAME = "truncate.offset"
_PIECE = 1 << 20


def read_sidecar(disk: Disk, folder: str) -> tuple[Place | None, DamageError | None]:
    """Read the sidecar of a WAL folder: its place, or what is wrong with it, or neither."""
    path = f"{folder}/{SIDECAR_NAME}"
    try:
        file = disk.open(path)
    except MissingError:
        return None, None
    try:
        return decode_sidecar(file.read(0, SIDECAR.size + 1)), None
    except DamageError as error:
        return None, error.at(disk.locate(path))
    finally:
        file.close()


def write_sidecar(disk: Disk, folder: str, place: Place) -> None:
    """Make ``place`` the stored one; it survives a power cut when this returns."""
    replace(disk, f"{folder}/{SIDECAR_NAME}", encode_sidecar(place))


def set_sidecar_aside(disk: Disk, folder: str, quarantine: str, *, error: DamageError) -> None:
    """Set a damaged sidecar aside: it is told once, and all it could do was save time."""
    path = f"{folder}/{SIDECAR_NAME}"
    with closing(disk.open(path)) as file:
        size, checksum = file.size(), 0
        for offset in range(0, size, _PIECE):
            checksum = crc32c(file.read(offset, _PIECE), checksum)
        name = f"{SIDECAR_NAME}.{checksum:08x}"
        copy_range(disk, quarantine, name, file=file, offset=0, end=size, error=error)
    disk.unlink(path)
