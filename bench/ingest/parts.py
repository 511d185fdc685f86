"""The parts of this bench: each adds its rows."""

from __future__ import annotations

import shutil
import statistics
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.ingest import ours, raw
from bench.ingest.bare import Bare, each_bare, grouped_bare
from bench.ingest.frame import framed
from bench.ingest.free import whole_for_free
from bench.ingest.ours import INTERVAL, SEGMENT_BYTES, Bundles, Whole
from bench.kit import Bench, quantile, warm
from bench.wal.raw import append_each_synced, append_grouped
from quiver.config import Config

__all__ = ["each", "encoding", "log", "path"]

_Found = TypeVar("_Found")
_LOG_BYTES: Final = 256_000_000
_WHOLE_BYTES: Final = 512 << 20


def _fresh(bench: Bench, act: Callable[[Path], _Found]) -> _Found:
    """Do something in a place of its own, on a page cache that is warm, and clean up behind it."""
    place = bench.folder / "place"
    warm(bench.folder)
    try:
        return act(place)
    finally:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def _lot(bench: Bench, rows: int, byte_count: int) -> tuple[Bundles, list[bytes]]:
    """Give bundles of so many rows whose frames have about so many bytes, and the frames."""
    each_bytes = statistics.mean(map(len, ours.frames(ours.standard(rows, 16))))
    bundles = ours.standard(rows, max(int(byte_count * bench.scale / each_bytes), 20))
    return bundles, ours.frames(bundles)


