"""That a core does not know any more how far sources were read, and who begins anew all the same.

::

    core_N/progress.lost       by being there: states were lost, in the file or in a segment
    followers/<digest>.anew    which of these losses do not keep a source from being followed

To forget a loss would be to read a source twice, so it is written down before the file ``progress``
is replaced, and stays. A file here that cannot be read says no more than that it is there.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from crc32c import crc32c

from quiver.disk import Disk, replace
from quiver.errors import DamagedEntry, MissingError

__all__ = ["LOST_NAME", "Loss", "read_accepted", "read_loss", "write_accepted", "write_loss"]

LOST_NAME: Final = "progress.lost"

_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Loss:
    """States of sources that were lost: which of all losses it is, where, and why."""

    name: str
    path: str
    reason: str

    def error(self, source: str) -> DamagedEntry:
        """Say that a source may not be gone on with, and what to do."""
        return DamagedEntry(
            f"how far source {source!r} was read is lost, or a part of it: {self.reason}",
            path=self.path,
            hint="what is read from the start of a split may be in the store already; to accept "
            "that: begin_anew=True of follow, --begin-anew of quiver ingest",
        )


def write_loss(disk: Disk, path: str, loss: Loss) -> None:
    """Write it down; it survives a power cut when this returns."""
    replace(disk, path, _encode(asdict(loss)))


def read_loss(disk: Disk, path: str) -> Loss | None:
    """Read what was lost in a core, the newest loss; None if nothing was."""
    data = _read(disk, path)
    if data is None:
        return None
    found = _decode(data)
    texts = [found.get(field.name) for field in fields(Loss)]
    if all(isinstance(text, str) for text in texts):
        return Loss(*(str(text) for text in texts))
    # Whoever accepts it accepts these bytes.
    return Loss(f"{crc32c(data):08x}", disk.locate(path), "what was lost cannot be read any more")


def write_accepted(disk: Disk, path: str, source: str, *, names: set[str]) -> None:
    """Let a source begin anew in spite of these losses, which survives a power cut."""
    replace(disk, path, _encode({"source": source, "losses": sorted(names)}))


def read_accepted(disk: Disk, path: str, source: str) -> set[str]:
    """Give the losses that were accepted for a source."""
    found = _decode(_read(disk, path) or b"")
    names = found.get("losses")
    if found.get("source") != source or not isinstance(names, list):
        return set()
    return {name for name in names if isinstance(name, str)}


def _read(disk: Disk, path: str) -> bytes | None:
    try:
        file = disk.open(path)
    except MissingError:
        return None
    with closing(file):
        return file.read(0, min(file.size(), _BYTES_MAX))


def _encode(values: dict[str, Any]) -> bytes:
    return (json.dumps({**values, "crc32c": _checksum(values)}) + "\n").encode()


def _checksum(values: dict[str, Any]) -> str:
    return f"{crc32c(json.dumps(values, sort_keys=True).encode()):08x}"


def _decode(data: bytes) -> dict[str, Any]:
    """Read an object that ``_encode`` wrote; an empty one of anything else."""
    try:
        values = json.loads(data)
        is_sound = values.pop("crc32c") == _checksum(values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return values if is_sound else {}
