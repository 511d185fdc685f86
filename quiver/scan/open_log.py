"""Bundles that were appended and are in no segment yet: read from the log, without a lock.

A snapshot is a list of segments and a list of open bundles of one moment: each bundle whose append
was acknowledged before the snapshot was asked for is in one of the two and in one only, unless all
subscribers had it and its segment was deleted. How, for each core, beside a writer at work:

1. Look up which numbers segments cover. It only saves reading; numbers never become uncovered.
2. Open all files of the log, as they are at one moment. From then on they lose only what segments
   cover: a hole may be punched, a tail moved to another file, a name removed; what is open stays.
3. Walk them and note each bundle above the covered numbers.
4. Look up again which numbers segments cover, and list these segments. What is above is open.

So a writer that finalizes in between costs nothing, whatever its pace. If something is missing or
damaged above what step 4 says is covered, all is done again: only what is found wrong twice in the
same way is wrong.

An entry that is whole in the file counts, synced or not: a power cut may still take it, and so it
is with one whose append was refused because its sync failed. What an unfinished append left at the
end of the log does not count, and is no error. All other damage is one, even in a salvaging store,
since a scan must not give less than there is and say nothing: entries that cannot be read, numbers
that are missing, a segment that does not say what it covers. Damage that a recovery has set aside
in quarantine was told already and is passed over, as it is in segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quiver.config import HARD_LIMITS
from quiver.disk import Disk, File
from quiver.engine.core import core_folder, core_numbers
from quiver.errors import DamagedEntry, DamageError, StorageError, VersionError
from quiver.manifest import StoreManifest
from quiver.payload import StoredBundle
from quiver.scan.coverage import Coverage, read_coverage
from quiver.scan.open_bundle import OpenBundle, describe
from quiver.scan.snapshot import SegmentRef, list_segments
from quiver.wal import ACTIVE_NAME
from quiver.wal.files import WalFile, open_files
from quiver.wal.format import (
    BUNDLE,
    CHECKPOINT,
    GENERATION_MAX,
    HEADER_BYTES,
    Place,
    decode_bundle,
    decode_header,
    encode_header,
)
from quiver.wal.reader import Entry, Tail, begin_of, missing_bundles, walk
from quiver.wal.start import Start
from quiver.wal.truncate import read_sidecar

__all__ = ["KEPT_BYTES_MAX", "take_core_snapshot", "take_snapshot"]

KEPT_BYTES_MAX: Final = 64 << 20
"""Payloads of open bundles that a snapshot keeps in memory: two segments of the default size.