def log(bench: Bench) -> None:
    """The log alone with 25 ms group commit: no segment is ever due."""
    for rows, byte_count, wanted in (
        (1000, _LOG_BYTES, 1.0),
        (10_000, _LOG_BYTES, 1.0),
        (100, _LOG_BYTES // 4, 0.45),
    ):
        bundles, frames = _lot(bench, rows, byte_count)
        found = bench.interleave(
            ours=partial(_fresh, bench, partial(ours.grouped, bundles=bundles)),
            raw=partial(_fresh, bench, partial(append_grouped, frames=frames, interval=INTERVAL)),
            two=partial(_fresh, bench, partial(ours.grouped, bundles=bundles, threads=2)),
            bare=partial(_fresh, bench, partial(grouped_bare, bundles=bundles)),
        )
        own = [took for took, _ in found["ours"]]
        took = statistics.median(own)
        bench.add(
            f"log alone, 25 ms group commit, {rows:,} rows: raw write + CRC of ready frames, by it",
            found["raw"],
            own,
            wanted=("at least", wanted),
            megabytes_per_second=sum(map(len, frames)) / took / 1e6,
            cpu_microseconds_each=statistics.median(c for _, c in found["ours"])
            / len(bundles)
            * 1e6,
        )
        two = [took for took, _ in found["two"]]
        bench.add("the same with two threads that append", found["raw"], two)
        bench.add("the same by bare calls, with nothing of a store", found["raw"], found["bare"])
        if rows == 100:
            bundles_per_second = [len(bundles) / one for one in own]
            bench.add(
                "durable bundles of 100 rows per second, by 12,000",
                bundles_per_second,
                [12_000.0] * len(own),
                wanted=("at least", 1.0),
                bundles_per_second=statistics.median(bundles_per_second),
            )


def each(bench: Bench) -> None:
    """A sync for each append, each waited for."""
    bundles, frames = _lot(bench, 1000, _LOG_BYTES // 3)
    found = bench.interleave(
        ours=partial(_fresh, bench, partial(ours.each_synced, bundles=bundles)),
        raw=partial(_fresh, bench, partial(append_each_synced, frames=frames)),
        bare=partial(_fresh, bench, partial(each_bare, bundles=bundles)),
    )
    own = [took for took, _ in found["ours"]]
    bench.add(
        "a sync for each append: raw write + CRC + sync of ready frames, by it",
        [sum(took) for took in found["raw"]],
        [sum(took) for took in own],
        wanted=("at least", 0.75),
        megabytes_per_second=sum(map(len, frames)) / statistics.median(map(sum, own)) / 1e6,
        cpu_microseconds_each=statistics.median(c for _, c in found["ours"]) / len(bundles) * 1e6,
    )
    bench.add(
        "the same by bare calls, with nothing of a store",
        [sum(took) for took in found["raw"]],
        [sum(took) for took in found["bare"]],
    )
    for share, wanted in ((0.5, 1.4), (0.99, None)):
        bench.add(
            f"percentile {share * 100:g} of one synced append, by that of raw",
            [quantile(took, share) for took in own],
            [quantile(took, share) for took in found["raw"]],
            wanted=None if wanted is None else ("at most", wanted),
            milliseconds=statistics.median(quantile(took, share) for took in own) * 1e3,
            by_bare_calls=statistics.median(
                quantile(bare, share) / quantile(bar, share)
                for bare, bar in zip(found["bare"], found["raw"], strict=True)
            ),
        )


def path(bench: Bench) -> None:
    """The whole path: 25 ms group commit, and segments of 32 MiB written meanwhile."""
    for rows in (1000, 10_000):
        bundles, frames = _lot(bench, rows, _WHOLE_BYTES)
        first = _fresh(bench, partial(ours.whole, bundles=bundles))
        bar = partial(
            raw.both,
            frames=frames,
            interval=INTERVAL,
            segment_bytes=first.segment_bytes // first.segments,
            segments=first.segments,
        )
        found = bench.interleave(
            ours=partial(_fresh, bench, partial(ours.whole, bundles=bundles)),
            raw=partial(_fresh, bench, bar),
            free=partial(_fresh, bench, partial(whole_for_free, bundles=bundles)),
        )
        runs: list[Whole] = found["ours"]
        took = [run.seconds for run in runs]
        bench.add(
            f"whole path, {rows:,} rows: two raw threads with the same bytes, by it",
            found["raw"],
            took,
            wanted=("at least", 1.0),
            megabytes_per_second=sum(map(len, frames)) / statistics.median(took) / 1e6,
            cores_busy=statistics.median(run.cpu_seconds / run.seconds for run in runs),
            cpu_microseconds_each=statistics.median(run.cpu_seconds for run in runs)
            / len(bundles)
            * 1e6,
        )
        free: list[Whole] = found["free"]
        bench.add(
            "the same with segments that cost nothing",
            found["raw"],
            [run.seconds for run in free],
            megabytes_per_second=sum(map(len, frames))
            / statistics.median(run.seconds for run in free)
            / 1e6,
        )
        if rows == 1000:
            _latencies(bench, runs, free)
        _sizes(bench, rows, runs)


def _latencies(bench: Bench, runs: list[Whole], free: list[Whole]) -> None:
    one = [1e-3] * len(runs)
    for share, wanted in ((0.5, None), (0.99, 1.0), (0.999, 8.0)):
        bench.add(
            f"percentile {share * 100:g} of a call of append while segments are written, by 1 ms",
            [quantile(run.calls, share) for run in runs],
            one,
            wanted=None if wanted is None else ("at most", wanted),
            with_segments_that_cost_nothing=statistics.median(
                quantile(run.calls, share) * 1e3 for run in free
            ),
        )
    for share, wanted in ((0.5, None), (0.99, 2.0)):
        bench.add(
            f"percentile {share * 100:g} from append to durable, by the interval of 25 ms",
            [quantile(run.acks, share) for run in runs],
            [INTERVAL] * len(runs),
            wanted=None if wanted is None else ("at most", wanted),
        )


def _sizes(bench: Bench, rows: int, runs: list[Whole]) -> None:
    accepted = [float(run.log_bytes) for run in runs]
    bench.add(
        f"bytes written by bytes accepted, {rows:,} rows",
        [float(run.written_bytes) for run in runs],
        accepted,
        wanted=("at most", 2.05),
    )
    bench.add(
        f"bytes of segments by bytes of frames, {rows:,} rows",
        [float(run.segment_bytes) for run in runs],
        accepted,
        wanted=("at most", 1.02),
    )


def encoding(bench: Bench) -> None:
    """An entry, checksum and all, of batches that are checked, against bare calls of pyarrow.

    Both go through as much memory as a segment takes, as a store does: entries stay until then.
    """
    for rows in (100, 1000, 10_000):
        (bundle,) = ours.standard(rows, 1)
        count = max(int(2_000_000 / rows * bench.scale), 50)
        make = framed(Config(), bundle)
        entry_bytes = sum(map(len, make()))
        kept: deque[Any] = deque(maxlen=SEGMENT_BYTES // entry_bytes)
        found = bench.interleave(
            ours=partial(_typical, _keeping(make, kept), count),
            raw=partial(_typical, partial(Bare(), list(bundle.values())), count),
        )
        bench.add(
            f"entry of a bundle of {rows:,} rows with its CRC, by bare pyarrow calls",
            found["ours"],
            found["raw"],
            wanted=("at most", 1.15) if rows == 1000 else None,
            microseconds=statistics.median(found["ours"]) * 1e6,
        )


def _keeping(make: Callable[[], Any], kept: deque[Any]) -> Callable[[], None]:
    return lambda: kept.append(make())


def _typical(act: Callable[[], Any], count: int) -> float:
    """Do something often; the median of its seconds."""
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        act()
        took.append(time.perf_counter() - begun)
    return statistics.median(took)
