"""Lay out the golden files of the Rust Quiver, format version 1, from its tables. Run once.

No file that it wrote itself was at hand. They stay as they are: a reader of any later version must
read them.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import pyarrow as pa

FOLDER = Path(__file__).parent / "v1" / "upstream"


def stream(batch: pa.RecordBatch) -> bytes:
    """Write a batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def frame(body: bytes) -> bytes:
    """Put length and checksum around an entry."""
    return struct.pack("<I", len(body)) + body + struct.pack("<I", zlib.crc32(body))


def sealed(data: bytes) -> bytes:
    """Put a checksum behind all that there is."""
    return data + struct.pack("<I", zlib.crc32(data))


def write(name: str, data: bytes) -> None:
    """Write a file that is not there yet."""
    path = FOLDER / name
    if path.exists():
        sys.exit(f"{path} is there already: golden files are written once")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main() -> None:
    """Write a log with two entries, a cursor between them, and a subscriber's progress."""
    log = struct.pack("<10sHH16sQ", b"QUIVER\0WAL", 1, 38, b"QUIVER_SEGCFG\0\0\0", 1000)
    unknown = frame(struct.pack("<BqQQ", 7, 1_357_000_000_000_000_000, 41, 0) + bytes(58))
    body = struct.pack("<BqQQ", 0, 1_357_000_000_000_000_001, 42, 1 << 30 | 1 << 31)
    for slot, batch in (
        (31, pa.record_batch({"key": ["k"], "value": [1]})),
        (30, pa.record_batch({"body": ["a", None]})),
    ):
        payload = stream(batch)
        body += struct.pack("<H32sII", slot, bytes([slot]) * 32, batch.num_rows, len(payload))
        body += payload
    write("wal/quiver.wal", log + unknown + frame(body))
    cursor = struct.pack("<8sHHQ", b"QUIVER\0T", 1, 24, 1000 + len(unknown))
    write("wal/quiver.wal.cursor", sealed(cursor))
    progress = struct.pack("<8sHHHQI6x", b"QUIVSUB\0", 1, 32, 0, 5, 1)
    progress += struct.pack("<QIHQQ", 5, 65, 2, 0b11, 0b1)
    write("quiver.sub.spark", sealed(progress))


if __name__ == "__main__":
    main()
