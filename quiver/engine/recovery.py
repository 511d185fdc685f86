"""Open one core directory, whatever way the last writer ended.

Order: lock, manifest, folders, what was decided to be taken in, leftovers, segments (footers only),
ack.log, damaged segments from the WAL, the rest of the WAL into the open segment, then appends.
Every step may be interrupted by another crash and done again: nothing is deleted or cut before what
it held is durable elsewhere, and bundles that a segment holds already are recognised by their
wal_seq.

Damage is set aside and reported; with the policy ``strict`` it is raised before anything is
changed because of it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quiver.clock import Clock
from quiver.config import HARD_LIMITS, Config
from quiver.disk import TEMPORARY, Disk, Lock, copy_file, is_temporary, remove
from quiver.engine.ages import AGES_NAME, open_ages
from quiver.engine.budget import budget_of
from quiver.engine.census import measure_aside
from quiver.engine.core import Core, RecoveryReport, core_folder, covered_place
from quiver.engine.fold import try_fold
from quiver.engine.holes import Doubt
from quiver.engine.intake_journal import settle_intake
from quiver.engine.outcomes import open_outcomes, restore_registry
from quiver.engine.outlet import LogOutlet
from quiver.engine.rebuild import rebuild_segments
from quiver.engine.rejoin import join_run, make_room
from quiver.engine.reserve import RESERVE_NAME, Reserve, reserve_bytes
from quiver.engine.saving import restore_progress, take_recovered, try_save_progress
from quiver.engine.sealed import try_reclaim
from quiver.engine.stored import check_readable
from quiver.engine.timekeeping import start_times
from quiver.errors import DamagedEntry, InputError
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.metrics import Metrics
from quiver.segment import Catalog, OpenSegment, parse_segment_name
from quiver.slots import SlotTable
from quiver.stored_run import StoredRun
from quiver.wal import Replay

__all__ = ["RecoveryProgress", "check_place", "lock_core", "open_core"]

_PROGRESS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """How far an opening is: bytes of the log read, of all that there are, and bundles found.

    ``bundles`` counts those that are in no segment yet.
    """

    done_bytes: int
    total_bytes: int
    bundles: int


Watch = Callable[[RecoveryProgress], None]


def open_core(
    disk: Disk,
    number: int,
    *,
    slots: SlotTable | None,
    config: Config,
    clock: Clock,
    watch: Watch | None = None,
    held: Lock | None = None,
) -> Core:
    """Lock, recover and give one core; ``slots`` creates the store if there is none.

    ``watch`` is told how far it is, every few MiB of the log and at its end. A lock that is
    ``held`` already, by ``lock_core``, is taken over.

    Raises LockedError, VersionError, MissingError, DamageError; the lock is free again then.
    """
    folder = core_folder(number)
    if held is None:
        held = lock_core(disk, number, create=slots is not None)
    began_ns = clock.monotonic_ns()
    try:
        manifest = _open_manifest(disk, folder, slots)
        core = _recover(disk, number, manifest, config=config, clock=clock, held=held)
        core.outlet = LogOutlet(core)
        core.budget = budget_of(
            disk, number, config, store_id=manifest.store_id, events=core.events
        )
        try:
            with core.lock:
                _find_reserve(core)
                restore_progress(core)
                start_times(core)
                _replay(core, watch)
                try_fold(core)
                _open_retention(core)
        except BaseException:
            _note_findings(core)  # What was set aside is not found again.
            core.events.tell()
            core.acks.close()
            if hasattr(core, "log"):  # Its replay was over.
                core.log.close()
            raise
        core.metrics.observe("quiver.recovery", clock.monotonic_ns() - began_ns)
        _note_findings(core)
        return core
    except BaseException:
        held.release()
        raise


def _note_findings(core: Core) -> None:
    """Note for the log what was found and mended."""
    report, events = core.report, core.events
    for error in report.damage:
        events.warning("recovery.damage", path=error.path, offset=error.offset, error=error)
    if report.torn_tail is not None:
        torn = report.torn_tail
        events.warning("recovery.tail_repaired", path=torn.path, offset=torn.offset)
    if report.rebuilt_segments:
        events.warning("recovery.segments_rebuilt", segment_count=report.rebuilt_segments)
    first, behind = report.lost_wal_seqs
    if behind > first:
        events.warning("recovery.numbers_lost", wal_seq_first=first, wal_seq_last=behind - 1)


def lock_core(disk: Disk, number: int, *, create: bool) -> Lock:
    """Take the lock of a core, whose folder is made if the store is there or may be made."""
    check_place(disk, create=create)
    disk.make_dir(core_folder(number))
    return disk.lock(f"{core_folder(number)}/LOCK")


def _find_reserve(core: Core) -> None:
    """Find the room that was kept for a full disk: the replay may need it."""
    remove(core.disk, core.path(AGES_NAME + TEMPORARY))
    if core.config.retention.size_cap:
        core.reserve = Reserve(core.disk, core.folder, reserve_bytes(core.config))
        core.reserve.trim()
    else:
        remove(core.disk, core.path(RESERVE_NAME))


def _open_retention(core: Core) -> None:
    """Find out what is on the disk and how old it is, and take room in advance."""
    core.ages = open_ages(core)
    if core.reserve is not None and core.finalize_failure is None:
        core.reserve.fill()
    measure_aside(core)


def check_place(disk: Disk, *, create: bool) -> None:
    """Refuse a folder that is neither a store nor free to become one, before touching it."""
    if disk.stat(MANIFEST_NAME) is not None:
        return
    if not create:
        StoreManifest.read(disk)
    foreign = [
        entry.name
        for entry in disk.list_dir("")
        if not entry.name.startswith(("core_", MANIFEST_NAME))
    ]
    if foreign:
        raise InputError(
            f"{disk.locate('')} is not a Quiver store and not empty: it holds {foreign[0]!r}",
            hint="name a new or empty folder",
        )


def _open_manifest(disk: Disk, folder: str, slots: SlotTable | None) -> StoreManifest:
    """Read the manifest, or write it as the very first file of a new store.

    Writers of several cores may come to a new store at once: one makes it, the others wait. So
    does a new core of an old store, for a migration goes through the cores that it finds.
    """
    if disk.stat(MANIFEST_NAME) is not None and disk.stat(f"{folder}/wal") is not None:
        return _manifest(disk, folder, slots)
    making = disk.lock(f"{MANIFEST_NAME}.lock", wait=True)
    try:
        return _manifest(disk, folder, slots)
    finally:
        making.release()


def _manifest(disk: Disk, folder: str, slots: SlotTable | None) -> StoreManifest:
    leftover = f"{MANIFEST_NAME}.tmp"
    if disk.stat(leftover) is not None:
        disk.unlink(leftover)
    if disk.stat(MANIFEST_NAME) is not None:
        manifest = StoreManifest.read(disk)
        if slots is not None:
            manifest.check_slots(slots)
            # Which column tells the event time is no part of the layout: the caller decides.
            manifest = StoreManifest(manifest.store_id, slots)
        return manifest
    if disk.stat(f"{folder}/wal") is not None:
        raise DamagedEntry(
            f"{MANIFEST_NAME} is missing although the store has data",
            path=disk.locate(MANIFEST_NAME),
            hint="each segment carries the slot table: restore it from one",
        )
    manifest = StoreManifest.new(slots or SlotTable.of(()))
    manifest.write(disk)
    return manifest


def _settle_folders(disk: Disk, folder: str) -> None:
    """Make the folders of a core, and all names in them durable.

    A killed writer may have renamed a file and not synced the folder: we see it, but a power cut
    would take it back. The manifest must not go once there are folders that speak of data, nor a
    segment once its part of the WAL is given away.
    """
    disk.sync_dir("")
    for name in ("segments", "acks", "wal"):
        disk.make_dir(f"{folder}/{name}")
    for name in (f"{folder}/segments", folder):
        disk.sync_dir(name)


def _recover(
    disk: Disk,
    number: int,
    manifest: StoreManifest,
    *,
    config: Config,
    clock: Clock,
    held: Lock,
) -> Core:
    folder = core_folder(number)
    report = RecoveryReport()
    _settle_folders(disk, folder)
    strict = config.recovery.policy == "strict"
    report.damage += settle_intake(disk, number, strict=strict)
    gone = len(report.damage)
    catalog, damaged = _load_catalog(disk, folder, report, strict=strict)
    acks, floor, replay = open_outcomes(
        disk, folder, has_segments=len(catalog) > 0, report=report, strict=strict
    )
    try:
        report.rebuilt_segments = rebuild_segments(
            disk,
            number,
            manifest,
            catalog=catalog,
            damaged=damaged,
            floor=floor,
            config=config.segment,
        )
        _remove_lost(disk, [path for seq, path in damaged.items() if seq not in catalog])
    except BaseException:
        acks.close()
        raise
    covered = floor.next_wal_seq - 1
    if catalog.covered_wal_seq is not None:
        covered = max(covered, catalog.covered_wal_seq)
    return Core(
        disk=disk,
        folder=folder,
        number=number,
        manifest=manifest,
        config=config,
        clock=clock,
        held=held,
        catalog=catalog,
        acks=acks,
        registry=restore_registry(replay, catalog),
        open_segment=OpenSegment(config.segment),
        metrics=_begin_to_count(report, gone + len(damaged)),
        next_segment_seq=max(_next_segment_seq(catalog, damaged), floor.next_segment_seq),
        next_wal_seq=covered + 1,
        covered_wal_seq=covered,
        report=report,
        floor=floor,
    )


def _begin_to_count(report: RecoveryReport, segment_count: int) -> Metrics:
    """Make the counters; what was found so far is damage to segments, and the rest to acks."""
    metrics = Metrics()
    metrics.add("quiver.damage", segment_count, label="segment")
    metrics.add("quiver.damage", len(report.damage) - segment_count, label="acks")
    return metrics


def _load_catalog(
    disk: Disk, folder: str, report: RecoveryReport, *, strict: bool
) -> tuple[Catalog, dict[int, str]]:
    """List the segments, and those whose end is damaged: number and path, a copy in quarantine."""
    segments = f"{folder}/segments"
    listing = disk.list_dir(segments)
    for entry in listing:
        if (
            is_temporary(entry.name)
            and parse_segment_name(entry.name[: -len(TEMPORARY)]) is not None
        ):
            disk.unlink(f"{segments}/{entry.name}")
    catalog, damaged = Catalog.load(disk, segments, listing=listing)
    if strict and damaged:
        raise damaged[0][1]
    for path, error in damaged:
        copy_file(disk, f"{folder}/quarantine", path, error=error)
        report.damage.append(error)
    return catalog, {_segment_seq(path): path for path, _ in damaged}


def _segment_seq(path: str) -> int:
    """Read a segment's number out of its path."""
    return parse_segment_name(path.rsplit("/", 1)[-1]) or 0


