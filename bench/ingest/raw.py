"""The same bytes by two threads with nothing around: one writes the log, one the segments."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from crc32c import crc32c

from bench.segment.raw import write_file

__all__ = ["both"]


def both(
    folder: Path, frames: list[bytes], *, interval: float, segment_bytes: int, segments: int
) -> float:
    """Checksum and write frames, fdatasync each ``interval``, write segments meanwhile; seconds.

    A segment is due after its share of the frames. It is checksummed, written, synced and renamed
    by the second thread, as ``write_file`` does; the first one goes on until the next is due.
    """
    folder.mkdir()
    data = memoryview(bytearray(os.urandom(segment_bytes)))
    share = len(frames) / segments
    descriptor = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    going_on: Future[object] | None = None
    done = 0
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # The thread is there.
        begun = synced = time.perf_counter()
        offset = 0
        for number, frame in enumerate(frames, 1):
            crc32c(memoryview(frame)[4:-4])
            offset += os.pwrite(descriptor, frame, offset)
            if time.perf_counter() - synced >= interval:
                os.fdatasync(descriptor)
                synced = time.perf_counter()
            if number >= share * (done + 1) - 0.5 and done < segments:
                done += 1
                if going_on is not None:
                    going_on.result()
                going_on = pool.submit(_segment, folder, data, done)
        os.fdatasync(descriptor)
        if going_on is not None:
            going_on.result()
        took = time.perf_counter() - begun
    os.close(descriptor)
    return took


def _segment(folder: Path, data: memoryview, number: int) -> None:
    place = folder / str(number)
    place.mkdir()
    crc32c(data)
    write_file(place, data)
