r"""The end of a segment file, and its name: pure bytes, without Arrow and without a disk.

::

    stream 0 | pad | stream 1 | pad | ... | directory | manifest | index | footer | trailer
    ^ 64-byte boundaries                                                  34 + 92    16

Between index and footer there may be the progress of sources; the footer is 20 bytes longer then.

The footer is found from the end of the file: the trailer's first field is its length. Its first 34
bytes are version 1 of the ``.qseg`` format; what follows is an extension that readers of version
1 skip, because they accept a longer footer. A footer of exactly 34 bytes has no extension.
``FORMAT.md`` describes all of it.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple

import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.payload import SEQ_MAX

__all__ = [
    "ALIGNMENT",
    "BUNDLES_MAX",
    "CHECKSUM",
    "CHUNKS_MAX",
    "EXTENSION",
    "EXTENSION_BYTES",
    "EXTENSION_MAGIC",
    "FOOTER",
    "FOOTER_BYTES_MAX",
    "FOOTER_V1_BYTES",
    "INDEX",
    "LENGTH_MAX",
    "MAGIC",
    "PROGRESS",
    "STREAMS_MAX",
    "SUFFIX",
    "TRAILER",
    "TRAILER_BYTES",
    "VERSION",
    "Extension",
    "Footer",
    "Trailer",
    "decode_footer",
    "decode_trailer",
    "encode_tail",
    "parse_segment_name",
    "segment_name",
]

VERSION: Final = 1
MAGIC: Final = b"QUIVER\0S"
EXTENSION_MAGIC: Final = b"QVX1"
SUFFIX: Final = ".qseg"
ALIGNMENT: Final = 64

STREAMS_MAX: Final = 100_000
BUNDLES_MAX: Final = 10_000_000
CHUNKS_MAX: Final = 10_000_000
LENGTH_MAX: Final = 0xFFFF_FFFF
"""Directory and manifest say their lengths in a u32."""
FOOTER_BYTES_MAX: Final = 1 << 16
"""Longer footers are refused before anything of that length is read."""

FOOTER: Final = struct.Struct("<HIIQIQI")
EXTENSION: Final = struct.Struct("<4sQQQQQqqII")
INDEX: Final = struct.Struct("<QQI")
PROGRESS: Final = struct.Struct("<QQI")
CHECKSUM: Final = struct.Struct("<I")
TRAILER: Final = struct.Struct("<I8sI")

FOOTER_V1_BYTES: Final = FOOTER.size
EXTENSION_BYTES: Final = EXTENSION.size + CHECKSUM.size
TRAILER_BYTES: Final = TRAILER.size

_DIGITS: Final = 16
_SEQ_MAX: Final = 10**_DIGITS - 1


@dataclass(frozen=True, slots=True)
class Extension:
    """What a footer of ours says beyond version 1: which part of the log the segment covers.

    ``wal_generation`` and ``wal_offset`` name the place right behind the last entry covered. The
    two checksums let a reader believe both tables without reading the streams. An index of length
    0 is none, as in the segments of the first releases; progress of length 0 is none either.
    """

    segment_seq: int
    wal_seq_first: int
    wal_seq_last: int
    wal_generation: int
    wal_offset: int
    ingestion_ns_min: int
    ingestion_ns_max: int
    directory_crc32c: int
    manifest_crc32c: int
    index_offset: int = 0
    index_length: int = 0
    index_crc32c: int = 0
    progress_offset: int = 0
    progress_length: int = 0
    progress_crc32c: int = 0


@dataclass(frozen=True, slots=True)
class Footer:
    """Where the two tables are and how many rows they have; offsets count from the file's start."""

    stream_count: int
    bundle_count: int
    directory_offset: int
    directory_length: int
    manifest_offset: int
    manifest_length: int
    extension: Extension | None = None


class Trailer(NamedTuple):
    """The last 16 bytes: how long the footer before them is, and the CRC-32 of the whole file."""

    footer_length: int
    crc32: int


def encode_tail(footer: Footer, crc_of_everything_before: int) -> bytes:
    """Write footer and trailer, given the CRC-32 of all bytes of the file before them."""
    body = FOOTER.pack(
        VERSION,
        footer.stream_count,
        footer.bundle_count,
        footer.directory_offset,
        footer.directory_length,
        footer.manifest_offset,
        footer.manifest_length,
    )
    extra = footer.extension
    if extra is not None:
        body += EXTENSION.pack(
            EXTENSION_MAGIC,
            extra.segment_seq,
            extra.wal_seq_first,
            extra.wal_seq_last,
            extra.wal_generation,
            extra.wal_offset,
            extra.ingestion_ns_min,
            extra.ingestion_ns_max,
            extra.directory_crc32c,
            extra.manifest_crc32c,
        )
        if extra.index_length or extra.progress_length:
            body += INDEX.pack(extra.index_offset, extra.index_length, extra.index_crc32c)
        if extra.progress_length:
            body += PROGRESS.pack(
                extra.progress_offset, extra.progress_length, extra.progress_crc32c
            )
        body += CHECKSUM.pack(crc32c.crc32c(body))
    unsealed = body + TRAILER.pack(len(body), MAGIC, 0)[: -CHECKSUM.size]
    return unsealed + CHECKSUM.pack(zlib.crc32(unsealed, crc_of_everything_before))


