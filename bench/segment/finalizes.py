"""Writing a segment: through the store, and the same bytes raw; appends meanwhile."""

from __future__ import annotations

import cProfile
import itertools
import os
import pstats
import shutil
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import quiver
from bench.kit import Bench, clocked, p99, warm
from bench.segment import raw
from bench.segment.pages import segment_files
from bench.segment.phases import phases
from bench.wal import shapes
from quiver.config import Config
from quiver.engine import Store
from quiver.engine.scribe import look_ahead

__all__ = ["appends", "filled", "finalizes", "open_config"]

SEGMENT_BYTES: Final = 32 << 20
_HUGE: Final = 1 << 40
_SEGMENTS: Final = 20

Bundles = list[dict[str, pa.RecordBatch]]


def open_config(durability: str) -> Config:
    """Give a configuration under which nothing is finalized before it is asked for.

    Dictionaries are united: bundles come far too fast here, and most stores are not flooded. What
    keeps them as they came is measured by the bench of openings.
    """
    return Config.of(
        {
            "wal": {"max_size": _HUGE, "rotate_size": _HUGE, "durability": durability},
            "segment": {"target_size": _HUGE, "max_open_duration": "1h", "dictionaries": "unite"},
        }
    )


def segment_bytes(bench: Bench) -> int:
    """Give the usual size of a segment, also at half the scale: of less, what comes once counts."""
    return int(SEGMENT_BYTES * min(2 * bench.scale, 1))


def bundles_for(rows: int, byte_count: int = SEGMENT_BYTES) -> Bundles:
    """Give standard bundles whose payloads have so many bytes together."""
    some = shapes.lot(rows)
    each = statistics.mean(
        sum(len(payload.data) for payload in shapes.encoded(bundle, 0).payloads) for bundle in some
    )
    return [some[number % len(some)] for number in range(int(byte_count / each) + 1)]


def filled(folder: Path, bundles: Bundles, durability: str = "segment") -> Store:
    """Open a new store and append the bundles; none of them is in a segment yet."""
    store = quiver.open(folder, slots=shapes.SLOTS, config=open_config(durability), worker=False)
    for bundle in bundles:
        store.append(bundle)
    return store


@contextmanager
def prepared(folder: Path, bundles: Bundles, durability: str = "segment") -> Iterator[Store]:
    """Do the same with a worker, and do all that it would when it has the time to."""
    config = open_config(durability)
    with quiver.open(folder, slots=shapes.SLOTS, config=config) as store:
        for bundle in bundles:
            store.append(bundle)
        look_ahead(store._core)  # noqa: SLF001
        yield store


def _finalized(
    bench: Bench, bundles: Bundles, durability: str, opened: Any = prepared
) -> tuple[float, int]:
    folder = bench.folder / "store"
    with opened(folder, bundles, durability) as store:
        warm(bench.folder)
        took = clocked(store.finalize)
    (segment,) = segment_files(folder)
    size = segment.stat().st_size
    shutil.rmtree(folder)
    return took, size


def _written(bench: Bench, data: memoryview) -> float:
    folder = bench.folder / "raw"
    folder.mkdir()
    warm(bench.folder)
    took = raw.write_file(folder, data)
    shutil.rmtree(folder)
    return took


def finalizes(bench: Bench) -> None:
    """Finalize 32 MB, against the same number of bytes and the same acts by plain calls.

    The worker has looked ahead, as it does while a segment is open; what it had no time for in a
    burst is between that and the line where nothing was prepared.
    """
    shares: dict[int, dict[str, float]] = {}
    for rows, wanted in ((1000, True), (100, False), (10_000, False)):
        size = segment_bytes(bench) if rows == 1000 else int(SEGMENT_BYTES * bench.scale)
        bundles = bundles_for(rows, size)
        _, size = _finalized(bench, bundles, "segment")
        data = memoryview(bytearray(os.urandom(size)))
        found = bench.interleave(
            ours=partial(_finalized, bench, bundles, "segment"),
            raw=partial(_written, bench, data),
            whole=partial(_finalized, bench, bundles, "sync"),
            at_once=partial(_finalized, bench, bundles, "segment", filled),
        )
        ours, whole, at_once = (
            [took for took, _ in found[side]] for side in ("ours", "whole", "at_once")
        )
        name = f"finalize {len(bundles):,} bundles of {rows:,} rows, by writing the bytes raw"
        bar = found["raw"]
        bench.add(
            name, ours, bar, wanted=("at most", 1.5) if wanted else None, megabytes=size / 1e6
        )
        bench.add("the same with the log given back", whole, bar)
        bench.add("the same when nothing was prepared while it was open", at_once, bar)
        shares[rows] = _phases(bench, bundles, statistics.median(bar))
    bench.notes += _phase_table(shares)
    bench.notes += _profile(bench, bundles_for(1000, segment_bytes(bench)))


