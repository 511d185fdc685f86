"""Everything about a store that can be checked without changing it, as a stream of findings.

A finding is **damage**, which recovery would have to set aside; a **version**, a file of a newer
format or another slot table, which is not looked into; or a **note**: an append that was not
finished, a leftover, a file that nobody knows, something already in quarantine. No lock is taken;
how a live writer is kept from looking like damage is said in ``inspect``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from quiver.acks.opening import CHECKPOINT_NAME, LOG_NAME
from quiver.cli.inspect import (
    core_numbers,
    listing,
    load_segments,
    naming,
    survey_wal,
)
from quiver.cli.known import CORE_NAMES, store_names
from quiver.cli.outcomes import inbox_faults, mark_faults
from quiver.cli.progress import progress_faults
from quiver.disk import Disk, Stat, is_temporary
from quiver.engine.beside import read_acks
from quiver.engine.core import core_folder, covered_place
from quiver.engine.intake_journal import TAKEN
from quiver.engine.migration import layout_of_log
from quiver.errors import DamagedEntry, DamageError, MissingError, QuiverError, VersionError
from quiver.ipc import decode_stream
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.payload import EncodedBundle
from quiver.progress import decode_note
from quiver.segment import Catalog, SegmentInfo, SegmentReader, parse_segment_name
from quiver.wal import ACTIVE_NAME, SIDECAR_NAME, Place, is_spare, rotated_generation
from quiver.wal.format import HEADER_BYTES
from quiver.wal.reader import missing_bundles
from quiver.wal.truncate import read_sidecar

__all__ = ["Finding", "audit", "audited_bytes"]

_STATIONS: Final = ("wal", "segments", "acks", "quarantine")
_REASON_BYTES_MAX: Final = 1 << 16
_FORGOTTEN: Final = "subscribers and what they acked are forgotten: each starts anew"
_GONE: Final = "bundles that were in no segment yet are gone with it"
_UNFINISHED: Final = "a migration was not finished; the next open finishes it, or quiver migrate"

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying about a file; ``offset`` is None for the file as a whole."""

    kind: Literal["damage", "version", "note", "remains"]
    station: str
    path: str
    message: str
    offset: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str = ""


def audited_bytes(disk: Disk) -> int:
    """Count the bytes that ``audit`` is going to read."""
    folders = [f"{core_folder(core)}/{name}" for core in core_numbers(disk) for name in _STATIONS]
    return sum(entry.size for folder in folders for entry in listing(disk, folder))


def audit(disk: Disk, advance: Advance) -> Iterator[Finding]:
    """Check a store from its manifest to its quarantine; ``advance`` counts the bytes read.

    Raises MissingError if the folder is no store, and VersionError if its manifest is of a newer
    format: then nothing else can be told.
    """
    cores = core_numbers(disk)
    manifest = None
    try:
        manifest = StoreManifest.read(disk)
    except DamageError as error:
        yield _damage("store", error)
    except MissingError:
        if not any(disk.stat(f"{core_folder(core)}/wal") for core in cores):
            raise
        path = disk.locate(MANIFEST_NAME)
        yield _damage("store", DamagedEntry("the manifest of a store with data is gone", path=path))
    yield from _strangers(disk, "", store_names(cores), station="store")
    for core in cores:
        yield from _audit_core(disk, core, manifest, advance=advance)


def _audit_core(
    disk: Disk, core: int, manifest: StoreManifest | None, *, advance: Advance
) -> Iterator[Finding]:
    folder = core_folder(core)
    yield from _strangers(disk, folder, CORE_NAMES, station="store")
    if manifest is not None and layout_of_log(disk, core, manifest) != manifest.layout_digest:
        yield Finding("note", "store", disk.locate(MANIFEST_NAME), _UNFINISHED)
    try:
        catalog, _ = load_segments(disk, core)
    except VersionError:
        catalog = Catalog()  # The segment that is too new is named below.
    yield from _audit_wal(disk, core, manifest, catalog=catalog, advance=advance)
    yield from _audit_segments(disk, core, manifest, advance=advance)
    yield from _audit_acks(disk, core, catalog, advance=advance)
    if manifest is not None:
        faults = inbox_faults(disk, core, manifest.store_id)
        yield from (_damage("acks", error) for error in faults)
        for error in progress_faults(disk, core, manifest.store_id):
            if isinstance(error, VersionError):
                yield _unreadable("progress", error)
            else:
                yield _damage("progress", error)
    yield from _audit_quarantine(disk, core, advance)


