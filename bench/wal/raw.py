"""The same bytes with nothing around: the bar that the log is held against."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from crc32c import crc32c

__all__ = ["append_each_synced", "append_grouped", "scan"]

_LENGTH = struct.Struct("<I")
_PIECE = 8 << 20


def append_grouped(path: Path, frames: list[bytes], *, interval: float) -> float:
    """Checksum and write frame after frame, fdatasync whenever ``interval`` has passed; seconds."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        begun = synced = time.perf_counter()
        offset = 0
        for frame in frames:
            crc32c(memoryview(frame)[4:-4])
            offset += os.pwrite(descriptor, frame, offset)
            if time.perf_counter() - synced >= interval:
                os.fdatasync(descriptor)
                synced = time.perf_counter()
        os.fdatasync(descriptor)
        return time.perf_counter() - begun
    finally:
        os.close(descriptor)


def append_each_synced(path: Path, frames: list[bytes]) -> list[float]:
    """Checksum, write and fdatasync each frame; seconds of each."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    took = []
    try:
        offset = 0
        for frame in frames:
            begun = time.perf_counter()
            crc32c(memoryview(frame)[4:-4])
            offset += os.pwrite(descriptor, frame, offset)
            os.fdatasync(descriptor)
            took.append(time.perf_counter() - begun)
    finally:
        os.close(descriptor)
    return took


def scan(path: Path, start: int) -> tuple[int, float]:
    """Read a log from the disk in pieces and check each entry's CRC32C: entries, seconds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        begun = time.perf_counter()
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        count, offset, rest = 0, start, b""
        while piece := os.pread(descriptor, _PIECE, offset):
            offset += len(piece)
            buffer = memoryview(rest + piece)
            count, used = _check(buffer, count)
            rest = bytes(buffer[used:])
        return count, time.perf_counter() - begun
    finally:
        os.close(descriptor)


def _check(buffer: memoryview, count: int) -> tuple[int, int]:
    at, size = 0, len(buffer)
    while size - at >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(buffer, at)
        end = at + length + 8
        if end > size:
            break
        if crc32c(buffer[at + 4 : end - 4]) != _LENGTH.unpack_from(buffer, end - 4)[0]:
            raise ValueError(f"a wrong checksum at {at}")
        count, at = count + 1, end
    return count, at
