"""The scan of a log that a recovery does, against checksums over the same map and raw reads."""

from __future__ import annotations

import cProfile
import mmap
import os
import statistics
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c

from bench.kit import Bench, clocked
from bench.opening.profiles import profile_table
from bench.segment.pages import drop
from quiver.config import SegmentConfig
from quiver.disk import LocalDisk
from quiver.disk.local_file import LocalFile
from quiver.payload import EncodedBundle, Payload
from quiver.segment import OpenSegment
from quiver.stored_run import StoredRun
from quiver.wal import ACTIVE_NAME, Replay
from quiver.wal.format import HEADER_BYTES, encode_bundle, encode_header
from quiver.wal.reader import Tail, sweep

__all__ = ["Shape", "cold", "make_log", "scans"]

_DIGEST: Final = bytes(16)
_CONFIG: Final = SegmentConfig()
_LIMIT: Final = 1 << 30
_PIECE: Final = 1 << 20
_READ: Final = 4 << 20
_BYTES: Final = 1 << 29
_FRAME: Final = 33
_BLOCK: Final = 42


class Shape(NamedTuple):
    """How large entries are, and in how many slots."""

    entry_bytes: int
    slots: int
    ratio: float | None = None
    rate: float | None = None
    is_varied: bool = False
    """Each entry is of another length than the one before, up to a sixteenth."""

    def __str__(self) -> str:
        varied = ", of many lengths" if self.is_varied else ""
        return f"entries of {self.entry_bytes / 1000:g} KB in {self.slots} slots{varied}"


SHAPES: Final = (
    Shape(100_000, 4, ratio=0.55),
    Shape(8_600, 4, ratio=0.45),
    Shape(5_800, 1, rate=1.0),
    Shape(5_800, 1, is_varied=True),
    Shape(2_000, 1),
)


class _StillFile(LocalFile):
    __slots__ = ()

    def settle(self) -> None:
        """Leave in memory what is there."""


class StillDisk(LocalDisk):
    """A disk whose files stay in memory, for what is measured without it."""

    def open(self, path: str, *, writable: bool = False) -> LocalFile:
        """Open a file."""
        file = super().open(path, writable=writable)
        return _StillFile(os.dup(file._descriptor), file.path, self.locate(path))  # noqa: SLF001


def make_log(folder: Path, shape: Shape, byte_count: int) -> int:
    """Write a log of so many bytes; how many entries it has."""
    size = (shape.entry_bytes - _FRAME - _BLOCK * shape.slots) // shape.slots
    data = np.random.default_rng(0).bytes(size)
    lots = [
        tuple(
            Payload(slot, slot, bytes([slot]) * 32, 1000, data[: size - shape.is_varied * less])
            for slot in range(shape.slots)
        )
        for less in range(0, size // 16, max(size // 512, 1))
    ]
    count = max(byte_count // shape.entry_bytes, 1)
    place = folder / "wal"
    place.mkdir(parents=True)
    with (place / ACTIVE_NAME).open("wb", buffering=1 << 20) as file:
        file.write(encode_header(_DIGEST))
        for number in range(count):
            payloads = lots[number % len(lots)]
            file.write(encode_bundle(EncodedBundle(number, 1_700_000_000_000_000_000, payloads)))
    return count


def _walked(folder: Path, count: int) -> None:
    """Find each entry, check it, and look up its place, slots and sizes."""
    disk = StillDisk(folder)
    file = disk.open(f"wal/{ACTIVE_NAME}")
    found = 0
    items = sweep(
        file, HEADER_BYTES, entry_bytes_max=_LIMIT, last_seq=-1, is_active=True, generation=1
    )
    for item in items:
        if not isinstance(item, Tail):
            found += item.last_seq + 1 - item.first_seq
    file.close()
    disk.close()
    assert found == count


def _replayed(folder: Path, expected: int, disk_type: type[LocalDisk] = StillDisk) -> None:
    """Do what a recovery does until each bundle is part of the open segment."""
    disk = disk_type(folder)
    replay = Replay(disk, "wal", digest=_DIGEST, entry_bytes_max=_LIMIT, quarantine="quarantine")
    count = 0
    opened = OpenSegment(_CONFIG)
    for found in replay.swept():
        if not isinstance(found, StoredRun):
            opened.add(found[0], 0, stored=replay.stored)
            count += 1
            continue
        run = found
        while run.bundle_count:
            taken = opened.add_run(run, 0)
            run, count = run.part(taken, run.bundle_count), count + taken
            opened = OpenSegment(_CONFIG) if opened.is_full else opened
    disk.close()
    assert count == expected


def _summed(folder: Path) -> None:
    """Checksum the mapped file in pieces: the bar."""
    with (folder / "wal" / ACTIVE_NAME).open("rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    view, found = memoryview(whole), 0
    for start in range(0, len(view), _PIECE):
        found = crc32c(view[start : start + _PIECE], found)
    view.release()
    whole.close()


def scans(bench: Bench) -> None:
    """Scan logs that are in memory."""
    for shape in SHAPES:
        folder = bench.folder / "log"
        count = make_log(folder, shape, int(_BYTES * bench.scale))
        found = bench.interleave(
            raw=partial(clocked, partial(_summed, folder)),
            walk=partial(clocked, partial(_walked, folder, count)),
            replay=partial(clocked, partial(_replayed, folder, count)),
        )
        for name, what in (
            ("walk", "walk and check, places and slots"),
            ("replay", "replay into the open segment"),
        ):
            wanted = None if shape.ratio is None or name != "walk" else ("at least", shape.ratio)
            bench.add(
                f"{shape}: checksum over the map by {what}",
                found["raw"],
                found[name],
                wanted=wanted,
                entries_per_second=count / statistics.median(found[name]),
            )
            if shape.rate is not None and name == "walk":
                bench.add(
                    f"{shape}: million entries per second, {what}",
                    [count / 1e6] * bench.rounds,
                    found[name],
                    wanted=("at least", shape.rate),
                )
        profile = cProfile.Profile()
        profile.runcall(_replayed, folder, count)
        bench.notes += profile_table(f"replay of {count:,} {shape}", profile)
        _remove(folder)


def _read(folder: Path) -> None:
    """Read a file that is not in memory into one buffer, piece by piece: the bar."""
    path = folder / "wal" / ACTIVE_NAME
    drop([path])
    buffer = bytearray(_READ)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        offset = 0
        while got := os.preadv(descriptor, [buffer], offset):
            offset += got
    finally:
        os.close(descriptor)


def _cold(folder: Path, count: int) -> None:
    drop([folder / "wal" / ACTIVE_NAME])
    _replayed(folder, count, LocalDisk)


def cold(bench: Bench) -> None:
    """Scan logs of which nothing is in memory: a recovery always does, see ``File.settle``."""
    for shape in SHAPES:
        folder = bench.folder / "log"
        count = make_log(folder, shape, int(_BYTES * bench.scale))
        found = bench.interleave(
            raw=partial(clocked, partial(_read, folder)),
            replay=partial(clocked, partial(_cold, folder, count)),
        )
        bench.add(
            f"{shape}, cold: reading raw by replay",
            found["raw"],
            found["replay"],
            wanted=("at least", 0.85) if shape.ratio == 0.55 else None,
            entries_per_second=count / statistics.median(found["replay"]),
        )
        _remove(folder)


def _remove(folder: Path) -> None:
    (folder / "wal" / ACTIVE_NAME).unlink()
    (folder / "wal").rmdir()
    folder.rmdir()