def _next_segment_seq(catalog: Catalog, damaged: Iterable[int]) -> int:
    """Give the first number that no segment here ever had."""
    return max((*damaged, *(info.segment_seq for info in catalog)), default=-1) + 1


def _remove_lost(disk: Disk, paths: Iterable[str]) -> None:
    """Remove damaged segments that could not be written anew; each has a copy in quarantine."""
    folders = set()
    for path in paths:
        disk.unlink(path)
        folders.add(posixpath.dirname(path))
    for folder in folders:
        disk.sync_dir(folder)


def _replay(core: Core, watch: Watch | None) -> None:
    """Bring back from the WAL what no segment holds, then open it for appends."""
    strict = core.config.recovery.policy == "strict"
    limits = core.config.limits.for_reading()
    covered_seq = core.covered_wal_seq
    replay = Replay(
        core.disk,
        core.path("wal"),
        digest=core.manifest.layout_digest,
        entry_bytes_max=HARD_LIMITS.entry_bytes,
        covered_seq=core.covered_wal_seq if core.covered_wal_seq >= 0 else None,
        hint=covered_place(core.catalog),
        quarantine=core.path("quarantine"),
        strict=strict,
        skipped_note=lambda seq, note: take_recovered(
            core, core.progress.take_covered, seq, note=note
        ),
    )
    core.where_in_log = replay.where
    doubt = Doubt(core.disk, core.path("wal"), core.manifest.layout_digest)
    told = 0
    for found in doubt.pass_on(replay, strict=strict):
        if isinstance(found, StoredRun):
            join_run(core, found)
        else:
            bundle, end = found
            if strict:
                check_readable(core, bundle, limits)
            make_room(core)
            # The age of what comes back begins with its recovery.
            core.open_segment.add(bundle, core.clock.monotonic_ns(), stored=replay.stored)
            if bundle.note is not None:
                take_recovered(core, core.progress.take, bundle.wal_seq, note=bundle.note)
            core.open_end = end
            core.report.replayed_bundles += 1
            core.times.took(bundle.ingestion_ns)
        if watch is not None and replay.done_bytes - told >= _PROGRESS_BYTES:
            told = replay.done_bytes
            watch(RecoveryProgress(told, replay.total_bytes, core.report.replayed_bundles))
    if watch is not None:
        total = replay.total_bytes
        watch(RecoveryProgress(total, total, core.report.replayed_bundles))
    core.log = replay.finish(core.config.wal, events=core.events)
    core.where_in_log = core.log.where
    core.next_wal_seq = replay.last_seq + 1
    core.report.skipped_bundles = replay.skipped_bundles
    core.report.lost_wal_seqs = replay.lost_seqs
    core.report.torn_tail = replay.torn
    core.report.damage += replay.damage
    core.metrics.add("quiver.recovery.replayed_bundles", core.report.replayed_bundles)
    core.metrics.add("quiver.damage", len(replay.damage), label="wal")
    # What the log has is in the open segment, or covered, or set aside with its numbers used up.
    core.open_end = core.log.end
    if not any(part.bundle_count for part in core.waiting):
        core.covered_wal_seq = replay.last_seq
        core.covered_end = core.log.end
    in_segments = max((info.wal_seq_last or 0 for info in core.catalog), default=-1)
    if replay.skipped_bundles and covered_seq > max(in_segments, core.progress.saved_seq):
        core.progress.is_unsaved |= bool(core.progress.covered)
        try_save_progress(core)  # Of what was dropped while open the log alone tells.
    try_reclaim(core)
