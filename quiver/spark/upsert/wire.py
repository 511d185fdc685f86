"""Commands on their way through Spark's shuffle: whole tables as bytes, a few rows of them.

Spark takes a row apart and puts it together again wherever it goes; a million commands cost a
second that way. So a task packs the commands of one bucket into pieces of less than half a MiB,
and the shuffle moves those. Types arrive as they left, also those that Spark does not have.

===========  ================================================================
column
===========  ================================================================
``part``     which partition is to have it
``bucket``   whose commands they are; -1: how far a task came in its splits; -2: what it read
``data``     an Arrow IPC stream; of bucket -1 JSON, of -2 a number of rows
===========  ================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from quiver.ipc import encode_stream
from quiver.spark.worker import is_worker
from quiver.upsert.persist import keep_open
from quiver.upsert.rows import Commands, rows_of_buckets

__all__ = [
    "PROGRESS",
    "READ",
    "RESULT",
    "RESULT_DDL",
    "WIRE",
    "WIRE_DDL",
    "by_bucket",
    "encode_progress",
    "pack",
    "progress",
    "read_count",
    "read_progress",
    "result",
    "step",
    "unpack",
]

PIECE_BYTES: Final = 384 << 10
"""About how large a piece is: Spark sorts and buffers rows of that size as they come.

Below half of a region of G1 in a small JVM (512 KiB): what is larger has regions of its own.
"""
KEPT_BYTES: Final = 48 << 20
"""Files of a collection that a worker keeps open: there are many workers, and to open one again
takes a third of a millisecond."""
PROGRESS: Final = -1
READ: Final = -2

_PART: Final = pa.field("part", pa.int32())
_BUCKET: Final = pa.field("bucket", pa.int32())
_DATA: Any = pa.field("data", pa.binary())
WIRE: Final = pa.schema([_PART, _BUCKET, _DATA])
WIRE_DDL: Final = "part int, bucket int, data binary"
RESULT: Final = pa.schema([_BUCKET, _DATA])
RESULT_DDL: Final = "bucket int, data binary"


def pack(commands: Commands, *, buckets: int, parts: int) -> Iterator[pa.RecordBatch]:
    """Give commands as rows of ``WIRE``, each of one bucket."""
    order, edges = rows_of_buckets(commands.hashes, buckets)
    commands = commands.take(order)
    each = max(1, len(order) * PIECE_BYTES // max(1, commands.nbytes))
    for bucket, (start, end) in enumerate(pairwise(edges.tolist())):
        for first in range(start, end, each):
            piece = commands.slice(first, min(first + each, end))
            yield _row(WIRE, bucket % parts, bucket, _encoded(piece))


def unpack(pieces: Iterable[bytes]) -> Commands:
    """Put pieces of one bucket together again."""
    batches = []
    for piece in pieces:
        with pa.ipc.open_stream(pa.py_buffer(piece)) as reader:
            batches.append(reader.read_next_batch())
    return Commands.from_table(pa.Table.from_batches(batches))


def progress(ends: Mapping[str, int]) -> pa.RecordBatch:
    """Say in a row of ``WIRE`` which offset comes next in each split."""
    return _row(WIRE, 0, PROGRESS, encode_progress(ends))


def encode_progress(ends: Mapping[str, int]) -> bytes:
    """Say it in bytes."""
    return json.dumps(ends).encode()


def read_count(rows: int) -> pa.RecordBatch:
    """Say in a row of ``WIRE`` how many rows a task has read."""
    return _row(WIRE, 0, READ, str(rows).encode())


def read_progress(data: bytes) -> dict[str, int]:
    """Read that again."""
    found: dict[str, int] = json.loads(data)
    return found


def result(bucket: int, data: bytes) -> pa.RecordBatch:
    """Give a row of ``RESULT``."""
    return _row(RESULT, bucket, data)


def by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[bytes]]]:
    """Gather the rows of ``WIRE`` of one bucket after the other; they come sorted by it."""
    bucket: int | None = None
    pieces: list[bytes] = []
    for batch in batches:
        data: Any = batch.column("data")
        for row, owner in enumerate(batch.column("bucket").to_pylist()):
            if owner != bucket:
                if bucket is not None:
                    yield bucket, pieces
                bucket, pieces = owner, []
            pieces.append(data[row].as_py())
    if bucket is not None:
        yield bucket, pieces


def step(act: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:  # noqa: ANN401
    """Give a plain function of what a task does: Spark looks at how many arguments it takes."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if is_worker():
            keep_open(KEPT_BYTES)
        return act(batches)

    return step


def _encoded(commands: Commands) -> bytes:
    (batch,) = commands.to_table().to_batches()
    return encode_stream(batch).to_pybytes()


def _row(schema: pa.Schema, *values: int | bytes) -> pa.RecordBatch:
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