The rest is read when it is asked for, if the log still has it by then.
"""

_ATTEMPTS: Final = 16


def take_snapshot(
    disk: Disk, manifest: StoreManifest, *, include_open: bool, slot_id: int | None = None
) -> tuple[tuple[SegmentRef, ...], tuple[OpenBundle, ...]]:
    """List segments and, if asked for, open bundles: both of one moment, by core and then number.

    With ``slot_id`` only open bundles that have the slot are given, and of them only that payload
    is kept in memory. Raises DamagedEntry for what is missing or damaged above the segments (see
    the module), VersionError for a log of another layout, StorageError if the store changes faster
    than it can be read.
    """
    if not include_open:
        return list_segments(disk), ()
    segments: list[SegmentRef] = []
    bundles: list[OpenBundle] = []
    room = KEPT_BYTES_MAX
    for core in core_numbers(disk):
        coverage, found = _read_core(disk, core, _Wanted(manifest, slot_id, room))
        segments += coverage.segments
        bundles += found
        room -= sum(len(slot.data or b"") for bundle in found for slot in bundle.slots)
    return tuple(segments), tuple(bundles)


def take_core_snapshot(
    disk: Disk, manifest: StoreManifest, core: int, *, after: OpenBundle | None = None
) -> tuple[tuple[SegmentRef, ...], list[OpenBundle]]:
    """List segments and open bundles of one core, both of one moment, as ``take_snapshot`` does.

    With ``after``, the last of an earlier snapshot, the log is read from there: what is given is
    behind it.
    """
    wanted = _Wanted(manifest, None, KEPT_BYTES_MAX)
    coverage, found = _read_core(disk, core, wanted, after=after)
    return coverage.segments, found


class _Wanted(NamedTuple):
    """What is asked for: bundles of this layout, of this slot or all, so many bytes of them."""

    manifest: StoreManifest
    slot_id: int | None
    room: int


class _Step(NamedTuple):
    """What stands in the log at one place, up to ``end``: a number that is used up, or damage."""

    end: Place
    path: str
    offset: int
    last_before: int | None = None
    """The last number before it; None if nobody knows."""
    bundle: OpenBundle | None = None
    error: DamageError | None = None


def _read_core(
    disk: Disk, core: int, wanted: _Wanted, *, after: OpenBundle | None = None
) -> tuple[Coverage, list[OpenBundle]]:
    before = ""
    for _ in range(_ATTEMPTS):
        start = _from(read_coverage(disk, core), after)
        log = _read_log(disk, core, start, wanted=wanted)
        end = _from(read_coverage(disk, core), after)
        found, fault = log.above(end)
        if after is not None and (fault is not None or _was_taken_back(disk, end, after)):
            after = None  # It is no place to begin at: all is read.
            continue
        if found and fault is None:
            fault = end.doubt
        if fault is None:
            if wanted.slot_id is not None:
                found = [b for b in found if b.slot(wanted.slot_id) is not None]
            return end, found
        if str(fault) == before:
            raise fault
        before = str(fault)
    folder = disk.locate(core_folder(core))
    raise StorageError(
        f"the store in {folder} changes faster than it can be read", path=folder, hint="try again"
    )


def _from(coverage: Coverage, after: OpenBundle | None) -> Coverage:
    """Let all up to a bundle that was read count as covered; its entry stands at the place."""
    if after is None or after.wal_seq <= coverage.wal_seq:
        return coverage
    place = Place(after.stored.generation, after.stored.offset)
    return coverage._replace(wal_seq=after.wal_seq, place=place)


def _was_taken_back(disk: Disk, coverage: Coverage, after: OpenBundle) -> bool:
    """Whether the log has another entry by now where that bundle was: the disk refused it."""
    return after.wal_seq >= coverage.wal_seq and not after.is_in_log(disk)


@dataclass(slots=True)
class _LogContent:
    """What a walk through the log found; ``truncated`` is the place that the sidecar tells."""

    disk: Disk
    core: int
    truncated: Place
    steps: list[_Step] = field(default_factory=list)

    def above(self, coverage: Coverage) -> tuple[list[OpenBundle], DamageError | None]:
        """Give the bundles that are not covered, and the first thing that is wrong among them."""
        covered = self._believed(coverage.place, coverage)
        truncated = self._believed(self.truncated, coverage)
        found: list[OpenBundle] = []
        next_seq = coverage.wal_seq + 1
        damage: DamageError | None = None
        is_told = False
        for step in self.steps:
            if step.error is not None:
                if step.end > max(covered, truncated):
                    if self._is_set_aside(step):
                        is_told = True
                    else:
                        damage = damage or step.error
                continue
            if step.last_before is None:
                is_told = True  # Only a newer Quiver knows what it used up.
                continue
            if step.last_before >= next_seq and step.end > covered:
                if damage is not None:
                    return found, damage
                if not is_told:
                    number = step.last_before + 1
                    return found, missing_bundles(
                        step.path, step.offset, next_seq=next_seq, found=number
                    )
            damage, is_told = None, False
            next_seq = max(next_seq, step.last_before + 1)
            if step.bundle is not None and step.bundle.wal_seq > coverage.wal_seq:
                found.append(step.bundle)
                next_seq = step.bundle.wal_seq + 1
        return found, damage

    def _believed(self, place: Place | None, coverage: Coverage) -> Place:
        """Give a place before which all is covered, unless the log shows that it is not.

        A power cut may have taken an end of the log that a segment held, and appends went on there.
        """
        last = coverage.wal_seq
        ends = [s.end for s in self.steps if s.bundle is not None and s.bundle.wal_seq > last]
        if place is None or (ends and ends[0] <= place):
            return Place(0, 0)
        return place

    def _is_set_aside(self, step: _Step) -> bool:
        name = f"wal-{step.end.generation}-{step.offset}.bin"  # As a replay calls it.
        return self.disk.stat(f"{core_folder(self.core)}/quarantine/{name}") is not None


def _read_log(disk: Disk, core: int, coverage: Coverage, *, wanted: _Wanted) -> _LogContent:
    """Walk all files of a log that may have bundles which segments do not cover."""
    folder = f"{core_folder(core)}/wal"
    room = wanted.room
    with open_files(disk, folder, newest=coverage.place) as files:
        # The writer moves it before it gives anything back.
        sidecar, wrong = read_sidecar(disk, folder)
        content = _LogContent(disk, core, sidecar or Place(0, 0))
        if not files and (coverage.wal_seq >= 0 or sidecar is not None or wrong is not None):
            content.steps.append(_missing_log(disk, folder))
        first = _start(files, coverage, sidecar)
        last_seq = -1
        for wal_file in files:
            if wal_file.generation < first.generation:
                continue
            offset = first.offset
            if wal_file.generation != first.generation:
                offset = begin_of(wal_file.file, wal_file.generation, sidecar)
            for step, entry in _steps(disk, wal_file, wanted.manifest, start=(offset, last_seq)):
                if entry is None or entry.frame.entry_type != BUNDLE:
                    content.steps.append(step)
                    continue
                last_seq = entry.frame.wal_seq
                if last_seq <= coverage.wal_seq:
                    content.steps.clear()  # All before it is covered as well, whatever it was.
                    continue
                bundle = _open_bundle(core, wal_file, entry, slot_id=wanted.slot_id, room=room)
                room -= sum(len(slot.data or b"") for slot in bundle.slots)
                content.steps.append(step._replace(bundle=bundle))
    return content


def _start(files: list[WalFile], coverage: Coverage, sidecar: Place | None) -> Place:
    by_generation = {wal_file.generation: wal_file.file for wal_file in files}

    def opened(generation: int) -> AbstractContextManager[File | None]:
        return nullcontext(by_generation[generation])

    covered = coverage.wal_seq if coverage.wal_seq >= 0 else None
    start = Start(list(by_generation), opened, covered, HARD_LIMITS.entry_bytes)
    return start.find(sidecar, coverage.place)


def _steps(
    disk: Disk, wal_file: WalFile, manifest: StoreManifest, *, start: tuple[int, int]
) -> Iterator[tuple[_Step, Entry | None]]:
    """Go through a file from an offset and the number before it."""
    file, generation = wal_file.file, wal_file.generation
    path = disk.locate(file.path)
    if not _is_readable(file, path, manifest):
        return
    size = file.size()
    if size < HEADER_BYTES:
        error = DamagedEntry(
            "a WAL header is too short", path=path, expected=HEADER_BYTES, found=size
        )
        yield _Step(Place(generation + 1, 0), path, 0, error=error), None  # All of it is gone.
        return
    offset, last_seq = start
    items = walk(
        file,
        offset,
        entry_bytes_max=HARD_LIMITS.entry_bytes,
        last_seq=last_seq,
        is_active=wal_file.is_active,
        generation=generation,
    )
    for item in items:
        place = Place(generation, item.end)
        if isinstance(item, Entry):
            frame = item.frame
            is_known = frame.entry_type in (BUNDLE, CHECKPOINT)
            last_before = frame.wal_seq - (frame.entry_type == BUNDLE) if is_known else None
            yield _Step(place, path, item.offset, last_before), item
        elif item.error is not None and not (isinstance(item, Tail) and item.is_torn):
            yield _Step(place, path, item.offset, error=item.error.at(path)), None


def _is_readable(file: File, path: str, manifest: StoreManifest) -> bool:
    """Check whose file it is; one of another layout is passed over if it has no entry.

    A migration leaves such a file for a while, and puts one in place before it is told here.
    """
    head = file.read(0, HEADER_BYTES + 1)
    try:
        # One byte of damage leaves the entries behind it as good as they are.
        decode_header(head[:HEADER_BYTES], manifest.layout_digest)
    except VersionError as error:
        if head == encode_header(head[-16:]):
            return False
        raise VersionError(f"{path}: {error.message}", hint=error.hint) from error
    return True


def _missing_log(disk: Disk, folder: str) -> _Step:
    path = disk.locate(f"{folder}/{ACTIVE_NAME}")
    hint = "bundles that were in no segment yet are gone with it; scan without include_open"
    error = DamagedEntry("the log is missing", path=path, hint=hint)
    return _Step(Place(GENERATION_MAX, 0), path, 0, error=error)


def _open_bundle(
    core: int, wal_file: WalFile, entry: Entry, *, slot_id: int | None, room: int
) -> OpenBundle:
    frame = entry.frame
    stored = StoredBundle(
        frame.wal_seq, wal_file.generation, entry.offset, len(frame.body), frame.checksum
    )
    bundle = decode_bundle(frame)
    payloads = [p for p in bundle.payloads if slot_id is None or p.slot_id == slot_id]
    is_room = sum(len(payload.data) for payload in payloads) <= room
    return describe(core, bundle, stored, kept=[p.slot_id for p in payloads] if is_room else ())
