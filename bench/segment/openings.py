"""Opening a store of thousands of segments, for writing and for reading."""

from __future__ import annotations

import inspect
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

import quiver
from bench.kit import Bench, clocked
from bench.segment.finalizes import open_config
from bench.segment.pages import drop, segment_files, touched
from bench.wal import shapes
from quiver.disk import LocalDisk
from quiver.disk.local_file import LocalFile

__all__ = ["HastyDisk", "openings"]

_COUNTS: Final = (1_000, 3_000, 10_000)


class _HastyFile(LocalFile):
    __slots__ = ()

    def sync(self) -> None:
        """Say that it is done."""


class HastyDisk(LocalDisk):
    """A disk that never waits: for stores that are made to be measured, not kept."""

    def create(self, path: str, *, mode: int = 0o600) -> LocalFile:
        """Make a file that is not synced."""
        file = super().create(path, mode=mode)
        return _HastyFile(file._descriptor, file.path, self.locate(path))  # noqa: SLF001

    def sync_dir(self, path: str) -> None:
        """Say that it is done."""


def make_store(folder: Path, count: int) -> None:
    """Make a store of many small segments of four slots."""
    some = [shapes.standard(10, seed) for seed in range(16)]
    disk = HastyDisk(folder, create=True)
    with quiver.open(
        folder, slots=shapes.SLOTS, config=open_config("segment"), disk=disk, worker=False
    ) as store:
        for number in range(count):
            store.append(some[number % 16])
            store.finalize()
    disk.close()
    os.sync()


def first_of(whole: Path, folder: Path, count: int) -> None:
    """Make a store of the first segments of another one, by links."""
    quiver.open(folder, slots=shapes.SLOTS, worker=False).close()
    shutil.copy(whole / "quiver.json", folder / "quiver.json")
    for path in segment_files(whole)[:count]:
        os.link(path, folder / "core_0" / "segments" / path.name)


def reading() -> dict[str, int]:
    """Say how much this process has read so far: bytes and calls, from whatever cache."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def _opened(folder: Path) -> tuple[float, int]:
    """Open for writing; seconds, and bytes read by calls."""
    before = reading()["rchar"]
    begun = time.perf_counter()
    store = quiver.open(folder, worker=False)
    took = time.perf_counter() - begun
    after = reading()["rchar"]
    assert len(segment_files(folder)) == store.info().segments
    store.close()
    return took, after - before


def _cold(folder: Path) -> tuple[float, float]:
    """The same with no byte of the segments in memory: seconds, and the share that is then."""
    files = segment_files(folder)
    drop(files)
    took, _ = _opened(folder)
    return took, touched(files)


def openings(bench: Bench) -> None:
    """Open stores of 1,000, 3,000 and 10,000 segments."""
    counts = [max(int(count * bench.scale), 10) for count in _COUNTS]
    stores = {count: bench.folder / f"of-{count}" for count in counts}
    make_store(stores[counts[-1]], counts[-1])
    for count in counts[:-1]:
        first_of(stores[counts[-1]], stores[count], count)
    found = bench.interleave(
        **{str(count): lambda folder=folder: _opened(folder) for count, folder in stores.items()}
    )
    for count in counts:
        took, read = ([one[part] for one in found[str(count)]] for part in (0, 1))
        bench.add(
            f"opening {count:,} segments, in seconds",
            took,
            [1.0] * len(took),
            wanted=("at most", 1) if count == counts[-1] else None,
            bytes_read_for_each=statistics.median(read) / count,
        )
    few, many = ([took for took, _ in found[str(count)]] for count in (counts[0], counts[-1]))
    bench.add(
        f"time for each of {counts[-1]:,} by that for each of {counts[0]:,}",
        [took / counts[-1] for took in many],
        [took / counts[0] for took in few],
        wanted=("at most", 1.5),
    )
    whole = stores[counts[-1]]
    cold = [_cold(whole) for _ in range(bench.rounds)]
    ones = [1.0] * bench.rounds
    bench.add(
        f"opening {counts[-1]:,} segments of which nothing is in memory, in seconds",
        [took for took, _ in cold],
        ones,
        share_of_pages_read=statistics.median(share for _, share in cold),
    )
    _look(bench, whole, counts[-1])
    for folder in stores.values():
        shutil.rmtree(folder)


def _look(bench: Bench, store: Path, count: int) -> None:
    """Scan the store: until the schema is known, the rows are counted, a few rows are read."""
    ones = [1.0] * bench.rounds
    acts: dict[str, Callable[[], Any]] = {
        "its schema": lambda: clocked(lambda: quiver.scan(store, slot="records").schema),
        "its number of rows": lambda: clocked(
            lambda: quiver.scan(store, slot="records").count_rows()
        ),
    }
    if "where" in inspect.signature(quiver.scan).parameters:
        table = quiver.scan(store, slot="records").to_reader().read_next_batch()
        one = pc.field("time_unix_nano") == table["time_unix_nano"][0]
        acts["the rows of one moment"] = lambda: clocked(
            lambda: quiver.scan(store, slot="records", where=one).to_table()
        )
    for name, took in bench.interleave(**acts).items():
        bench.add(f"scan of {count:,} segments until {name}, in seconds", took, ones)