def _phases(bench: Bench, bundles: Bundles, bar: float) -> dict[str, float]:
    """Say what part of a finalize takes how many times what writing raw takes."""
    rounds = []
    for _ in range(bench.rounds):
        with prepared(bench.folder / "store", bundles) as store:
            warm(bench.folder)
            with phases() as found:
                took = clocked(store.finalize)
        shutil.rmtree(bench.folder / "store")
        rounds.append(found | {"rest": took - sum(found.values())})
    return {name: statistics.median(found[name] for found in rounds) / bar for name in rounds[0]}


def _phase_table(shares: dict[int, dict[str, float]]) -> list[str]:
    lines = ["", "## Where the time of a finalize goes", ""]
    lines += ["In parts of what writing and syncing the same bytes raw takes.", ""]
    lines.append("| phase | " + " | ".join(f"{rows:,} rows a bundle" for rows in shares) + " |")
    lines.append("|---|" + "---:|" * len(shares))
    for name in next(iter(shares.values())):
        figures = " | ".join(f"{share[name]:.2f}" for share in shares.values())
        lines.append(f"| {name} | {figures} |")
    return lines


def _profile(bench: Bench, bundles: Bundles) -> list[str]:
    """List the functions in which most of a finalize is spent, themselves alone."""
    profile = cProfile.Profile()
    with prepared(bench.folder / "store", bundles) as store:
        profile.runcall(store.finalize)
    shutil.rmtree(bench.folder / "store")
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    whole = sum(entry[2] for entry in stats.values())
    most = sorted(stats.items(), key=lambda item: -item[1][2])[:12]
    lines = ["", "By the profiler, which makes calls dearer, at 1,000 rows a bundle:", ""]
    lines += ["| function | calls | share |", "|---|---:|---:|"]
    for (place, _, name), (_, calls, own, *_) in most:
        where = (
            "" if place.startswith(("~", "<")) else f"{Path(place).parent.name}/{Path(place).name} "
        )
        text = name.replace("|", "/").replace("<", "").replace(">", "")
        lines.append(f"| {where}{text} | {calls:,} | {own / whole:.0%} |")
    return lines


def _beside(act: Callable[[], Any], step: Callable[[], Any]) -> list[float]:
    """Do one thing in a thread and another one again and again here; seconds of each of those."""
    took = []
    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(act)
        while not going_on.done():
            took.append(clocked(step))
        going_on.result()
    return took


def _store_appends(bench: Bench, bundles: Bundles) -> tuple[list[float], list[float]]:
    """Appends while nothing else goes on, which fill a segment, and those during its finalize."""
    alone, beside = [], []
    with quiver.open(
        bench.folder / "store", slots=shapes.SLOTS, config=open_config("sync")
    ) as store:
        turns = itertools.cycle(bundles)
        for _ in range(_SEGMENTS):
            warm(bench.folder)
            alone += [clocked(partial(store.append, bundle)) for bundle in bundles]
            beside += _beside(store.finalize, lambda: store.append(next(turns)))
            store.finalize()
    shutil.rmtree(bench.folder / "store")
    return alone, beside


def _raw_appends(bench: Bench, frames: list[bytes], data: memoryview) -> tuple[list[float], ...]:
    alone, beside = [], []
    folder = bench.folder / "raw"
    folder.mkdir()
    log = raw.RawLog(folder / "log")
    turns = itertools.cycle(frames)
    for _ in range(_SEGMENTS):
        warm(bench.folder)
        alone += [clocked(partial(log.append, frame)) for frame in frames]
        beside += _beside(lambda: raw.write_file(folder, data), lambda: log.append(next(turns)))
    log.close()
    shutil.rmtree(folder)
    return alone, beside


def appends(bench: Bench) -> None:
    """The 99th percentile of appends that overlap a finalize, over that of the others.

    One thread appends without a pause, each append synced, while the worker prepares what came;
    another one finalizes 32 MB.
    """
    bundles = bundles_for(1000, segment_bytes(bench))
    frames = shapes.frames([shapes.encoded(bundle, n) for n, bundle in enumerate(bundles[:16])])
    frames = [frames[n % len(frames)] for n in range(len(bundles))]
    data = memoryview(bytearray(os.urandom(sum(map(len, frames)))))
    found = bench.interleave(
        ours=lambda: _store_appends(bench, bundles),
        raw=lambda: _raw_appends(bench, frames, data),
    )
    names = {
        "ours": "99th percentile of append during a finalize, by that without",
        "raw": "the same of raw appends while a file of that size is written raw",
    }
    for side, name in names.items():
        alone = [p99(one) for one, _ in found[side]]
        beside = [p99(two) for _, two in found[side]]
        counts = [len(two) / _SEGMENTS for _, two in found[side]]
        bench.add(
            name,
            beside,
            alone,
            wanted=("at most", 3) if side == "ours" else None,
            milliseconds_without=statistics.median(alone) * 1e3,
            appends_in_each=statistics.median(counts),
        )
