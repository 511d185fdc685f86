"""Arrow IPC files put together from messages that are there already: no batch is written twice.

A record batch's message does not say which schema it has, so that one written in a stream of its
own, or with the indices of its dictionaries as plain numbers, is as good in a file::

    "ARROW1" 0 0 | schema | dictionaries | batches ... | end | footer | length i32 | "ARROW1"

Everything but the batches is made here. The footer is the one that Arrow writes of an empty file,
behind a root table of our own with other lists of blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.config import Compression
from quiver.ipc import encode_file
from quiver.ipc_messages import batch_message, file_blocks, file_footer, footer_schema

__all__ = [
    "FIRST_BLOCK",
    "Messages",
    "build_file",
    "encode_messages",
    "file_pieces",
    "footer_around",
    "own_messages",
]

Piece: TypeAlias = bytes | memoryview
_Lengths: TypeAlias = npt.NDArray[np.int64]

_BLOCK: Final = np.dtype(
    [("offset", "<i8"), ("metadata", "<i4"), ("padding", "<i4"), ("body", "<i8")]
)
FIRST_BLOCK: Final = 40
"""Where the first block of a footer is that ``footer_around`` made."""
_SMALL_BYTES: Final = 1 << 14
"""Pieces below that cost more to go over than to copy."""
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"
_MAGIC: Final = b"ARROW1"
_LENGTH_AT: Final = 12
"""Where the length of the schema's message is: behind the magic, zeros and the continuation."""


class Messages(NamedTuple):
    """Messages of record batches, or of dictionaries: their bytes, and how long each of them is.

    ``pieces`` is one after the other; where one piece ends means nothing. ``lengths`` has a row for
    each message, of its metadata with all that is in front, and of its body.
    """

    pieces: Sequence[Piece]
    lengths: _Lengths


def encode_messages(
    table: pa.Table | Sequence[pa.RecordBatch], *, compression: Compression, body_bytes: int
) -> Messages:
    """Write the chunks of a table, all with rows and columns, or batches; without dictionaries."""
    schema = table.schema if isinstance(table, pa.Table) else table[0].schema
    data = memoryview(encode_file(schema, table, compression=compression, body_bytes=body_bytes))
    return _messages(data, file_blocks(data)[1].table)


def _messages(data: memoryview, table: memoryview) -> Messages:
    blocks = np.frombuffer(table, _BLOCK)
    lengths = np.stack([blocks["metadata"], blocks["body"]], axis=1).astype(np.int64)
    if not len(blocks):
        return Messages([], lengths)
    first = int(blocks["offset"][0])
    return Messages([data[first : first + int(lengths.sum())]], lengths)


def own_messages(payloads: Sequence[memoryview]) -> Messages | None:
    """Find the batches' messages in streams of one batch each; small ones are copied together.

    None if one of the streams is not just a schema, an uncompressed batch, and the end.
    """
    pieces, lengths = [], []
    for data in payloads:
        found = batch_message(data)
        if found is None:
            return None
        start, metadata_bytes, body_bytes = found
        pieces.append(data[start : start + metadata_bytes + body_bytes])
        lengths.append((metadata_bytes, body_bytes))
    if sum(map(len, pieces)) < _SMALL_BYTES * len(pieces):
        pieces = [memoryview(b"".join(pieces))]
    return Messages(pieces, np.array(lengths, np.int64).reshape(-1, 2))


def build_file(
    schema: pa.Schema,
    words: Sequence[Any],
    messages: Sequence[Messages],
    *,
    compression: Compression = "none",
    align: int = 8,
) -> list[Piece]:
    """Make an IPC file of batches whose messages are there; its pieces, which view them.

    ``words`` has, for each column with a dictionary, an empty array with the one of all batches;
    there are none anywhere else in the schema. The first batch is at a multiple of ``align``, which
    is one of 8 itself. Last of the pieces is the one behind all messages.
    """
    return list(_pieces(schema, messages, _dictionaries(words, compression), align=align))