def decode_trailer(data: bytes | memoryview, *, file_bytes: int) -> Trailer:
    """Read the last 16 bytes of a file of ``file_bytes``; errors count from the file's start.

    Raises TornEntry if the file is too short for any segment, DamagedEntry if it is none or if
    the footer cannot be as long as it says.
    """
    if file_bytes < FOOTER_V1_BYTES + TRAILER_BYTES or len(data) < TRAILER_BYTES:
        raise TornEntry(
            "a segment is shorter than its footer and trailer",
            expected=f"at least {FOOTER_V1_BYTES + TRAILER_BYTES} bytes",
            found=file_bytes,
        )
    start = file_bytes - TRAILER_BYTES
    footer_length, magic, checksum = TRAILER.unpack_from(data)
    if magic != MAGIC:
        raise DamagedEntry(
            "a segment does not end with its magic",
            offset=start + CHECKSUM.size,
            expected=MAGIC,
            found=magic,
        )
    longest = min(start, FOOTER_BYTES_MAX)
    if not FOOTER_V1_BYTES <= footer_length <= longest:
        raise DamagedEntry(
            "a segment's footer has an impossible length",
            offset=start,
            expected=f"{FOOTER_V1_BYTES}..{longest}",
            found=footer_length,
        )
    return Trailer(footer_length, checksum)


def decode_footer(data: bytes | memoryview, *, offset: int) -> Footer:
    """Read a whole footer that starts at byte ``offset`` of its file; errors count from there.

    Raises VersionError for another version than 1, DamagedEntry if the extension's checksum is
    wrong, a count is above its limit, or a table lies outside ``[0, offset)`` or on the other one.
    """
    if len(data) < FOOTER_V1_BYTES:
        raise TornEntry("a footer ends early", expected=FOOTER_V1_BYTES, found=len(data))
    extension = _decode_extension(data)
    version, streams, bundles, *regions = FOOTER.unpack_from(data)
    directory, manifest = (regions[0], regions[1]), (regions[2], regions[3])
    if version != VERSION:
        raise VersionError(
            f"segment format version {version} is not known, only {VERSION}",
            hint="read it with the release of Quiver that wrote it, or a later one",
        )
    footer = Footer(streams, bundles, *directory, *manifest, extension=extension)
    _check_counts(footer)
    _check_region("directory", directory, offset)
    _check_region("manifest", manifest, offset)
    regions = [(directory, "directory"), (manifest, "manifest")]
    if extension is not None:
        for name, start, length in (
            ("index", extension.index_offset, extension.index_length),
            ("progress", extension.progress_offset, extension.progress_length),
        ):
            if length:
                regions.append(((start, length), name))
                _check_region(name, (start, length), offset)
    regions.sort()
    for (first, name), (second, other) in itertools.pairwise(regions):
        if sum(first) > second[0]:
            raise DamagedEntry(
                f"{name} and {other} overlap",
                expected=f"the second from {sum(first)}",
                found=second[0],
            )
    return footer


def _decode_extension(data: bytes | memoryview) -> Extension | None:
    """Read what follows the first 34 bytes; None if it is not ours.

    A flipped bit in the extension's magic makes the footer look like another writer's; those are
    believed only after the CRC-32 of the whole file, so that the flip is found all the same.
    """
    rest = data[FOOTER_V1_BYTES:]
    if bytes(rest[: len(EXTENSION_MAGIC)]) != EXTENSION_MAGIC:
        return None
    if len(rest) < EXTENSION_BYTES:
        raise TornEntry(
            "a footer's extension ends early",
            offset=FOOTER_V1_BYTES,
            expected=EXTENSION_BYTES,
            found=len(rest),
        )
    place = len(data) - CHECKSUM.size
    (expected,) = CHECKSUM.unpack_from(data, place)
    found = crc32c.crc32c(bytes(data[:place]))
    if expected != found:
        raise DamagedEntry(
            "a footer's checksum is wrong", expected=f"{expected:#010x}", found=f"{found:#010x}"
        )
    more: list[int] = []
    at = EXTENSION.size
    for layout in (INDEX, PROGRESS):
        if len(rest) >= at + layout.size + CHECKSUM.size:
            more += layout.unpack_from(rest, at)
            at += layout.size
    extension = Extension(*(*EXTENSION.unpack_from(rest)[1:], *more))
    if extension.wal_seq_last > SEQ_MAX:
        raise DamagedEntry(
            "a footer names a bundle beyond all numbers",
            offset=FOOTER_V1_BYTES,
            expected=f"at most {SEQ_MAX}",
            found=extension.wal_seq_last,
        )
    for what, low, high in (
        ("log sequences", extension.wal_seq_first, extension.wal_seq_last),
        ("ingestion times", extension.ingestion_ns_min, extension.ingestion_ns_max),
    ):
        if low > high:
            raise DamagedEntry(
                f"a footer's {what} run backwards",
                offset=FOOTER_V1_BYTES,
                expected=f"at least {low}",
                found=high,
            )
    return extension


def _check_counts(footer: Footer) -> None:
    for what, count, limit in (
        ("streams", footer.stream_count, STREAMS_MAX),
        ("bundles", footer.bundle_count, BUNDLES_MAX),
    ):
        if count > limit:
            raise DamagedEntry(
                f"a segment has too many {what}", expected=f"at most {limit}", found=count
            )


def _check_region(what: str, region: tuple[int, int], end: int) -> None:
    start, length = region
    if length == 0 or start + length > end:
        raise DamagedEntry(
            f"the {what} lies outside its file",
            expected=f"within 0..{end}",
            found=f"{start}..{start + length}",
        )


def segment_name(segment_seq: int) -> str:
    """Name the file of a segment: 16 digits, so that names sort as numbers do."""
    if not 0 <= segment_seq <= _SEQ_MAX:
        raise InputError(f"segment number {segment_seq} is not within 0..{_SEQ_MAX}")
    return f"{segment_seq:0{_DIGITS}d}{SUFFIX}"


def parse_segment_name(name: str) -> int | None:
    """Read the number out of a segment's file name; None if it is the name of something else."""
    digits = name.removesuffix(SUFFIX)
    if name == digits or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)