# WAL -------------------------------------------------------------------------------------------


def _audit_wal(
    disk: Disk, core: int, manifest: StoreManifest | None, *, catalog: Catalog, advance: Advance
) -> Iterator[Finding]:
    folder = f"{core_folder(core)}/wal"
    names = {entry.name for entry in listing(disk, folder)}
    files = {name for name in names if name == ACTIVE_NAME or rotated_generation(name) is not None}
    spares = set(filter(is_spare, names))
    yield from _strangers(disk, folder, {SIDECAR_NAME, *files, *spares}, station="wal")
    if not files and (SIDECAR_NAME in names or catalog.covered_wal_seq is not None):
        path = disk.locate(f"{folder}/{ACTIVE_NAME}")
        yield _damage("wal", DamagedEntry("the log is missing", path=path, hint=_GONE))

    def decode(bundle: EncodedBundle) -> None:
        _decode(bundle, manifest)

    newest = covered_place(catalog)
    digest = None if manifest is None else layout_of_log(disk, core, manifest)
    first = None
    try:
        for state in survey_wal(disk, core, newest=newest, digest=digest, visit=decode):
            advance(state.file_bytes)
            if first is None and (state.begins_with is not None or state.damage):
                first = state
            for error in state.damage:
                is_covered = newest is not None and Place(state.generation, error.offset) < newest
                aside = "; what was there should be in segments" if is_covered else ""
                yield _damage("wal", error, aside=aside)
            if state.torn is not None:
                yield _torn("wal", state.torn, state.torn_bytes)
    except VersionError as error:
        if not error.message.startswith(disk.locate(f"{folder}/{SIDECAR_NAME}")):
            yield _unreadable("wal", error)  # The sidecar comes below.
    yield from _audit_sidecar(disk, folder)
    if first is not None and first.begins_with is not None and not first.damage:
        yield from _audit_beginning(disk, core, path=first.path, wal_seq=first.begins_with)


def _audit_beginning(disk: Disk, core: int, *, path: str, wal_seq: int) -> Iterator[Finding]:
    """Check that the log begins with what no segment ever held.

    What segments held is read behind the log: a writer says so before it gives the log back.
    """
    try:
        catalog, _ = load_segments(disk, core)
        acks = read_acks(disk, core, {info.segment_seq: info.bundle_count for info in catalog})
    except VersionError:
        return  # It is named elsewhere.
    covered = max(acks.floor.next_wal_seq - 1, -1)
    if catalog.covered_wal_seq is not None:
        covered = max(covered, catalog.covered_wal_seq)
    if wal_seq > covered + 1:
        yield _damage(
            "wal", missing_bundles(path, HEADER_BYTES, next_seq=covered + 1, found=wal_seq)
        )


def _decode(bundle: EncodedBundle, manifest: StoreManifest | None) -> None:
    """Read a bundle as recovery would; raises DamagedEntry if that could not."""
    if not bundle.payloads:
        raise DamagedEntry("a bundle has no slot")
    if bundle.note is not None:
        decode_note(bundle.note)
    for payload in bundle.payloads:
        if manifest is not None and payload.slot_id not in manifest.slots:
            raise DamagedEntry("a bundle has an unknown slot", found=payload.slot_id)
        decode_stream(payload.data, rows=payload.row_count)


