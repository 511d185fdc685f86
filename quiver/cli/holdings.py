"""What a store holds, and what it must have held: seen before a repair and after, it says the loss.

==============  ===================================================================================
part            what it must have held
==============  ===================================================================================
log             each number behind the segments and before its last entry; behind that, as many as
                the lengths in its damaged end add up to
segment         the bundles of its manifest; without that, the range in its footer; without that,
                the numbers between its neighbours
ack.log         a record in each frame
==============  ===================================================================================
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from quiver.acks.copies import CHECKPOINT_FILE_BYTES_MAX, read_copies
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE
from quiver.acks.opening import CHECKPOINT_NAME, LOG_BYTES_MAX, LOG_NAME
from quiver.acks.replay import read_log
from quiver.cli.inspect import listing, load_segments, open_wal
from quiver.config import HARD_LIMITS
from quiver.disk import Disk
from quiver.engine.beside import read_acks
from quiver.engine.core import core_folder, core_numbers, covered_place
from quiver.errors import DamageError, MissingError
from quiver.ipc import decode_stream
from quiver.segment import Catalog, SegmentInfo, SegmentReader, parse_segment_name
from quiver.subscriber.runs import RunSet
from quiver.wal.files import WalFile
from quiver.wal.format import (
    BUNDLE,
    BUNDLE_BYTES_MIN,
    CHECKPOINT,
    ENTRY_BYTES_MIN,
    ENTRY_OVERHEAD,
    HEADER_BYTES,
    Frame,
    Place,
    decode_bundle,
)
from quiver.wal.reader import Entry, Tail, begin_of, walk
from quiver.wal.truncate import read_sidecar

__all__ = ["CoreHoldings", "Gap", "RecordGap", "SegmentHoldings", "take_holdings"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers ``[first, first + count)`` that damage in the log took.

    Inexact means at most these; ``count`` is None if nobody knows how many.
    """

    path: str
    first: int
    count: int | None
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class RecordGap:
    """Records of subscribers that damage took; ``count`` is None if nobody knows how many."""

    path: str
    count: int | None
    byte_count: int


@dataclass(slots=True)
class SegmentHoldings:
    """The bundles of one segment by wal_seq, and by slot id where its tables can be read."""

    path: str
    bundles: RunSet
    is_exact: bool = True
    slots: dict[int, RunSet] | None = None
    rows: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class CoreHoldings:
    """One core. ``logged`` are bundles that are in the log alone, ``rows`` those of suspects."""

    core: int
    log_path: str
    segments: dict[int, SegmentHoldings] = field(default_factory=dict)
    logged: RunSet = field(default_factory=RunSet)
    undecodable: dict[int, dict[int, int]] = field(default_factory=dict)
    """Rows by slot id of each bundle in the log that no one can decode."""
    gaps: list[Gap] = field(default_factory=list)
    record_gaps: list[RecordGap] = field(default_factory=list)

    def whole(self) -> RunSet:
        """Give the bundles of which nothing is missing."""
        found = RunSet(self.logged.runs())
        for segment in self.segments.values():
            for first, count in segment.bundles.runs():
                found.add(first, count)
        return found


def take_holdings(disk: Disk, suspects: Collection[str]) -> list[CoreHoldings]:
    """Take the holdings of each core; only files in ``suspects`` are looked at bundle by bundle."""
    return [_take_core(disk, core, suspects) for core in core_numbers(disk)]


def _take_core(disk: Disk, core: int, suspects: Collection[str]) -> CoreHoldings:
    folder = core_folder(core)
    found = CoreHoldings(core, disk.locate(f"{folder}/wal"))
    catalog, damaged = load_segments(disk, core)
    floor = read_acks(disk, core, {i.segment_seq: i.bundle_count for i in catalog}).floor
    covered = floor.next_wal_seq - 1
    if catalog.covered_wal_seq is not None:
        covered = max(covered, catalog.covered_wal_seq)
    for info in catalog:
        found.segments[info.segment_seq] = _take_segment(disk, info, suspects)
    for path, _ in damaged:
        seq = parse_segment_name(path.rsplit("/", 1)[-1]) or 0
        found.segments[seq] = _infer(disk.locate(path), seq, catalog, covered=covered)
    _take_log(disk, found, catalog, covered=covered, suspects=suspects)
    found.record_gaps = list(_record_gaps(disk, f"{folder}/acks"))
    return found


