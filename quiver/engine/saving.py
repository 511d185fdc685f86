"""Progress on the disk: found at the opening, saved behind each segment that moves it on.

A segment says how far its own bundles were read; the file ``progress`` says it of all segments up
to some bundle. So the file is written before a segment goes that knows more, and where it cannot be
written that segment stays. Until then whatever is lost of the file can be made of the segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from crc32c import crc32c

from quiver.clock import Clock
from quiver.disk import TEMPORARY, Disk, copy_range, remove
from quiver.engine.core import Core, core_folder
from quiver.errors import CapacityError, DamageError, QuiverError
from quiver.manifest import StoreManifest
from quiver.progress import (
    HERE_NAME,
    LOST_NAME,
    PROGRESS_NAME,
    Loss,
    is_marked,
    read_loss,
    read_progress,
    write_loss,
    write_progress,
)
from quiver.progress.format import TABLE_BYTES_MAX, decode_table
from quiver.segment import Catalog, SegmentInfo, read_noted

__all__ = [
    "keep_losses",
    "restore_progress",
    "save_progress",
    "take_recovered",
    "try_save_progress",
    "without_last_copies",
]


def restore_progress(core: Core) -> None:
    """Find out how far sources were read with the bundles that are in segments, or were.

    Only segments that are newer than the file are looked into. Without a sound copy of it states
    are lost, unless every segment that ever was is there. Raises VersionError for a newer format
    and, under the policy ``strict``, the first damage.
    """
    for name in (PROGRESS_NAME, HERE_NAME, LOST_NAME):
        remove(core.disk, core.path(name + TEMPORARY))
    progress, path = core.progress, core.path(PROGRESS_NAME)
    progress.loss = read_loss(core.disk, core.path(LOST_NAME))
    content, damage = read_progress(
        core.disk, path, core=core.number, store_id=core.manifest.store_id
    )
    if damage:
        _report(core, damage[0])
        _set_aside(core, path, damage[0])
        progress.is_unsaved = True
        if content.wal_seq < 0 and not _is_whole(core):
            _lose(core, damage[0])
    elif content.wal_seq >= 0 and not is_marked(core.disk, path):
        progress.is_unsaved = True  # A power cut came before the mark, or an earlier release.
    progress.covered.take_all(content.notes)
    progress.saved_seq = content.wal_seq
    for info in core.catalog:
        if is_unknown(info, content.wal_seq):
            progress.is_unsaved = True
            try:
                data = read_noted(core.disk, info, bytes_max=TABLE_BYTES_MAX)
                progress.covered.take_all(decode_table(data))
            except DamageError as error:
                _report(core, error)
                _lose(core, error)


def _is_whole(core: Core) -> bool:
    """Whether all segments that the core ever had are there, so that nothing else is missing."""
    numbers = {info.segment_seq for info in core.catalog}
    return len(numbers) == core.next_segment_seq


def _lose(core: Core, error: DamageError) -> None:
    """Note that states are lost; written down before anything else makes it look mended."""
    core.progress.loss = _loss(error, core.progress.loss, core.clock)
    core.progress.is_loss_unsaved = core.progress.is_unsaved = True
    core.events.warning("progress.lost", path=error.path, error=error)


def _loss(error: DamageError, before: Loss | None, clock: Clock) -> Loss:
    """Name a loss as no other one is named, whatever the clock says."""
    text = f"{before and before.name} {error}"
    return Loss(f"{crc32c(text.encode()):08x}-{clock.wall_ns():x}", error.path, error.message)


def keep_losses(disk: Disk, number: int, manifest: StoreManifest, *, clock: Clock) -> None:
    """Write down that a segment has lost states, before it is written anew without them."""
    folder = core_folder(number)
    saved, _ = read_progress(
        disk, f"{folder}/{PROGRESS_NAME}", core=number, store_id=manifest.store_id
    )
    catalog, _ = Catalog.load(disk, f"{folder}/segments")
    for info in catalog:
        if is_unknown(info, saved.wal_seq):
            try:
                decode_table(read_noted(disk, info, bytes_max=TABLE_BYTES_MAX))
            except DamageError as error:
                path = f"{folder}/{LOST_NAME}"
                write_loss(disk, path, _loss(error, read_loss(disk, path), clock))


def is_unknown(info: SegmentInfo, saved_seq: int) -> bool:
    """Whether a segment knows more than a file that knows all up to this wal_seq."""
    return info.progress is not None and (info.wal_seq_last or 0) > saved_seq


def take_recovered(
    core: Core, take: Callable[[int, bytes], object], wal_seq: int, *, note: bytes
) -> None:
    """Take in the note of a bundle of the log; one that cannot be read is damage."""
    try:
        take(wal_seq, note)
    except DamageError as error:
        _report(core, error.at(core.disk.locate(core.path("wal"))))


def _report(core: Core, error: DamageError) -> None:
    if core.config.recovery.policy == "strict":
        raise error
    core.report.damage.append(error)
    core.metrics.add("quiver.damage", label="progress")


def _set_aside(core: Core, path: str, error: DamageError) -> None:
    if core.disk.stat(path) is None:
        return
    with closing(core.disk.open(path)) as file:
        end = file.size()
        name = f"{PROGRESS_NAME}.{crc32c(file.read(0, end)):08x}"
        copy_range(
            core.disk, core.path("quarantine"), name, file=file, offset=0, end=end, error=error
        )


def save_progress(core: Core) -> None:
    """Make durable how far sources were read with what segments hold, if the file lacks it.

    On a full disk it takes the room that is kept for outcomes. If it raises, the file is as it was
    or all new, and it may be tried again.
    """
    progress = core.progress
    if not progress.is_unsaved:
        return
    try:
        _write(core)
    except CapacityError:
        if core.reserve is None or not core.reserve.lend_to_acks(0):
            raise
        _write(core)
    progress.saved_seq = core.covered_wal_seq
    progress.is_unsaved = False
    core.events.end("progress.save_failed")


def _write(core: Core) -> None:
    progress = core.progress
    if progress.loss is not None and progress.is_loss_unsaved:
        write_loss(core.disk, core.path(LOST_NAME), progress.loss)
        progress.is_loss_unsaved = False
    write_progress(
        core.disk,
        core.path(PROGRESS_NAME),
        core.progress.covered,
        wal_seq=core.covered_wal_seq,
        core=core.number,
        store_id=core.manifest.store_id,
    )


def try_save_progress(core: Core) -> None:
    """Do the same, but leave it to a later tick, or to a deletion, if the disk refuses."""
    try:
        save_progress(core)
    except QuiverError as error:
        core.events.begin("progress.save_failed", error=error)
        core.check()


def without_last_copies(
    core: Core, segment_seqs: Sequence[int]
) -> tuple[Sequence[int], QuiverError | None]:
    """Give those of some segments that may be deleted, and why others may not.

    A segment that knows more than the file does may go when that has been saved.
    """
    saved_seq = core.progress.saved_seq
    needed = {seq for seq in segment_seqs if is_unknown(core.catalog.get(seq), saved_seq)}
    if not needed:
        return segment_seqs, None
    try:
        save_progress(core)
    except QuiverError as error:
        core.kept_segments |= needed
        return [seq for seq in segment_seqs if seq not in needed], error
    return segment_seqs, None