def _audit_sidecar(disk: Disk, folder: str) -> Iterator[Finding]:
    try:
        with naming(disk.locate(f"{folder}/{SIDECAR_NAME}")):
            _, damage = read_sidecar(disk, folder)
    except VersionError as error:
        yield _unreadable("wal", error)
    else:
        if damage is not None:
            yield _damage("wal", damage)


# segments --------------------------------------------------------------------------------------


def _audit_segments(
    disk: Disk, core: int, manifest: StoreManifest | None, *, advance: Advance
) -> Iterator[Finding]:
    folder = f"{core_folder(core)}/segments"
    entries = [e for e in listing(disk, folder) if e.is_file and _is_segment(e)]
    yield from _strangers(disk, folder, {entry.name for entry in entries}, station="segments")
    before: SegmentInfo | None = None
    for entry in entries:
        path = f"{folder}/{entry.name}"
        try:
            with naming(disk.locate(path)), SegmentReader.open(disk, path) as reader:
                reader.verify()
                _check_bundles(reader)
                _check_owner(reader, manifest)
                _check_order(reader.info, before)
                before = reader.info
                if reader.lost:
                    text = f"{len(reader.lost):,} of its bundles lost slots to damage, as repaired"
                    yield Finding("note", "segments", disk.locate(path), text)
        except MissingError:
            pass  # Deleted since it was listed, as the store may.
        except DamageError as error:
            yield _damage("segments", error if error.path else error.at(disk.locate(path)))
        except VersionError as error:
            yield _unreadable("segments", error)
        advance(entry.size)


def _is_segment(entry: Stat) -> bool:
    return parse_segment_name(entry.name) is not None


def _check_bundles(reader: SegmentReader) -> None:
    """Hold the manifest against the streams: each chunk is in one bundle, sequences ascend."""
    chunks: set[tuple[int, int]] = set()
    references = 0
    last_seq: int | None = None
    for index in range(reader.bundle_count):
        entry = reader.bundle_entry(index)
        chunks.update((ref.stream_id, ref.chunk_index) for ref in entry.refs)
        references += len(entry.refs)
        if entry.wal_seq is not None:
            if last_seq is not None and entry.wal_seq <= last_seq:
                raise DamagedEntry(
                    f"the log sequence of bundle {index} goes back",
                    offset=reader.footer.manifest_offset,
                    expected=f"above {last_seq}",
                    found=entry.wal_seq,
                )
            last_seq = entry.wal_seq
    total = sum(stream.chunk_count for stream in reader.streams)
    if not len(chunks) == references == total:
        raise DamagedEntry(
            "bundles and streams disagree about the chunks",
            offset=reader.footer.manifest_offset,
            expected=f"{total} chunks, each in one bundle",
            found=f"{len(chunks)} in {references} places",
        )


def _check_owner(reader: SegmentReader, manifest: StoreManifest | None) -> None:
    """Hold what the segment says of its store against the manifest; another writer says nothing."""
    offset = reader.footer.directory_offset
    if manifest is None or reader.slots is None:
        return
    if reader.store_id != manifest.store_id:
        raise DamagedEntry(
            "a segment belongs to another store",
            offset=offset,
            expected=manifest.store_id,
            found=reader.store_id,
        )
    for stream in reader.streams:
        if stream.slot_id not in manifest.slots:
            raise DamagedEntry(
                "a segment holds data of a slot that the store does not have",
                offset=offset,
                expected=", ".join(str(slot.slot_id) for slot in manifest.slots),
                found=stream.slot_id,
            )


def _check_order(info: SegmentInfo, before: SegmentInfo | None) -> None:
    """Make sure that no bundle of the log is in two segments."""
    if before is None or before.wal_seq_last is None or info.wal_seq_first is None:
        return
    if info.wal_seq_first <= before.wal_seq_last:
        raise DamagedEntry(
            f"the log sequences of segments {before.segment_seq} and {info.segment_seq} overlap",
            expected=f"above {before.wal_seq_last}",
            found=info.wal_seq_first,
        )


# acks, quarantine ------------------------------------------------------------------------------


