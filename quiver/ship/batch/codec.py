"""Whole batches: records to an object's bytes and back, with zstd where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from crc32c import crc32c

from quiver.disk import Bytes
from quiver.errors import CapacityError, DamagedEntry, InputError
from quiver.ship.batch.format import (
    FOOTER,
    STORED,
    ZSTD,
    Footer,
    decode_block,
    decode_footer,
    encode_block,
    encode_footer,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BLOCK_BYTES_MAX",
    "COMPRESSIONS",
    "RECORDS_MAX",
    "Compression",
    "EncodedBatch",
    "decode_batch",
    "encode_batch",
    "encode_parts",
    "sum_parts",
]

Compression: TypeAlias = Literal["none", "zstd"]
COMPRESSIONS: Final[tuple[Compression, ...]] = ("none", "zstd")
BLOCK_BYTES_MAX: Final = 1 << 30
"""How large a block may become when it is decompressed, unless the caller says otherwise."""
RECORDS_MAX: Final = 1 << 24
"""How many records a batch may have, likewise: an empty one takes 4 bytes there and 200 here."""

_LEVEL: Final = 3
_PIECE: Final = 1 << 20
_SMALL: Final = 1 << 15


class EncodedBatch(NamedTuple):
    """The bytes of one object, in parts as ``Bucket.put`` takes them."""

    parts: Sequence[Bytes]
    byte_count: int
    crc32c: int
    """Of all bytes of the object."""


def encode_batch(
    records: Sequence[bytes | bytearray | memoryview], *, compression: Compression = "none"
) -> EncodedBatch:
    """Encode records in their order; without compression no large one is copied."""
    parts = encode_parts(records, compression=compression)
    return EncodedBatch(parts, *sum_parts(parts))


def encode_parts(
    records: Sequence[bytes | bytearray | memoryview], *, compression: Compression = "none"
) -> Sequence[Bytes]:
    """Encode them without a look at their bytes, unless they are to be compressed."""
    if compression not in COMPRESSIONS:
        raise InputError(f"{compression!r} is no compression of a batch", hint="none or zstd")
    views = [record.cast("B") if isinstance(record, memoryview) else record for record in records]
    parts: list[Any] = list(encode_block(views))
    kind = STORED
    if compression == "zstd":
        import pyarrow as pa

        codec = pa.Codec("zstd", compression_level=_LEVEL)
        parts, kind = [codec.compress(b"".join(parts), asbytes=True)], ZSTD
    return _joined([*parts, encode_footer(Footer(kind, len(records)))])


def sum_parts(parts: Sequence[Bytes]) -> tuple[int, int]:
    """Count the bytes of an object, and give their CRC32C."""
    size = checksum = 0
    for part in parts:
        size += len(part)
        checksum = crc32c(part, checksum)
    return size, checksum


def _joined(parts: Sequence[Any]) -> list[Any]:
    """Join pieces that are small: to write each by itself takes far longer than to copy it."""
    joined: list[Any] = []
    small: list[Any] = []
    size = 0
    for part in parts:
        if len(part) > _SMALL:
            if small:
                joined.append(b"".join(small))
                small, size = [], 0
            joined.append(part)
            continue
        small.append(part)
        size += len(part)
        if size >= _PIECE:
            joined.append(b"".join(small))
            small, size = [], 0
    if small:
        joined.append(b"".join(small))
    return joined


def decode_batch(
    data: Bytes, *, block_bytes_max: int = BLOCK_BYTES_MAX, records_max: int = RECORDS_MAX
) -> list[memoryview]:
    """Give the records of a batch, as views of ``data`` where it is not compressed.

    Raises TornEntry, DamagedEntry, VersionError, and CapacityError for a block that is larger
    than ``block_bytes_max`` when it is decompressed, or has more than ``records_max`` records;
    nothing larger is ever held.
    """
    view = memoryview(data).cast("B")
    footer = decode_footer(view)
    if footer.record_count > records_max:
        raise CapacityError(
            f"a batch has {footer.record_count:,} records, the most is {records_max:,}",
            hint="allow more, or the batch is not what it should be",
        )
    block = view[: -FOOTER.size]
    if footer.compression == ZSTD:
        block = memoryview(_decompressed(block, block_bytes_max))
    return decode_block(block, footer.record_count)


def _decompressed(block: memoryview, bytes_max: int) -> bytes:
    import pyarrow as pa

    pieces: list[bytes] = []
    size = 0
    try:
        with pa.CompressedInputStream(_source(block), "zstd") as stream:
            while piece := stream.read(_PIECE):
                size += len(piece)
                if size > bytes_max:
                    break
                pieces.append(piece)
    except OSError as error:
        raise DamagedEntry(f"a batch cannot be decompressed: {error}") from error
    if size > bytes_max:
        raise CapacityError(
            f"a batch of {len(block):,} bytes has more than {bytes_max:,} when it is decompressed",
            hint="allow more, or the batch is not what it should be",
        )
    return b"".join(pieces)


def _source(block: memoryview) -> pa.BufferReader:
    import pyarrow as pa

    if not block:
        raise DamagedEntry("a compressed batch has no frame")
    return pa.BufferReader(pa.py_buffer(block))
