"""Open one core directory, whatever way the last writer ended.

Order: lock, manifest, folders, leftovers, segments (footers only), ack.log, WAL into the open
segment, then appends. Every step may be interrupted by another crash and done again: nothing is
deleted or cut before what it held is durable elsewhere, and bundles that a segment holds already
are recognised by their wal_seq.
"""

from __future__ import annotations

from quiver.clock import Clock
from quiver.config import HARD_LIMITS, Config
from quiver.disk import TEMPORARY, Disk, Lock, copy_file, is_temporary, save_bytes
from quiver.engine.core import Core, RecoveryReport, core_folder, covered_place
from quiver.engine.ingest import try_reclaim, write_open_segment
from quiver.engine.outcomes import open_outcomes
from quiver.errors import CapacityError, DamagedEntry, DamageError, InputError
from quiver.ipc import decode_stream
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.metrics import Metrics
from quiver.payload import EncodedBundle
from quiver.segment import Catalog, OpenSegment, parse_segment_name
from quiver.slots import SlotTable
from quiver.wal import Place, Replay, encoded_bytes

__all__ = ["open_core"]


def open_core(
    disk: Disk, number: int, *, slots: SlotTable | None, config: Config, clock: Clock
) -> Core:
    """Lock, recover and give one core; ``slots`` creates the store if there is none.

    Raises LockedError, VersionError, MissingError, DamageError; the lock is free again then.
    """
    folder = core_folder(number)
    _check_place(disk, create=slots is not None)
    disk.make_dir(folder)
    held = disk.lock(f"{folder}/LOCK")
    try:
        manifest = _open_manifest(disk, folder, slots)
        return _recover(disk, number, manifest, config=config, clock=clock, held=held)
    except BaseException:
        held.release()
        raise


def _check_place(disk: Disk, *, create: bool) -> None:
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

    Writers of several cores may come to a new store at once: one makes it, the others wait.
    """
    if disk.stat(MANIFEST_NAME) is not None:
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
    # A killed writer may have renamed a file and not synced the folder: we see it, but a power cut
    # would take it back. The manifest must not go once there are folders that speak of data, nor a
    # segment once its part of the WAL is given away.
    disk.sync_dir("")
    for name in ("segments", "acks", "wal"):
        disk.make_dir(f"{folder}/{name}")
    for name in (f"{folder}/segments", folder):
        disk.sync_dir(name)
    catalog, next_seq = _load_catalog(disk, folder, report)
    acks, floor, registry = open_outcomes(disk, folder, catalog=catalog, report=report)
    covered = floor.next_wal_seq - 1
    if catalog.covered_wal_seq is not None:
        covered = max(covered, catalog.covered_wal_seq)
    core = Core(
        disk=disk,
        folder=folder,
        number=number,
        manifest=manifest,
        config=config,
        clock=clock,
        held=held,
        catalog=catalog,
        acks=acks,
        registry=registry,
        open_segment=OpenSegment(config.segment),
        metrics=Metrics(),
        next_segment_seq=max(next_seq, floor.next_segment_seq),
        next_wal_seq=covered + 1,
        covered_wal_seq=covered,
        report=report,
        floor=floor,
    )
    try:
        with core.lock:
            _replay(core)
    except BaseException:
        acks.close()
        raise
    return core


def _load_catalog(disk: Disk, folder: str, report: RecoveryReport) -> tuple[Catalog, int]:
    """List the segments, and give the first number that none ever had.

    One whose footer is damaged is moved to quarantine; the bundles of the newest come back from
    the WAL if that still has them and no segment was deleted since.
    """
    segments = f"{folder}/segments"
    next_seq = 0
    for entry in disk.list_dir(segments):
        if (
            is_temporary(entry.name)
            and parse_segment_name(entry.name[: -len(TEMPORARY)]) is not None
        ):
            disk.unlink(f"{segments}/{entry.name}")
    catalog, damaged = Catalog.load(disk, segments)
    for info in catalog:
        next_seq = max(next_seq, info.segment_seq + 1)
    for path, error in damaged:
        next_seq = max(next_seq, (parse_segment_name(path.rsplit("/", 1)[-1]) or 0) + 1)
        copy_file(disk, f"{folder}/quarantine", path, error=error)
        disk.unlink(path)
        report.damage.append(error)
    if damaged:
        disk.sync_dir(segments)
    return catalog, next_seq


def _replay(core: Core) -> None:
    """Bring back from the WAL what no segment holds, then open it for appends."""
    replay = Replay(
        core.disk,
        core.path("wal"),
        digest=core.manifest.layout_digest,
        entry_bytes_max=HARD_LIMITS.entry_bytes,
        covered_seq=core.covered_wal_seq if core.covered_wal_seq >= 0 else None,
        hint=covered_place(core.catalog),
        quarantine=core.path("quarantine"),
    )
    for bundle, end in replay:
        if not _is_readable(core, bundle, end):
            continue
        now = core.clock.monotonic_ns()
        core.open_segment.add(bundle, now)
        core.open_end = end
        core.report.replayed_bundles += 1
        if core.open_segment.due(now) is not None and core.finalize_failure is None:
            _finalize(core)
    core.log = replay.finish(core.config.wal)
    core.next_wal_seq = replay.last_seq + 1
    core.report.skipped_bundles = replay.skipped_bundles
    core.report.lost_wal_seqs = replay.lost_seqs
    core.report.torn_tail = replay.torn
    core.report.damage += replay.damage
    core.metrics.add("quiver.recovery.replayed_bundles", core.report.replayed_bundles)
    core.metrics.add("quiver.damage.found", len(core.report.damage))
    if core.open_segment.bundle_count == 0:
        # What the log still has is covered, or set aside: its numbers are used up with it.
        core.covered_wal_seq = replay.last_seq
        core.open_end = core.covered_end = core.log.end
    try_reclaim(core)


def _finalize(core: Core) -> None:
    """Write what was replayed so far as a segment; on a full disk it stays in memory and the WAL.

    A store must open on a full disk: its subscribers are the ones who can empty it.
    """
    try:
        write_open_segment(core)
    except CapacityError as error:
        core.check()
        core.finalize_failure = error


def _is_readable(core: Core, bundle: EncodedBundle, end: Place) -> bool:
    """Check that a recovered bundle can be decoded; one that cannot is set aside.

    Its checksum was right, so this is another writer's fault or a hostile file, not bit rot.
    """
    limits = core.config.limits.for_reading()
    try:
        for payload in bundle.payloads:
            if payload.slot_id not in core.manifest.slots:
                raise DamagedEntry("a bundle has an unknown slot", found=payload.slot_id)
            decode_stream(payload.data, rows=payload.row_count, limits=limits)
        if not bundle.payloads:
            raise DamagedEntry("a bundle has no slot")
    except DamageError as error:
        path = core.disk.locate(core.path("wal"))
        named = DamagedEntry(
            f"bundle {bundle.wal_seq} cannot be decoded: {error.message}",
            path=path,
            offset=end.offset - encoded_bytes(bundle),
            expected=error.expected,
            found=error.found,
        )
        save_bytes(
            core.disk,
            core.path("quarantine"),
            f"bundle-{bundle.wal_seq}.bin",
            data=[payload.data for payload in bundle.payloads],
            error=named,
        )
        core.report.damage.append(named)
        return False
    return True
