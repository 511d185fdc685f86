"""A start with a long ack.log: from the files to the records that the store applies.

A log has room for 4,194,303 frames (256 MiB). So 4,000,000 single acks are measured, and ten
million acked bundles as 4,000,000 records, of which every second one is a run of 4 and the others
are singles. There is no checkpoint: every record is looked at.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

import numpy as np
from crc32c import crc32c

from bench.acks.measure import ACKS, Bench, clocked
from quiver.acks import AckLog
from quiver.acks.format import FRAME_SIZE, KIND_ACK, encode_header
from quiver.acks.replay import FRAME, read_log
from quiver.disk import LocalDisk

__all__ = ["replays"]

FRAMES: Final = 4_000_000
BUNDLES: Final = 10_000_000
AT_NS: Final = 1_700_000_000_000_000_000


def log_of(first: np.ndarray, count: np.ndarray, *, subscribers: int = 1) -> bytes:
    """Make a log of acks, of segments of 1,000 bundles, for several subscribers in turn."""
    frames = np.zeros(len(first), FRAME)
    place = np.arange(len(first))
    frames["kind"], frames["part_count"] = KIND_ACK, 1
    frames["subscriber_id"] = 1 + place % subscribers
    frames["record_seq"] = 1 + place
    frames["at_ns"] = AT_NS + place * 2_713
    frames["segment_seq"], frames["bundle_first"] = first // 1000, first % 1000
    frames["bundle_count"] = count
    data = bytearray(frames.tobytes())
    view = memoryview(data)
    for start in range(0, len(data), FRAME_SIZE):
        stop = start + FRAME_SIZE - 4
        view[stop : stop + 4] = crc32c(view[start:stop]).to_bytes(4, "little")
    return encode_header(1) + bytes(data)


def mixed(frames: int) -> bytes:
    """Make a log whose every segment of 1,000 bundles has 200 single acks and 200 runs of 4."""
    of_segment = np.tile([1, 4], 200)
    segments = frames // 400
    count = np.tile(of_segment, segments)
    first = np.cumsum(of_segment) - of_segment
    first = (np.arange(segments)[:, None] * 1000 + first).reshape(-1)
    return log_of(first, count)


def replays(bench: Bench) -> None:
    """Measure reading logs of a few kinds."""
    frames = bench.count(FRAMES) // 400 * 400
    every = np.arange(frames)
    one = np.ones(frames, np.int64)
    shuffled = np.random.default_rng(0).permuted(every.reshape(-1, 50), axis=1).reshape(-1)
    logs = {
        "single acks in order": log_of(every, one),
        "those of 4 subscribers in turn": log_of(every // 4, one, subscribers=4),
        "single acks, out of order within 50": log_of(shuffled, one),
    }
    for name, data in logs.items():
        read, whole = bench.interleave(
            lambda _, data=data: clocked(lambda: read_log(data)),
            lambda folder, data=data: _opened(folder, data),
        )
        found = len(read_log(data).entries)
        bench.add(f"{name}: read_log", read, frames, at_most=1, records_made=found)
        bench.add(f"{name}: AckLog.open from the disk", whole, frames)
    bundles = frames * 5 // 2
    data = mixed(frames)
    read, whole = bench.interleave(
        lambda _: clocked(lambda: read_log(data)), lambda folder: _opened(folder, data)
    )
    bench.add("a bundle of singles and runs of 4: read_log", read, bundles, at_most=0.2)
    bench.add("a bundle of singles and runs of 4: AckLog.open from the disk", whole, bundles)
    seconds = statistics.median(read) / bundles * BUNDLES
    measure = f"all of {BUNDLES:,} such bundles: read_log"
    bench.note({"measure": measure, "count": bundles, "seconds": seconds})


def _opened(folder: Path, data: bytes) -> float:
    disk = LocalDisk(folder)
    disk.make_dir("core_0")
    disk.make_dir(ACKS)
    (folder / ACKS / "ack.log").write_bytes(data)

    def act() -> None:
        log, replay = AckLog.open(disk, ACKS, "core_0/quarantine")
        assert not replay.damage
        log.close()

    took = clocked(act)
    disk.close()
    return took