# segments --------------------------------------------------------------------------------------


def _take_segment(disk: Disk, info: SegmentInfo, suspects: Collection[str]) -> SegmentHoldings:
    first, last = info.wal_seq_first or 0, info.wal_seq_last or 0
    place = disk.locate(info.path)
    range_count = last - first + 1 if info.wal_seq_first is not None else 0
    found = SegmentHoldings(place, RunSet([(first, range_count)]))
    if place not in suspects and info.bundle_count == range_count:
        return found
    try:
        with SegmentReader.open(disk, info.path) as reader:
            _read_tables(found, reader)
    except (DamageError, MissingError):
        found.is_exact = info.bundle_count == range_count
    return found


def _read_tables(found: SegmentHoldings, reader: SegmentReader) -> None:
    """Take the bundles one by one; those that an earlier repair marked are no longer whole."""
    bundles = RunSet()
    slots: dict[int, RunSet] = {}
    for index in range(reader.bundle_count):
        entry = reader.bundle_entry(index)
        if entry.wal_seq is None:
            return
        if index not in reader.lost:
            bundles.add(entry.wal_seq)
        for ref in entry.refs:
            slots.setdefault(ref.slot_id, RunSet()).add(entry.wal_seq)
    found.bundles, found.slots = bundles, slots
    for stream in reader.streams:
        found.rows[stream.slot_id] = found.rows.get(stream.slot_id, 0) + stream.row_count


def _infer(path: str, seq: int, catalog: Catalog, *, covered: int) -> SegmentHoldings:
    """Find what a segment held whose end is gone, from the segments before and behind it."""
    before = [i for i in catalog if i.segment_seq < seq and i.wal_seq_last is not None]
    behind = [i for i in catalog if i.segment_seq > seq and i.wal_seq_first is not None]
    first = (before[-1].wal_seq_last or 0) + 1 if before else 0
    last = (behind[0].wal_seq_first or 0) - 1 if behind else covered
    is_exact = seq == 0 if not before else before[-1].segment_seq == seq - 1
    is_exact &= not behind or behind[0].segment_seq == seq + 1
    return SegmentHoldings(path, RunSet([(first, last - first + 1)]), is_exact)


# log -------------------------------------------------------------------------------------------


def _take_log(
    disk: Disk, found: CoreHoldings, catalog: Catalog, *, covered: int, suspects: Collection[str]
) -> None:
    last, newest = covered, covered_place(catalog)
    regions = _Regions(newest)
    with open_wal(disk, found.core, newest=newest) as files:
        for wal_file in files:
            place = disk.locate(wal_file.file.path)
            for frame in _frames(disk, wal_file, regions):
                is_bundle = frame.entry_type == BUNDLE
                before = frame.wal_seq - is_bundle  # A checkpoint tells the last number before it.
                if before > last:
                    found.gaps += regions.take(place, last + 1, most=before - last)
                regions.clear()
                last = max(last, frame.wal_seq)
                if not is_bundle or frame.wal_seq <= covered:
                    continue
                found.logged.add(frame.wal_seq)
                rows = _undecodable(frame) if place in suspects else None
                if rows is not None:
                    found.undecodable[frame.wal_seq] = rows
            if wal_file.is_active and wal_file.file.size() < HEADER_BYTES:
                regions.forget(place)
        if not files and covered >= 0:
            regions.forget(found.log_path)
        found.gaps += regions.take(found.log_path, last + 1, most=None)


def _frames(disk: Disk, wal_file: WalFile, regions: _Regions) -> Iterator[Frame]:
    """Go through the good entries of a file, and keep the damaged regions between them."""
    place = disk.locate(wal_file.file.path)
    sidecar, _ = read_sidecar(disk, posixpath.dirname(wal_file.file.path))
    items = walk(
        wal_file.file,
        begin_of(wal_file.file, wal_file.generation, sidecar),
        entry_bytes_max=HARD_LIMITS.entry_bytes,
        is_active=wal_file.is_active,
        generation=wal_file.generation,
    )
    for item in items:
        if isinstance(item, Entry):
            if item.frame.entry_type in (BUNDLE, CHECKPOINT):
                yield item.frame
        elif item.error is not None and not (isinstance(item, Tail) and item.is_torn):
            regions.add(place, wal_file, item.offset, end=item.end)


