"""A segment file: any bytes are read to the last value, or refused with a named error.

::

    flags u8 | a segment file
"""

from __future__ import annotations

import contextlib
import struct
import zlib

import pyarrow as pa
from crc32c import crc32c

from quiver.config import LimitsConfig
from quiver.errors import DamageError, VersionError
from quiver.ipc import encode_stream
from quiver.segment.format import (
    EXTENSION,
    EXTENSION_BYTES,
    FOOTER,
    FOOTER_V1_BYTES,
    TRAILER,
    TRAILER_BYTES,
    decode_footer,
    decode_trailer,
    encode_tail,
)
from quiver.segment.reader import SegmentReader
from quiver.testing import MemoryDisk

REPAIR = 1
LIMITS = LimitsConfig(rows=100_000, columns=200, decoded_bytes=1 << 20)
BUNDLES_MAX = 100
PATH = "0000000000000042.qseg"


def one_input(data: bytes) -> None:
    if not data:
        return
    body = data[1:]
    if data[0] & REPAIR:
        body = repaired(body)
    check_tail(body)
    check_file(body)


def footer_start(data: bytes) -> int | None:
    """Find the footer where the trailer says it is."""
    end = len(data) - TRAILER_BYTES
    if end < FOOTER_V1_BYTES:
        return None
    start = end - TRAILER.unpack_from(data, end)[0]
    return start if 0 <= start <= end - FOOTER_V1_BYTES else None


def repaired(data: bytes) -> bytes:
    """Give both tables, the footer and the whole file their checksums, as far as they are found."""
    start = footer_start(data)
    if start is None:
        return data
    fixed = bytearray(data)
    end = len(data) - TRAILER_BYTES
    if end - start >= FOOTER_V1_BYTES + EXTENSION_BYTES:
        *_, directory, directory_bytes, manifest, manifest_bytes = FOOTER.unpack_from(data, start)
        tables = ((directory, directory_bytes), (manifest, manifest_bytes))
        sums = [crc32c(data[offset : offset + length]) for offset, length in tables]
        struct.pack_into("<II", fixed, start + FOOTER_V1_BYTES + EXTENSION.size - 8, *sums)
        struct.pack_into("<I", fixed, end - 4, crc32c(bytes(fixed[start : end - 4])))
    struct.pack_into("<I", fixed, len(fixed) - 4, zlib.crc32(fixed[:-4]))
    return bytes(fixed)


def check_tail(data: bytes) -> None:
    """A footer that is read is written as the same bytes, if there is nothing unknown in it."""
    end = max(0, len(data) - TRAILER_BYTES)
    try:
        trailer = decode_trailer(data[end:], file_bytes=len(data))
        start = end - trailer.footer_length
        footer = decode_footer(data[start:end], offset=start)
    except (DamageError, VersionError):
        return
    known = FOOTER_V1_BYTES + (EXTENSION_BYTES if footer.extension else 0)
    if trailer.footer_length == known:
        assert encode_tail(footer, 0)[:known] == data[start:end]
        assert encode_tail(footer, zlib.crc32(data[:start]))[:-4] == data[start:-4]


def check_file(data: bytes) -> None:
    disk = MemoryDisk()
    file = disk.create(PATH)
    file.write(0, data)
    file.close()
    try:
        reader = SegmentReader.open(disk, PATH, limits=LIMITS)
    except (DamageError, VersionError) as error:
        check_place(error)
        return
    with contextlib.suppress(DamageError):
        reader.verify()
        assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    with contextlib.suppress(DamageError, VersionError):
        reader.representative_schemas()
    for index in range(min(reader.bundle_count, BUNDLES_MAX)):
        entry = reader.bundle_entry(index)
        try:
            batches = reader.bundle(index)
        except DamageError as error:
            check_place(error)
            continue
        assert sorted(ref.slot_id for ref in entry.refs) == list(batches)
        for batch in batches.values():
            use(batch)


def check_place(error: DamageError | VersionError) -> None:
    """Whoever reads of damage must learn where it is."""
    assert isinstance(error, VersionError) or error.path.endswith(PATH)


def use(batch: pa.RecordBatch) -> None:
    """Read all values of what passed: it must neither kill the process nor turn out unsound."""
    assert batch.num_rows <= LIMITS.rows
    encode_stream(batch)
    for column in batch.columns:
        str(column)