def file_pieces(schema: pa.Schema, messages: Iterable[Messages]) -> Iterator[Piece]:
    """Give the pieces of such a file of a schema without dictionaries, message by message.

    The next messages are asked for when the pieces of those before were taken.
    """
    return _pieces(schema, messages, _dictionaries((), "none"), align=8)


def _pieces(
    schema: pa.Schema, messages: Iterable[Messages], dictionaries: Messages, *, align: int
) -> Iterator[Piece]:
    template = memoryview(encode_file(schema, [], body_bytes=0))
    start, end = file_footer(template)
    behind = start - len(_END) + int(dictionaries.lengths.sum())
    head = _padded(template[: start - len(_END)], -behind % align)
    yield head
    yield from dictionaries.pieces
    found = [np.empty((0, 2), np.int64)]
    for some in messages:
        yield from some.pieces
        found.append(some.lengths)
    lengths = np.concatenate(found)
    behind = len(head) + int(dictionaries.lengths.sum())
    blocks = _blocks(dictionaries.lengths, len(head)), _blocks(lengths, behind)
    footer = _footer(template[start : end - len(_MAGIC) - 4], *blocks)
    yield _END + footer + struct.pack("<i", len(footer)) + _MAGIC


def _padded(head: memoryview, count: int) -> bytes:
    """Let the schema's message have so many zeros more, which belong to it."""
    length = struct.Struct("<i")
    (found,) = length.unpack_from(head, _LENGTH_AT)
    end = _LENGTH_AT + length.size
    return bytes(head[:_LENGTH_AT]) + length.pack(found + count) + bytes(head[end:]) + bytes(count)


def _dictionaries(words: Sequence[Any], compression: Compression) -> Messages:
    if not words:
        return Messages([], np.empty((0, 2), np.int64))
    batch: Any = pa.RecordBatch.from_arrays(list(words), [str(n) for n in range(len(words))])
    data = memoryview(encode_file(batch.schema, [batch], compression=compression))
    return _messages(data, file_blocks(data)[0].table)


def _blocks(lengths: _Lengths, behind: int) -> bytes:
    """List messages that lie one after the other from an offset on."""
    blocks = np.zeros(len(lengths), _BLOCK)
    ends = behind + np.cumsum(lengths.sum(axis=1))
    blocks["offset"][1:] = ends[:-1]
    blocks["offset"][:1] = behind
    blocks["metadata"], blocks["body"] = lengths[:, 0], lengths[:, 1]
    return blocks.tobytes()


def _footer(template: memoryview, dictionaries: bytes, batches: bytes) -> bytes:
    """Give a footer with these blocks and the schema of another one."""
    version, schema = footer_schema(template)
    return footer_around((template, version, schema), dictionaries, batches)


def footer_around(
    described: tuple[memoryview, int, int], dictionaries: bytes, batches: bytes
) -> bytes:
    """Give a footer with these blocks, around metadata of a version that has a schema at a place.

    In FlatBuffers a reference is the distance forward to what it means, and structs of eight bytes
    lie at multiples of eight. So: root, vtable, table, both vectors, then all of the metadata.
    """
    metadata, version, schema = described
    # u32 root; vtable of 6 u16 at 4; table of 20 bytes at 16; 36: the first count.
    second = FIRST_BLOCK + len(dictionaries) + 8
    base = second + len(batches)
    vtable = struct.pack("<6H", 12, 20, 4, 8, 12, 16)
    table = struct.pack(
        "<ihxxIII", 12, version, base + schema - 24, FIRST_BLOCK - 4 - 28, second - 4 - 32
    )
    counts = struct.pack("<I", len(dictionaries) // 24), struct.pack("<4xI", len(batches) // 24)
    root = struct.pack("<I", 16) + vtable + table
    return root + counts[0] + dictionaries + counts[1] + batches + bytes(metadata)
