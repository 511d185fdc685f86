"""The door for Arrow bytes: any bytes are a validated batch or damage, within the budget.

::

    flags u8 | an IPC stream or an IPC file, or four files of one length
"""

from __future__ import annotations

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry
from quiver.ipc import decode_stream, encode_stream
from quiver.ipc_alike import read_alike
from quiver.ipc_file import ArrowFile
from quiver.ipc_messages import file_blocks, stream_decoded_bytes

FILE = 1
ALIKE = 2
FILES = 4
LIMITS = LimitsConfig(rows=100_000, columns=200, decoded_bytes=1 << 20)
CHUNKS_MAX = 100


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, body = data[0], data[1:]
    check_walk(body)
    if flags & ALIKE:
        check_alike(body)
        return
    try:
        if flags & FILE:
            file = ArrowFile(body, limits=LIMITS)
            for index in range(min(file.chunk_count, CHUNKS_MAX)):
                use(file.chunk(index))
        else:
            use(decode_stream(body, limits=LIMITS))
    except DamagedEntry:
        return


def check_walk(body: bytes) -> None:
    """The walk is done before Arrow has checked anything."""
    try:
        assert stream_decoded_bytes(memoryview(body)) >= 0
        for blocks in file_blocks(memoryview(body)):
            for index in range(blocks.count):
                assert blocks.decoded_bytes(index) >= 0
    except DamagedEntry:
        return


def check_alike(body: bytes) -> None:
    """What is given of files that are read together is what each gives by itself."""
    size = len(body) // FILES
    files = [(number * size, (number + 1) * size) for number in range(FILES)]
    for found in read_alike(pa.py_buffer(body), files, limits=LIMITS):
        for place, batch in zip(found.places, found.batches, strict=True):
            start, end = files[place]
            alone = ArrowFile(body[start:end], limits=LIMITS).chunk(0)
            use(batch)
            assert encode_stream(alone) == encode_stream(batch)


def use(batch: pa.RecordBatch) -> None:
    """Read all values of what passed: it must neither kill the process nor turn out unsound."""
    assert batch.num_rows <= LIMITS.rows
    encode_stream(batch)
    assert batch.equals(batch) in (True, False)
    for column in batch.columns:
        str(column)
