"""A folder of the Rust Quiver: any bytes in its files are read, or refused with a named error.

::

    flags u8 | log_bytes u32 | cursor_bytes u16 | log | cursor | progress
"""

from __future__ import annotations

import contextlib
import itertools
import struct
import zlib

from quiver.errors import DamageError, VersionError
from quiver.testing import MemoryDisk
from quiver.upstream import UpstreamLog, find
from quiver.upstream.format import (
    ENTRY_OVERHEAD,
    HEADER_BYTES,
    LENGTH,
    decode_cursor,
    decode_header,
    decode_progress,
)

REPAIR, ROTATED, NO_CURSOR = 1, 2, 4
INPUT = struct.Struct("<BIH")
CRC = struct.Struct("<I")


def one_input(data: bytes) -> None:
    if len(data) < INPUT.size:
        return
    flags, log_bytes, cursor_bytes = INPUT.unpack_from(data)
    rest = data[INPUT.size :]
    log, cursor = rest[:log_bytes], rest[log_bytes:][:cursor_bytes]
    progress = rest[log_bytes:][cursor_bytes:]
    if flags & REPAIR:
        log, cursor, progress = repaired(log), sealed(cursor), sealed(progress)
    check_cursor(cursor)
    check_progress(progress)
    files = {"wal/quiver.wal": log, "quiver.sub.a": progress}
    if flags & ROTATED:
        half = len(log) // 2
        files |= {"wal/quiver.wal.1": log[:half], "wal/quiver.wal": log[half:]}
    if not flags & NO_CURSOR:
        files["wal/quiver.wal.cursor"] = cursor
    check_folder(files)


def sealed(data: bytes) -> bytes:
    """Make the last 4 bytes the checksum of those before them."""
    return data[:-4] + CRC.pack(zlib.crc32(data[:-4])) if len(data) >= CRC.size else data


def repaired(data: bytes) -> bytes:
    """Give each entry that its length leads to its checksum."""
    fixed = bytearray(data)
    offset = HEADER_BYTES
    while offset + ENTRY_OVERHEAD <= len(data):
        end = offset + ENTRY_OVERHEAD + LENGTH.unpack_from(data, offset)[0]
        if end > len(data):
            break
        body = data[offset + LENGTH.size : end - CRC.size]
        CRC.pack_into(fixed, end - CRC.size, zlib.crc32(body))
        offset = end
    return bytes(fixed)


def check_cursor(data: bytes) -> None:
    with contextlib.suppress(DamageError):
        assert decode_cursor(data) == int.from_bytes(data[12:20], "little")


def check_progress(data: bytes) -> None:
    """Runs are apart and ascend, and all of them together are the bits that are set."""
    try:
        progress = decode_progress(data)
    except (DamageError, VersionError):
        return
    for segment in progress.segments:
        end = -1
        for first, count in segment.runs:
            assert first > end
            assert count > 0
            end = first + count
        assert end <= segment.bundle_count


def check_folder(files: dict[str, bytes]) -> None:
    """Nothing but a newer version is raised, all damage is located, and nothing is changed."""
    disk = MemoryDisk()
    disk.make_dir("wal")
    for name, data in files.items():
        file = disk.create(name)
        file.write(0, data)
        file.close()
    before = disk.tree.digest()
    folder = find(disk)
    assert folder is not None
    with contextlib.suppress(VersionError):
        for subscriber in folder.cores[0].subscribers():
            assert (subscriber.progress is None) == (subscriber.damage is not None)
    try:
        log = folder.cores[0].log()
    except VersionError:
        heads = [data[:HEADER_BYTES] for name, data in files.items() if name.startswith("wal/q")]
        assert any(is_newer(head) for head in heads)
        return
    check_log(log, files)
    assert disk.tree.digest() == before


def is_newer(head: bytes) -> bool:
    try:
        decode_header(head)
    except VersionError:
        return True
    except DamageError:
        return False
    return False


def check_log(log: UpstreamLog, files: dict[str, bytes]) -> None:
    """Bundles and what was skipped lie apart, in order, and bundles come out the same again."""
    for error in [*log.damage, *filter(None, [log.torn])]:
        assert error.path.startswith("memory:/wal/quiver.wal")
    bundles = list(log.bundles())
    assert [tuple(b[:3]) for b in log.bundles()] == [tuple(b[:3]) for b in bundles]
    taken = sorted([*(b[:3] for b in bundles), *(bad[:3] for bad in log.bad)])
    for (path, _, end), (next_path, start, _) in itertools.pairwise(taken):
        assert path != next_path or end <= start
    for path, _, end, bundle in bundles:
        assert end <= len(files[path])
        assert bundle.ingestion_ns >= 0
        slots = [payload.slot_id for payload in bundle.payloads]
        assert slots == sorted(set(slots))
        assert all(0 <= slot < 64 for slot in slots)
