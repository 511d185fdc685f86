"""Bundles through ``store.append``, in the ways that this bench compares."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import quiver
from bench.segment.pages import segment_files
from bench.wal import shapes
from quiver.config import Config
from quiver.engine import Receipt, Store
from quiver.segment import OpenSegment

__all__ = ["INTERVAL", "Bundles", "Whole", "each_synced", "grouped", "standard", "whole"]

INTERVAL: Final = 0.025
SEGMENT_BYTES: Final = 32 << 20
_HUGE: Final = 1 << 40
_LOG_ONLY: Final = {
    "wal": {"max_size": _HUGE, "rotate_size": _HUGE, "flush_interval": "25ms"},
    "segment": {"target_size": _HUGE, "max_open_duration": "1h"},
}
_WHOLE: Final = {"wal": {"flush_interval": "25ms"}, "segment": {"max_open_duration": "1h"}}

Bundles = list[dict[str, pa.RecordBatch]]


def standard(rows: int, count: int) -> Bundles:
    """Give standard bundles, those of one lot again and again."""
    return list(itertools.islice(itertools.cycle(_lot(rows)), count))


def frames(bundles: Bundles) -> list[bytes]:
    """What the log writes for them, each different one once."""
    some = {id(bundle): bundle for bundle in bundles}
    written = shapes.frames([shapes.encoded(bundle, n) for n, bundle in enumerate(some.values())])
    return list(itertools.islice(itertools.cycle(written), len(bundles)))


@functools.cache
def _lot(rows: int) -> Bundles:
    return shapes.lot(rows)


@contextmanager
def _log_alone(folder: Path, bundles: Bundles) -> Iterator[Store]:
    """Open a new store of which only the log works: nothing is prepared for segments either.

    It has taken as much as a segment before, as any store that is open for some seconds: its memory
    is its own by then, as the page cache is.
    """
    with quiver.open(folder, slots=shapes.SLOTS, config=Config.of(_LOG_ONLY)) as store:
        store._scribe = None  # noqa: SLF001
        _fill_once(store, bundles)
        yield store
        _forget(store, 0)


def _fill_once(store: Store, bundles: Bundles) -> None:
    core: Any = store._core  # noqa: SLF001
    for bundle in itertools.cycle(bundles):
        if core.open_segment.payload_bytes >= SEGMENT_BYTES:
            break
        store.append(bundle, wait=False)
    store.flush()
    _forget(store)


def _forget(store: Store, byte_count: int = SEGMENT_BYTES) -> None:
    """Let what is open go, once it has so many bytes, as if it had become a segment."""
    core: Any = store._core  # noqa: SLF001
    if core.open_segment.payload_bytes >= byte_count:
        with core.lock:
            core.open_segment = OpenSegment(core.config.segment)


def grouped(folder: Path, bundles: Bundles, *, threads: int = 1) -> tuple[float, float]:
    """Append all, none waited for, synced each 25 ms by the worker; seconds, and those of CPU."""

    def append(share: Bundles) -> None:
        for bundle in share:
            store.append(bundle, wait=False)
            _forget(store)

    with _log_alone(folder, bundles) as store, ThreadPoolExecutor(threads) as pool:
        list(pool.map(abs, range(threads)))  # The threads are there.
        cpu, begun = time.process_time(), time.perf_counter()
        if threads == 1:
            append(bundles)
        else:
            list(pool.map(append, [bundles[n::threads] for n in range(threads)]))
        store.flush()
        return time.perf_counter() - begun, time.process_time() - cpu


def each_synced(folder: Path, bundles: Bundles) -> tuple[list[float], float]:
    """Append in mode ``sync`` and wait for each; seconds of each, and those of CPU together."""
    took = []
    with _log_alone(folder, bundles) as store:
        cpu = time.process_time()
        for bundle in bundles:
            begun = time.perf_counter()
            store.append(bundle)
            took.append(time.perf_counter() - begun)
            _forget(store)
        return took, time.process_time() - cpu


@dataclass
class Whole:
    """What came of appends with all that happens behind them."""

    seconds: float
    cpu_seconds: float
    calls: list[float]
    """Seconds of each call of append."""
    acks: list[float] = field(default_factory=list)
    """Seconds from each call until its bundle was durable."""
    segment_bytes: int = 0
    segments: int = 0
    written_bytes: int = 0
    """What the process wrote into files, by the kernel's count."""
    log_bytes: int = 0


def whole(folder: Path, bundles: Bundles) -> Whole:
    """Append all with 25 ms group commit and usual segments, until all is in segments."""
    acks = _Acks()
    calls = []
    with quiver.open(folder, slots=shapes.SLOTS, config=Config.of(_WHOLE)) as store:
        store._core.metrics.listen(acks.told)  # noqa: SLF001
        written = _written_bytes()
        cpu, begun = time.process_time(), time.perf_counter()
        for bundle in bundles:
            came = time.perf_counter()
            receipt = store.append(bundle, wait=False)
            calls.append(time.perf_counter() - came)
            acks.waiting.append((receipt, came))
        store.finalize()
        store.flush()
        took = time.perf_counter() - begun
        cpu = time.process_time() - cpu
        acks.told("quiver.wal.sync", 0)
        found = Whole(took, cpu, calls, acks.seconds)
        found.written_bytes = _written_bytes() - written
        key = ("quiver.wal.appended_bytes", "")
        found.log_bytes = store._core.metrics.read()[key]  # noqa: SLF001
        files = segment_files(folder)
        found.segments = len(files)
        found.segment_bytes = sum(file.stat().st_size for file in files)
    return found


class _Acks:
    """Notes when bundles became durable: at the end of each sync, in the thread that synced."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Receipt, float]] = deque()
        self.seconds: list[float] = []

    def told(self, name: str, _: int) -> None:
        if name != "quiver.wal.sync":
            return
        now = time.perf_counter()
        while self.waiting and self.waiting[0][0].is_durable:
            self.seconds.append(now - self.waiting.popleft()[1])


def _written_bytes() -> int:
    """What this process has handed to write calls so far."""
    with open(f"/proc/{os.getpid()}/io", "rb") as file:
        return int(dict(line.split(b": ") for line in file.read().splitlines())[b"wchar"])
