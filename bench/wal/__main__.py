"""``make bench-wal``: the log against the raw disk in the same run, medians of interleaved rounds.

Writes ``bench/WAL.md`` and ``bench/wal.json`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import quiver
from bench.wal import raw, shapes
from quiver.config import Config, WalConfig
from quiver.disk import LocalDisk
from quiver.payload import EncodedBundle
from quiver.slots import SlotTable
from quiver.wal import ACTIVE_NAME, Log, Replay
from quiver.wal.format import HEADER_BYTES

ROOT: Final = Path(__file__).parents[2]
INTERVAL: Final = 0.025
HUGE: Final = 1 << 40
LOG: Final = f"core_0/wal/{ACTIVE_NAME}"
CONFIG: Final = Config.of(
    {
        "wal": {"max_size": HUGE, "rotate_size": HUGE},
        "segment": {"target_size": HUGE, "max_open_duration": "1h"},
    }
)


def new_log(folder: Path) -> Log:
    """Make an empty log in a folder, or open the one that is there."""
    folder.mkdir(exist_ok=True)
    replay = Replay(
        LocalDisk(folder),
        "wal",
        digest=SlotTable.of(shapes.SLOTS).digest(),
        entry_bytes_max=1 << 30,
        quarantine="quarantine",
    )
    list(replay)
    return replay.finish(WalConfig(max_size=HUGE, rotate_size=HUGE))


def grouped(folder: Path, bundles: list[EncodedBundle]) -> float:
    """Append bundles, one sync whenever the interval has passed; seconds."""
    log = new_log(folder)
    begun = synced = time.perf_counter()
    for bundle in bundles:
        log.append(bundle)
        if time.perf_counter() - synced >= INTERVAL:
            log.sync_all()
            synced = time.perf_counter()
    log.sync_all()
    took = time.perf_counter() - begun
    log.close()
    return took


def each_synced(folder: Path, bundles: list[EncodedBundle]) -> list[float]:
    """Append and sync each bundle; seconds of each."""
    log = new_log(folder)
    took = []
    for bundle in bundles:
        begun = time.perf_counter()
        log.sync(log.append(bundle))
        took.append(time.perf_counter() - begun)
    log.close()
    return took


def store_each(folder: Path, bundles: list[dict[str, pa.RecordBatch]]) -> list[float]:
    """The whole ``store.append`` in mode sync, encoding included; seconds of each."""
    took = []
    with quiver.open(folder, slots=shapes.SLOTS, config=CONFIG, worker=False) as store:
        for bundle in bundles:
            begun = time.perf_counter()
            store.append(bundle)
            took.append(time.perf_counter() - begun)
    return took


BOUNDED: Final = Config.of({"wal": {"max_size": HUGE, "rotate_size": HUGE}})
"""Segments of the usual size, so that a recovery writes them on its way."""


def recovered(folder: Path, count: int, *, config: str = "CONFIG") -> tuple[float, int]:
    """Open a store that was killed, until an append is taken: seconds, peak bytes.

    In a process of its own, which has imported everything before.
    """
    code = (
        "import sys, time\n"
        "import pyarrow, quiver\n"
        f"from bench.wal.__main__ import {config} as CONFIG\n"
        "from bench.wal import shapes\n"
        "from quiver.testing import MemoryDisk\n"
        "bundle = shapes.of_size(1000)\n"
        "warm = quiver.open('x', slots=shapes.SLOTS, disk=MemoryDisk(), worker=False)\n"
        "warm.append(bundle)\n"
        "begun = time.perf_counter()\n"
        "store = quiver.open(sys.argv[1], config=CONFIG, worker=False)\n"
        "store.append(bundle)\n"
        "took = time.perf_counter() - begun\n"
        "assert store.recovery.replayed_bundles == int(sys.argv[2])\n"
        "status = open('/proc/self/status').read()\n"
        "peak = int(status.split('VmHWM:')[1].split()[0]) * 1024\n"
        "print(took, peak, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    took, peak = _child(code, folder, count)
    return float(took), int(peak)


def scanned(folder: Path, count: int) -> float:
    """Read the log of such a store and check it, in a process of its own as well; seconds."""
    code = (
        "import sys\n"
        "import pyarrow, quiver\n"
        "from bench.wal import raw\n"
        "found, seconds = raw.scan(sys.argv[1], int(sys.argv[3]))\n"
        "assert found == int(sys.argv[2])\n"
        "print(seconds)\n"
    )
    (took,) = _child(code, folder / LOG, count, HEADER_BYTES)
    return float(took)


def _child(code: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()


def killed_store(folder: Path, entry_bytes: int, count: int) -> None:
    """Make a store with ``count`` bundles in its log alone."""
    quiver.open(folder, slots=shapes.SLOTS, worker=False).close()
    log = new_log(folder / "core_0")
    bundle = shapes.encoded(shapes.of_size(entry_bytes), 0)
    for number in range(count):
        log.append(bundle._replace(wal_seq=number))
    log.sync_all()
    log.close()


class Bench:
    """One run: rounds of each measure, interleaved, in a folder that is emptied in between."""

    def __init__(self, folder: Path, *, rounds: int, scale: float) -> None:
        self.folder = folder
        self.rounds = rounds
        self.scale = scale
        self.rows: list[dict[str, Any]] = []

    def interleave(self, *acts: Callable[[Path], Any]) -> list[list[Any]]:
        """Run all acts ``rounds`` times in turn, each in a place of its own."""
        found: list[list[Any]] = [[] for _ in acts]
        for number in range(self.rounds):
            for at, act in enumerate(acts):
                place = self.folder / f"{number}-{at}"
                found[at].append(act(place))
                if place.is_dir():
                    shutil.rmtree(place)
                else:
                    place.unlink(missing_ok=True)
        return found

    def add(self, name: str, ours: list[float], theirs: list[float], **more: Any) -> None:
        """Note a ratio: how much of the raw rate we reach, in each round; above 1 is faster."""
        ratios = [bar / own for own, bar in zip(ours, theirs, strict=True)]
        row = {"measure": name, "ratio": statistics.median(ratios)}
        row |= {"least": min(ratios), "most": max(ratios), **more}
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def appends(self) -> None:
        """Group commit, and a sync for each append."""
        count = max(int(1500 * self.scale), 20)
        ready = [shapes.encoded(shapes.standard(1000, n), n) for n in range(16)]
        bundles = [
            EncodedBundle(n, ready[0].ingestion_ns, ready[n % 16].payloads) for n in range(count)
        ]
        written = shapes.frames(bundles)
        size = sum(map(len, written))
        ours, theirs = self.interleave(
            lambda place: grouped(place, bundles),
            lambda place: raw.append_grouped(place, written, interval=INTERVAL),
        )
        rate = size / statistics.median(ours) / 1e6
        target = 0.85
        self.add("group commit, 25 ms", ours, theirs, target=target, megabytes_per_second=rate)
        some = bundles[: max(count // 3, 20)]
        plain = [shapes.standard(1000, n) for n in range(16)]
        lists = self.interleave(
            lambda place: each_synced(place, some),
            lambda place: raw.append_each_synced(place, written[: len(some)]),
            lambda place: store_each(place, [plain[n % 16] for n in range(len(some))]),
        )
        own, bar, whole = ([sum(took) for took in found] for found in lists)
        self.add("a sync for each append", own, bar, target=0.7)
        self.add("the same by store.append, encoding included", whole, bar)
        own, bar = ([_p99(took) for took in found] for found in lists[:2])
        self.add("99th percentile of one synced append", own, bar, target=0.5)

    def replays(self) -> None:
        """Recovery until an append is taken, against a scan that only reads and checksums.

        Each in a process of its own and on a fresh copy, in turns that change places: what comes
        first finds another page cache than what comes second.
        """
        for entry_bytes, total, target in ((100_000, 512 << 20, 0.5), (2_000, 180_000_000, None)):
            count = max(int(total * self.scale) // entry_bytes, 50)
            place = self.folder / f"killed-{entry_bytes}"
            killed_store(place, entry_bytes, count)
            found: dict[str, list[Any]] = {"ours": [], "raw": []}
            for number in range(self.rounds + 1):
                for side in sorted(found, reverse=number % 2 == 0):
                    copy = self.folder / "copy"
                    shutil.copytree(place, copy)
                    os.sync()  # It is read from the disk, and nothing is left to be written.
                    act = recovered if side == "ours" else scanned
                    found[side].append(act(copy, count))
                    shutil.rmtree(copy)
            ours, peaks = zip(*found["ours"][1:], strict=True)  # The first round warms up.
            theirs = found["raw"][1:]
            rate = count / statistics.median(ours)
            more = {"entries_per_second": rate, "peak_megabytes": statistics.median(peaks) / 1e6}
            name = f"replay of {count:,} entries of {entry_bytes / 1000:.0f} KB"
            size = count * entry_bytes / 1e6
            self.add(name, list(ours), theirs, target=target, log_megabytes=size, **more)
            shutil.rmtree(place)

    def memory(self) -> None:
        """Recovery of a log far larger than what may be in memory."""
        for entry_bytes in (2_000, 1_000_000):
            count = max(int((1 << 30) * self.scale) // entry_bytes, 50)
            place = self.folder / f"large-{entry_bytes}"
            killed_store(place, entry_bytes, count)
            took, peak = recovered(place, count, config="BOUNDED")
            shutil.rmtree(place)
            most = 2 * BOUNDED.segment.target_size + 200_000_000
            row = {
                "measure": f"memory of a recovery of {count:,} entries of "
                f"{entry_bytes / 1000:,.0f} KB, in parts of what is allowed",
                "ratio": peak / most,
                "least": peak / most,
                "most": peak / most,
                "peak_megabytes": peak / 1e6,
                "allowed_megabytes": most / 1e6,
                "seconds": took,
            }
            self.rows.append(row)
            print(json.dumps(row), flush=True)


def _p99(took: list[float]) -> float:
    return sorted(took)[min(int(len(took) * 0.99), len(took) - 1)]


def report(rows: list[dict[str, Any]], rounds: int) -> str:
    """Write the page."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    where = (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, pyarrow {pa.__version__}. Made by `make bench-wal`: "
        f"medians of {rounds} rounds, ours and raw in turn."
    )
    lines = [
        "# The write-ahead log against the raw disk",
        "",
        where,
        "",
        "A ratio of 1 is as fast as the same bytes checksummed and written, or read, with nothing",
        "around and the same syncs; above is faster. Bundles of 1,000 rows in four slots.",
        "",
        "| measure | ratio | least to most | wanted | more |",
        "|---|---:|---:|---:|---|",
    ]
    for row in rows:
        extra = {
            k: v for k, v in row.items() if k not in ("measure", "ratio", "least", "most", "target")
        }
        more = ", ".join(f"{v:,.0f} {k.replace('_', ' ')}" for k, v in extra.items())
        wanted = "" if row.get("target") is None else f"{row['target']:.2f}"
        spread = f"{row['least']:.2f} to {row['most']:.2f}"
        lines.append(f"| {row['measure']} | {row['ratio']:.2f} | {spread} | {wanted} | {more} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.wal", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(Path(folder), rounds=asked.rounds, scale=asked.scale)
        bench.appends()
        bench.replays()
        bench.memory()
    page = report(bench.rows, asked.rounds)
    if not asked.attempt:
        (ROOT / "bench" / "WAL.md").write_text(page)
        (ROOT / "bench" / "wal.json").write_text(json.dumps(bench.rows, indent=2) + "\n")
    print(page)


if __name__ == "__main__":
    main()