def _audit_acks(disk: Disk, core: int, catalog: Catalog, *, advance: Advance) -> Iterator[Finding]:
    folder = f"{core_folder(core)}/acks"
    yield from _strangers(disk, folder, {LOG_NAME, CHECKPOINT_NAME, "inbox"}, station="acks")
    segments = {info.segment_seq: info.bundle_count for info in catalog}
    try:
        state = read_acks(disk, core, segments)
    except VersionError as error:
        yield _unreadable("acks", error)
        return
    advance((state.log_bytes or 0) + (state.checkpoint_bytes or 0))
    has_log = disk.stat(f"{core_folder(core)}/wal/{ACTIVE_NAME}") is not None
    if state.log_bytes is None and state.checkpoint_bytes is None and (segments or has_log):
        path = disk.locate(f"{folder}/{LOG_NAME}")
        yield _damage("acks", DamagedEntry("ack.log is missing", path=path, hint=_FORGOTTEN))
    yield from (_damage("acks", error) for error in state.damage)
    place = disk.locate(f"{folder}/{CHECKPOINT_NAME}")
    yield from (_damage("acks", error.at(place)) for error in mark_faults(state, catalog))
    if state.torn_bytes:
        path = disk.locate(f"{folder}/{LOG_NAME}")
        offset = (state.log_bytes or 0) - state.torn_bytes
        text = f"the last {state.torn_bytes:,} bytes were never finished; the next open cuts them"
        yield Finding("note", "acks", path, text, offset)


def _audit_quarantine(disk: Disk, core: int, advance: Advance) -> Iterator[Finding]:
    folder = f"{core_folder(core)}/quarantine"
    for entry in listing(disk, folder):
        advance(entry.size)
        if entry.name.endswith((".json", ".reason")):
            continue
        reason = _reason(disk, f"{folder}/{entry.name}")
        text = f"{entry.size:,} bytes were set aside earlier{reason}"
        yield Finding("note", "quarantine", disk.locate(f"{folder}/{entry.name}"), text)


def _reason(disk: Disk, path: str) -> str:
    """Read why a file is in quarantine from the file beside it; nothing if that says nothing."""
    for suffix in (".json", ".reason"):
        try:
            file = disk.open(path + suffix)
        except QuiverError:
            continue
        with closing(file):
            text = file.read(0, _REASON_BYTES_MAX).decode(errors="replace")
        if suffix == ".reason":
            return f": {text.strip().splitlines()[0]}" if text.strip() else ""
        try:
            fields = json.loads(text)
            return f": {fields['reason']} in {fields['path']} at byte {fields['offset']:,}"
        except (ValueError, KeyError, TypeError):
            return ""
    return ""


# findings --------------------------------------------------------------------------------------


def _strangers(
    disk: Disk, folder: str, known: AbstractSet[str], *, station: str
) -> Iterator[Finding]:
    for entry in listing(disk, folder):
        if entry.name in known:
            continue
        text = "nothing of Quiver's has this name"
        if is_temporary(entry.name) or entry.name.endswith(TAKEN):
            text = "a write that is not finished, or never was; the next open clears it"
        yield Finding("note", station, disk.locate(f"{folder}/{entry.name}".lstrip("/")), text)


def _damage(station: str, error: DamageError, *, aside: str = "") -> Finding:
    return Finding(
        "damage",
        station,
        error.path,
        error.message + aside,
        error.offset,
        None if error.expected is None else str(error.expected),
        None if error.found is None else str(error.found),
        error.hint,
    )


def _unreadable(station: str, error: VersionError) -> Finding:
    """Make a finding of an error that ``naming`` put a file's name in front of."""
    message = getattr(error.__cause__, "message", "")
    return Finding(
        "version", station, error.message.removesuffix(f": {message}"), message, hint=error.hint
    )


def _torn(station: str, error: DamageError, torn_bytes: int) -> Finding:
    text = f"the last append was not finished ({torn_bytes:,} bytes); the next open cuts it off"
    return Finding("note", station, error.path, text, error.offset)
