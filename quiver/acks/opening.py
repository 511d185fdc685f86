"""Open an acks folder: read what is there, set damage aside, leave both files sound.

Each step may be the last before a crash; the next opening then does the same again.

1. Remove temporaries, sync the names. Read the checkpoint, then the log.
2. Copy a file that has damage to the quarantine folder, durably, with a reason file beside it.
3. If the checkpoint is damaged, or older than the log's ``base_seq`` needs, write one that says so:
   what is known, up to that base. Its number never comes again, and the loss is reported once.
4. If the log is missing or has damage, replace it by its sound records.
"""

from __future__ import annotations

import dataclasses
import posixpath
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from quiver.acks.checkpoint import Checkpoint
from quiver.acks.copies import CHECKPOINT_FILE_BYTES_MAX, encode_copies, read_copies
from quiver.acks.format import HEADER_SIZE, encode_header
from quiver.acks.records import Record
from quiver.acks.replay import LogContent, read_log
from quiver.disk import FILE_MODE, Disk, is_temporary, replace, write_new
from quiver.errors import DamagedEntry, DamageError

__all__ = ["CHECKPOINT_NAME", "LOG_BYTES_MAX", "LOG_NAME", "Opened", "Replay", "open_folder"]

LOG_NAME: Final = "ack.log"
CHECKPOINT_NAME: Final = "checkpoint"
LOG_BYTES_MAX: Final = 1 << 28
"""The largest log that is written, and believed when read."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What the folder holds: apply the checkpoint, then the records, in order.

    ``records`` are only those that the checkpoint does not cover, acks next to each other as one.
    They may name segments that are gone and, after damage, subscribers whose register was lost.
    ``damage`` is told once: it is set aside when this exists. ``torn_bytes`` is what a crash left
    at the end of the log; it is cut.
    """

    checkpoint: Checkpoint | None = None
    records: list[Record] = field(default_factory=list)
    damage: list[DamageError] = field(default_factory=list)
    torn_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A sound folder: its numbers, and where in the log the next record goes."""

    replay: Replay
    base_seq: int
    last_seq: int
    end: int


def open_folder(disk: Disk, folder: str, quarantine: str, *, strict: bool = False) -> Opened:
    """Read and mend the folder; made if missing. Raises VersionError before it changes a file.

    With ``strict`` damage is raised, also before a file is changed.
    """
    _sweep(disk, folder)
    state_path = posixpath.join(folder, CHECKPOINT_NAME)
    log_path = posixpath.join(folder, LOG_NAME)
    state_data = _read(disk, state_path, CHECKPOINT_FILE_BYTES_MAX)
    log_data = _read(disk, log_path, LOG_BYTES_MAX, settle=True)

    checkpoint, state_damage = (None, []) if state_data is None else read_copies(state_data)
    covered = checkpoint.record_seq if checkpoint else 0
    content = LogContent() if log_data is None else read_log(log_data, covered=covered)
    log_damage = content.faults
    if log_data is None and state_data is not None:
        log_damage = [DamagedEntry("the log is missing", expected="a file", found="none")]
    state_damage = [error.at(disk.locate(state_path)) for error in state_damage]
    log_damage = [error.at(disk.locate(log_path)) for error in log_damage]

    base = content.base_seq or covered + 1
    gap = [_gap(disk.locate(state_path), covered, base)] if base > covered + 1 else []

    damage = [*state_damage, *gap, *log_damage]
    if strict and damage:
        raise damage[0]
    if state_data is not None and state_damage:
        _set_aside(disk, quarantine, CHECKPOINT_NAME, data=state_data, damage=state_damage)
    if log_data is not None and log_damage:
        _set_aside(disk, quarantine, LOG_NAME, data=log_data, damage=log_damage)
    if state_damage or gap:
        settled = dataclasses.replace(checkpoint or Checkpoint(), record_seq=max(covered, base - 1))
        replace(disk, state_path, encode_copies(settled))
    end, torn_bytes = content.end, 0
    if log_data is None or log_damage:
        sound = [(log_data or b"")[start:stop] for start, stop in content.kept]
        end = HEADER_SIZE + sum(len(part) for part in sound)
        replace(disk, log_path, b"".join([encode_header(base), *sound]))
    else:
        torn_bytes = len(log_data) - end

    records = [record for _, record in content.entries]
    replay = Replay(checkpoint, records, damage, torn_bytes)
    last = max(covered, content.last_seq, base - 1)
    return Opened(replay, base, last, end)


def _sweep(disk: Disk, folder: str) -> None:
    """Make the folder if there is none, and remove files that were never finished.

    Names are synced: the process before this one may have died between a rename and its sync.
    """
    _make_dir(disk, folder)
    litter = [e for e in disk.list_dir(folder) if e.is_file and is_temporary(e.name)]
    for entry in litter:
        disk.unlink(posixpath.join(folder, entry.name))
    disk.sync_dir(folder)


def _make_dir(disk: Disk, folder: str) -> None:
    disk.make_dir(folder)
    disk.sync_dir(posixpath.dirname(folder))


def _read(disk: Disk, path: str, bytes_max: int, *, settle: bool = False) -> bytes | None:
    """Read a whole file, from the disk and not from memory if that is asked for; None: none."""
    found = disk.stat(path)
    if found is None:
        return None
    if found.size > bytes_max:
        raise DamagedEntry(
            "the file is larger than any that is written",
            path=disk.locate(path),
            expected=f"at most {bytes_max:,} bytes",
            found=f"{found.size:,}",
            hint="move it away to open without it; bundles are then delivered again",
        )
    file = disk.open(path)
    try:
        if settle:
            file.settle()
        return file.read(0, found.size)
    finally:
        file.close()


def _gap(place: str, covered: int, base: int) -> DamageError:
    return DamagedEntry(
        "the records that no log has any more are in no checkpoint",
        path=place,
        expected=f"all up to {base - 1}",
        found=f"up to {covered}" if covered else "none",
        hint="what they resolved is delivered again",
    )


def _set_aside(
    disk: Disk, quarantine: str, name: str, *, data: bytes, damage: list[DamageError]
) -> None:
    """Copy a file with damage, and why, to a name made of its content: twice is once."""
    _make_dir(disk, quarantine)
    path = posixpath.join(quarantine, f"{name}.{crc32c(data):08x}")
    write_new(disk, path, [data], mode=FILE_MODE)
    reason = "".join(f"{error}\n" for error in damage)
    write_new(disk, f"{path}.reason", [reason.encode()], mode=FILE_MODE)
