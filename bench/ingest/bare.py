"""What any append has to call, with nothing of a store around: how near Python can come to raw.

Batches are validated in full, since nobody could read them otherwise, written as Arrow streams into
memory that is there, checksummed and written to a file that is synced. There are no numbers, slots,
limits, segments or errors.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from crc32c import crc32c

from bench.ingest.ours import INTERVAL, SEGMENT_BYTES, Bundles

__all__ = ["Bare", "each_bare", "grouped_bare"]

_BUNDLE_BYTES_MAX: Final = 1 << 20
_AT_ONCE: Final = 256
_OPTIONS: Final = pa.ipc.IpcWriteOptions(use_threads=False)


class Bare:
    """Batches one behind the other in memory that is there, as bare as pyarrow can."""

    def __init__(self) -> None:
        self._arena = memoryview(bytearray(SEGMENT_BYTES))
        self._at = 0

    def __call__(self, batches: list[pa.RecordBatch]) -> memoryview:
        """Write streams, and give all of them as one piece."""
        if self._at + _BUNDLE_BYTES_MAX > len(self._arena):
            self._at = 0
        first = self._at
        for batch in batches:
            sink: Any = pa.FixedSizeBufferWriter(pa.py_buffer(self._arena[self._at :]))
            with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
                writer.write_batch(batch)
            self._at += sink.tell()
        return self._arena[first : self._at]


def _entry(write: Bare, batches: list[pa.RecordBatch]) -> tuple[memoryview, bytes]:
    for batch in batches:
        batch.validate(full=True)
    data = write(batches)
    return data, crc32c(data).to_bytes(4, "little")


def each_bare(path: Path, bundles: Bundles) -> list[float]:
    """Make each entry, write it and sync; seconds of each."""
    write, took, offset = Bare(), [], 0
    lots = [list(bundle.values()) for bundle in bundles]
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        for batches in lots:
            begun = time.perf_counter()
            offset += os.pwritev(descriptor, _entry(write, batches), offset)
            os.fdatasync(descriptor)
            took.append(time.perf_counter() - begun)
    finally:
        os.close(descriptor)
    return took


def grouped_bare(path: Path, bundles: Bundles) -> float:
    """Make entries in one thread, write them and sync every 25 ms in another; seconds."""
    write = Bare()
    waiting: deque[tuple[memoryview, bytes]] = deque()
    more, done = threading.Event(), threading.Event()
    lots = [list(bundle.values()) for bundle in bundles]
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def go_on() -> None:
        offset, synced = 0, time.perf_counter()
        while waiting or not done.is_set():
            more.wait(INTERVAL)
            more.clear()
            while count := min(len(waiting), _AT_ONCE):
                parts = [part for _ in range(count) for part in waiting.popleft()]
                offset += os.pwritev(descriptor, parts, offset)
            if time.perf_counter() - synced >= INTERVAL:
                os.fdatasync(descriptor)
                synced = time.perf_counter()
        os.fdatasync(descriptor)

    thread = threading.Thread(target=go_on)
    try:
        begun = time.perf_counter()
        thread.start()
        for number, batches in enumerate(lots):
            waiting.append(_entry(write, batches))
            if number % _AT_ONCE == 0:
                more.set()
        done.set()
        more.set()
        thread.join()
        return time.perf_counter() - begun
    finally:
        os.close(descriptor)
