"""Make damaged segments sound: what can be read stays in its place, and nothing else goes.

====================================  ==========================================================
what is damaged                       what becomes of it
====================================  ==========================================================
bytes that nobody reads, a checksum   the file is written anew, with everything in it
a stream                              the file is written anew: what the log still has comes from
                                      there, the rest is left out and its bundles are marked
directory or manifest                 the file is made again of what the log still has
none of that is left                  its bundles are to be written off, and the file deleted
====================================  ==========================================================

The damaged file is in quarantine before. Bundles keep their places, so outcomes still fit, and
streams their compression, as far as the file still says which. All this is done before the core is
opened, for an opening gives back what segments seem to hold.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from crc32c import crc32c

from quiver.config import HARD_LIMITS, Config
from quiver.disk import Disk, File, copy_range
from quiver.engine.core import core_folder
from quiver.engine.progress import progress_of
from quiver.errors import DamageError, VersionError
from quiver.ipc import decode_stream, encode_stream
from quiver.manifest import StoreManifest
from quiver.payload import EncodedBundle, Payload
from quiver.progress.format import TABLE_BYTES_MAX, decode_table
from quiver.segment import (
    Catalog,
    SegmentInfo,
    SegmentLabel,
    SegmentReader,
    read_noted,
    write_segment,
)
from quiver.wal import ACTIVE_NAME
from quiver.wal.format import BUNDLE, HEADER_BYTES, decode_bundle, decode_header
from quiver.wal.reader import Entry, walk

__all__ = ["Mended", "logged_bundles", "mend_segments"]


@dataclass(slots=True)
class Mended:
    """The first damage of each segment that had any, and the segments of which nothing is left."""

    damage: list[DamageError] = field(default_factory=list)
    hopeless: list[int] = field(default_factory=list)


def mend_segments(disk: Disk, number: int, manifest: StoreManifest, *, config: Config) -> Mended:
    """Read every segment of a core that nobody has open, and mend those that are damaged.

    Those whose end is gone are left to recovery. Another writer's file is only reported, because
    it does not say which bundles it held.
    """
    found = Mended()
    folder = f"{core_folder(number)}/segments"
    if disk.stat(folder) is None:
        return found
    for info in Catalog.load(disk, folder)[0]:
        try:
            with SegmentReader.open(disk, info.path, limits=config.limits.for_reading()) as reader:
                reader.verify()
        except DamageError as error:
            found.damage.append(error)
            if info.wal_seq_first is not None:
                _set_aside(disk, number, info.path, error=error)
                if not _mend(disk, number, manifest, info=info, config=config):
                    found.hopeless.append(info.segment_seq)
    return found


def _set_aside(disk: Disk, number: int, path: str, *, error: DamageError) -> None:
    """Copy the file to quarantine under a name that no other content of it has."""
    file = disk.open(path)
    try:
        name = f"{posixpath.basename(path)}.{crc32c(disk.map(path)):08x}"
        folder = f"{core_folder(number)}/quarantine"
        copy_range(disk, folder, name, file=file, offset=0, end=file.size(), error=error)
    finally:
        file.close()


def _mend(
    disk: Disk, number: int, manifest: StoreManifest, *, info: SegmentInfo, config: Config
) -> bool:
    """Write a segment anew; False if nothing of it is left."""
    slots, how = manifest.slots, config.segment
    try:
        with SegmentReader.open(disk, info.path, limits=config.limits.for_reading()) as reader:
            slots = reader.slots or slots
            how = replace(how, compression=reader.compression or how.compression)
            bundles, lost = _read(reader)
    except DamageError:
        # Told by whoever called: one of its tables. Its footer still says which bundles it had.
        first, last = info.wal_seq_first or 0, info.wal_seq_last or 0
        if last - first + 1 != info.bundle_count:
            return False
        bundles = [
            EncodedBundle(seq, info.ingestion_ns_min or 0, ()) for seq in range(first, last + 1)
        ]
        lost = dict.fromkeys(range(len(bundles)), ())
    wanted = {bundles[index].wal_seq: index for index in lost}
    digest = manifest.layout_digest
    for seq, bundle in logged_bundles(disk, number, wanted, slots=slots, digest=digest).items():
        bundles[wanted[seq]] = bundle
        del lost[wanted[seq]]
    if not any(bundle.payloads for bundle in bundles):
        return False
    label = SegmentLabel(
        segment_seq=info.segment_seq,
        store_id=manifest.store_id,
        core=number,
        slots=slots,
        wal_generation=info.wal_generation or 0,
        wal_offset=info.wal_offset or 0,
    )
    folder = f"{core_folder(number)}/segments"
    progress = _progress(disk, info, bundles)
    write_segment(disk, folder, bundles, label=label, lost=lost, config=how, progress=progress)
    return True


def _progress(disk: Disk, info: SegmentInfo, bundles: Iterable[EncodedBundle]) -> bytes:
    """Take over how far sources were read with a segment, or what the log knows of that."""
    try:
        data = read_noted(disk, info, bytes_max=TABLE_BYTES_MAX)
        decode_table(data)
    except DamageError:
        return progress_of(bundles).encode()
    return data


def _read(reader: SegmentReader) -> tuple[list[EncodedBundle], dict[int, tuple[int, ...]]]:
    """Read every bundle as far as it can be read, and name the slots of each that cannot."""
    streams = {stream.stream_id: stream for stream in reader.streams}
    bundles = []
    lost = dict(reader.lost)
    for index in range(reader.bundle_count):
        entry = reader.bundle_entry(index)
        payloads = []
        for ref in sorted(entry.refs, key=lambda ref: ref.slot_id):
            try:
                batch = reader.chunk(ref.stream_id, ref.chunk_index)
            except DamageError:
                lost[index] = (*lost.get(index, ()), ref.slot_id)
                continue
            fingerprint = streams[ref.stream_id].fingerprint
            data = memoryview(encode_stream(batch))
            payloads.append(Payload(ref.slot_id, ref.slot_id, fingerprint, batch.num_rows, data))
        bundles.append(EncodedBundle(entry.wal_seq or 0, entry.ingestion_ns or 0, tuple(payloads)))
    return bundles, lost


def logged_bundles(
    disk: Disk, number: int, wanted: Mapping[int, int], *, slots: Container[int], digest: bytes
) -> dict[int, EncodedBundle]:
    """Find bundles that the log still has, sound."""
    found: dict[int, EncodedBundle] = {}
    folder = f"{core_folder(number)}/wal"
    for entry in disk.list_dir(folder) if disk.stat(folder) is not None and wanted else ():
        if not entry.is_file or not entry.name.startswith(ACTIVE_NAME):
            continue
        file = disk.open(f"{folder}/{entry.name}")
        try:
            if not _is_ours(file, digest):
                continue
            for item in walk(file, HEADER_BYTES, entry_bytes_max=HARD_LIMITS.entry_bytes):
                if not isinstance(item, Entry) or item.frame.entry_type != BUNDLE:
                    continue
                if item.frame.wal_seq in wanted:
                    bundle = decode_bundle(item.frame)
                    if _is_sound(bundle, slots):
                        found[bundle.wal_seq] = bundle
        finally:
            file.close()
    return found


def _is_ours(file: File, digest: bytes) -> bool:
    """Whether a log may be interpreted; one of another layout is refused by whoever replays it."""
    try:
        decode_header(file.read(0, HEADER_BYTES), digest)
    except VersionError:
        return False
    return True


def _is_sound(bundle: EncodedBundle, slots: Container[int]) -> bool:
    try:
        for payload in bundle.payloads:
            decode_stream(payload.data, rows=payload.row_count)
    except DamageError:
        return False
    return bool(bundle.payloads) and all(p.slot_id in slots for p in bundle.payloads)
