"""Progress read from outside, without a lock: of cores that others write, or nobody.

What is said of a bundle goes where the bundle goes: log, segment, and before that is deleted the
file. They are read in that order, so whatever a writer does meanwhile is seen in one of them at
least; which is newer, states say themselves. The log is made durable first: it may be a killed
writer's, and whoever goes on behind a state relies on its bundle.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import blake3

from quiver.acks.floor import read_floor
from quiver.disk import Disk
from quiver.engine.holes import read_logged, standing
from quiver.engine.migration import layout_of_log
from quiver.engine.numbers import core_folder, core_numbers
from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.manifest import StoreManifest
from quiver.progress import (
    LOST_NAME,
    PROGRESS_NAME,
    Loss,
    Table,
    read_accepted,
    read_loss,
    read_progress,
)
from quiver.progress.format import TABLE_BYTES_MAX, decode_table
from quiver.segment import Catalog, read_noted

__all__ = ["FOLLOWERS_NAME", "Known", "check_losses", "digest_of", "read_all", "read_core"]

FOLLOWERS_NAME: Final = "followers"
_DIGEST_BYTES: Final = 16


class Known(NamedTuple):
    """What cores know of sources, and what of them was lost."""

    table: Table
    losses: list[Loss]


def digest_of(source: str) -> str:
    """Say how the files of a source are called, whatever its name."""
    return blake3.blake3(source.encode()).hexdigest(_DIGEST_BYTES)


def accepted_path(source: str) -> str:
    """Say where it is written which losses do not keep a source from beginning anew."""
    return f"{FOLLOWERS_NAME}/{digest_of(source)}.anew"


def check_losses(disk: Disk, source: str, losses: Iterable[Loss]) -> None:
    """Raise DamagedEntry if states of a source may be lost and nobody has accepted that."""
    losses = list(losses)
    if losses:
        accepted = read_accepted(disk, accepted_path(source), source)
        for loss in losses:
            if loss.name not in accepted:
                raise loss.error(source)


def read_all(disk: Disk, *, but: int | None = None) -> Known:
    """Add up what all cores of a store know, but for one; see ``read_core``."""
    manifest = StoreManifest.read(disk)
    found = Known(Table(), [])
    for number in core_numbers(disk):
        if number != but:
            known = read_core(disk, number, manifest)
            found.table.take_all(known.table.notes())
            found.losses.extend(known.losses)
    return found


def read_core(disk: Disk, number: int, manifest: StoreManifest) -> Known:
    """Add up what one core knows, all of it durable when this returns.

    What is damaged is passed over in the log, as in a recovery. Raises DamagedEntry if the newest
    segments do not say how far their sources were read, or the file has no sound copy, and the core
    was not opened since;
    VersionError for newer formats; StorageError if the log changes faster than it can be read.
    """
    folder = core_folder(number)
    found = Table()
    digest = layout_of_log(disk, number, manifest)
    logged = list(read_logged(disk, f"{folder}/wal", digest))
    segments, path = f"{folder}/segments", f"{folder}/{PROGRESS_NAME}"
    if disk.stat(segments) is None:
        return Known(found, [])  # It is about to be made.
    # What a killed writer renamed is visible and perhaps not durable.
    disk.sync_dir(segments)
    disk.sync_dir(folder)
    catalog, _ = Catalog.load(disk, segments)
    floor, _ = read_floor(disk, f"{folder}/acks")
    covered = max(floor.next_wal_seq - 1, -1 if (c := catalog.covered_wal_seq) is None else c)
    found.take_all(standing(logged, covered))
    saved, _ = read_progress(disk, path, core=number, store_id=manifest.store_id)
    for info in catalog:
        if info.progress is not None and (info.wal_seq_last or 0) > saved.wal_seq:
            # Deleted meanwhile: then the file has it, and is read once more.
            with suppress(MissingError):
                found.take_all(decode_table(read_noted(disk, info, bytes_max=TABLE_BYTES_MAX)))
    content, damage = read_progress(disk, path, core=number, store_id=manifest.store_id)
    if damage and content.wal_seq < 0:
        raise _unopened(damage[0])
    found.take_all(content.notes)
    # Behind the file: that one is replaced only when this is written.
    loss = read_loss(disk, f"{folder}/{LOST_NAME}")
    return Known(found, [] if loss is None else [loss])


def _unopened(error: DamageError) -> DamagedEntry:
    return DamagedEntry(
        error.message,
        path=error.path,
        offset=error.offset,
        expected=error.expected,
        found=error.found,
        hint="whoever opens the core, as quiver gc does, finds out what is left of it",
    )