class _Regions:
    """Damaged regions since the last good entry: how many entries were in them.

    What is before ``newest`` is of no account: segments hold what was there.
    """

    def __init__(self, newest: Place | None) -> None:
        self._newest = newest
        self.clear()

    def clear(self) -> None:
        self._path = ""
        self._bytes = self._room = 0
        self._count: int | None = 0
        self._is_gone = False

    def forget(self, path: str) -> None:
        """Note that a whole file is gone, and nobody knows what was in it."""
        self._path, self._is_gone = self._path or path, True

    def add(self, path: str, wal_file: WalFile, start: int, *, end: int) -> None:
        """Count the entries in ``[start, end)`` by their lengths, if these add up to it."""
        if self._newest is not None and Place(wal_file.generation, end) <= self._newest:
            return
        self._path, self._bytes = self._path or path, self._bytes + end - start
        self._room += max(1, (end - start) // BUNDLE_BYTES_MIN)
        offset, count = start, 0
        while offset < end:
            length = int.from_bytes(wal_file.file.read(offset, 4), "little") + ENTRY_OVERHEAD
            if length < ENTRY_BYTES_MIN:
                break
            offset += length
            count += length >= BUNDLE_BYTES_MIN  # A checkpoint is smaller than any bundle.
        known = self._count is not None and offset == end
        self._count = (self._count or 0) + count if known else None

    def take(self, place: str, first: int, *, most: int | None) -> list[Gap]:
        """Give what is missing from ``first`` on; ``most`` is up to the next number that is there.

        A log with a damaged end once went on behind all numbers that could have been in it.
        """
        count, room = self._count, self._room
        if self._is_gone:
            return [Gap(self._path, first, None, is_exact=False)]
        if not self._bytes:
            return [Gap(place, first, most)] if most else []
        if most is None:
            most = room if count is None else count
            return [Gap(self._path, first, most, is_exact=count is not None)] if most else []
        if count is not None and most in (count, room):
            return [Gap(self._path, first, count)] if count else []
        # Numbers have no holes: a jump beyond what the region can have held is loss as well.
        return [Gap(self._path, first, most, is_exact=most < room)]


def _undecodable(frame: Frame) -> dict[int, int] | None:
    """Give the rows by slot id of a bundle that recovery cannot decode; None if it can."""
    bundle = decode_bundle(frame)
    try:
        for payload in bundle.payloads:
            decode_stream(payload.data, rows=payload.row_count)
    except DamageError:
        return {payload.slot_id: payload.row_count for payload in bundle.payloads}
    return None


# acks ------------------------------------------------------------------------------------------


def _record_gaps(disk: Disk, folder: str) -> Iterator[RecordGap]:
    log, checkpoint = f"{folder}/{LOG_NAME}", f"{folder}/{CHECKPOINT_NAME}"
    log_data = _read(disk, log, LOG_BYTES_MAX)
    checkpoint_data = _read(disk, checkpoint, CHECKPOINT_FILE_BYTES_MAX)
    content = read_log(log_data or b"")
    known = None if checkpoint_data is None else read_copies(checkpoint_data)[0]
    if checkpoint_data is not None and known is None:
        yield RecordGap(disk.locate(checkpoint), None, len(checkpoint_data))
    missing = (content.base_seq or 0) - 1 - (known.record_seq if known else 0)
    if missing > 0 and checkpoint_data is None:
        yield RecordGap(disk.locate(checkpoint), missing, 0)
    if log_data is None:
        if listing(disk, folder) or listing(disk, folder.replace("/acks", "/segments")):
            yield RecordGap(disk.locate(log), None, 0)
        return
    end = len(log_data) if content.faults else content.end
    lost = end - HEADER_SIZE - sum(stop - start for start, stop in content.kept)
    if lost > 0:
        yield RecordGap(disk.locate(log), -(-lost // FRAME_SIZE), lost)


def _read(disk: Disk, path: str, bytes_max: int) -> bytes | None:
    if disk.stat(path) is None:
        return None
    with closing(disk.open(path)) as file:
        return file.read(0, bytes_max)
