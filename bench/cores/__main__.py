"""``make bench-cores``: four writer processes of one store against one, in interleaved rounds.

Writes ``bench/CORES.md`` and ``bench/cores.json`` unless ``--try`` is given. Everything that is
compared is of one run on one machine; what counts are the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import quiver
from bench.cores.writers import SHARED, SLOTS, SPAWN, WRITERS, rate, small, stopped
from quiver.engine.neighbours import Neighbours

ROOT: Final = Path(__file__).parents[2]
TICKS: Final = 500
NAMES: Final = {"small": "small bundles", "large": "large bundles", "bare": "bare files"}
NOTE: Final = (
    "All writers have `retention.coordination` `shared`. Small bundles are ten rows in a log that",
    "is synced every 25 ms: work for Python. Large ones are 4 MiB of noise, each synced before its",
    "append returns: work for the disk. Bare files get the same bytes and syncs, and nothing else.",
    "",
    "| measure | ratio | wanted | more |",
    "|---|---:|---|---|",
)


def ticks(folder: Path) -> list[float]:
    """Tick a store of four cores with nothing to do, as its worker does; seconds of each."""
    stores = [quiver.open(folder, slots=SLOTS, config=SHARED, worker=False) for _ in range(WRITERS)]
    took = []
    for store in stores:
        store.append(small())
        store.finalize()
        store.maintain()
    around = Neighbours(stores[0]._core)  # noqa: SLF001
    for _ in range(TICKS):
        begun = time.perf_counter()
        stores[0].maintain()
        around.look()
        took.append(time.perf_counter() - begun)
    for store in stores:
        store.close()
    return took


class Bench:
    """What one run found."""

    def __init__(self, folder: Path, *, rounds: int, seconds: float) -> None:
        self.folder, self.rounds, self.seconds = folder, rounds, seconds
        self.rows: list[dict[str, Any]] = []

    def within(self, act: Callable[[Path], Any]) -> Any:
        """Do something in a folder of its own."""
        place = self.folder / "store"
        try:
            return act(place)
        finally:
            shutil.rmtree(place)

    def compare(self, shape: str, *, wanted: float = 0) -> None:
        """Measure one writer and four in turn, and the ratio of the medians."""
        rates: dict[int, list[float]] = {1: [], WRITERS: []}
        for number in range(self.rounds + 1):
            for count, found in rates.items():
                seconds = self.seconds if number else self.seconds / 4
                one = self.within(lambda p, c=count, s=seconds: rate(p, c, shape=shape, seconds=s))
                if number:
                    found.append(one)
        alone, together = (statistics.median(found) for found in rates.values())
        spread = [min(f) for f in rates.values()], [max(f) for f in rates.values()]
        self.note(
            f"{NAMES[shape]}, {WRITERS} writers against 1",
            ratio=together / alone,
            wanted=f"at least {wanted}" if wanted else "",
            reached=together / alone >= wanted,
            more=f"{alone:,.0f} a second ({spread[0][0]:,.0f} to {spread[1][0]:,.0f}) and "
            f"{together:,.0f} ({spread[0][1]:,.0f} to {spread[1][1]:,.0f})",
        )

    def stop_one(self) -> None:
        """See that nobody waits for one that is stopped."""
        found = [
            self.within(lambda p: stopped(p, seconds=self.seconds)) for _ in range(self.rounds)
        ]
        before, meanwhile = (statistics.median(times) for times in zip(*found, strict=True))
        stop = 0.9 * self.seconds - self.seconds / 3
        self.note(
            f"longest append of three writers while the fourth is stopped for {stop:.1f} s",
            ratio=meanwhile / before,
            wanted="far below the stop",
            reached=max(each for _, each in found) < stop / 4,
            more=f"{meanwhile * 1e3:.1f} ms, before that {before * 1e3:.1f} ms (medians; the "
            f"longest of all {max(each for _, each in found) * 1e3:.1f} ms)",
        )

    def tick(self) -> None:
        """See what a tick costs that has nothing to do."""
        took = self.within(ticks)
        median = statistics.median(took)
        self.note(
            f"tick with nothing to do, {WRITERS} cores, shared cap",
            ratio=median / 1e-3,
            wanted="at most 1 ms",
            reached=median <= 1e-3,
            more=f"{median * 1e6:.0f} us (median of {TICKS}), 99 % below "
            f"{np.quantile(took, 0.99) * 1e6:.0f} us",
        )

    def note(self, measure: str, **row: Any) -> None:
        self.rows.append({"measure": measure, **row})
        print(json.dumps(self.rows[-1]), flush=True)

    def page(self) -> str:
        """Write the page."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        where = (
            f"{datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} "
            f"GiB, Python {platform.python_version()}, pyarrow {pa.__version__}. Made by `make "
            f"bench-cores`: medians of {self.rounds} rounds of {self.seconds:g} s, what is "
            "compared in turn. What is not reached is in bold."
        )
        lines = ["# What several writers of one store cost each other", "", where, "", *NOTE]
        for row in self.rows:
            ratio = f"{row['ratio']:.2f}" if row["reached"] else f"**{row['ratio']:.2f}**"
            lines.append(f"| {row['measure']} | {ratio} | {row['wanted']} | {row['more']} |")
        return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.cores", description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=6.0, help="how long writers append")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    SPAWN.set_forkserver_preload(["pyarrow", "quiver.engine", "bench.cores.writers"])
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(Path(folder), rounds=asked.rounds, seconds=asked.seconds)
        bench.compare("small", wanted=1.6)
        bench.compare("large", wanted=0.95)
        bench.compare("bare")
        bench.stop_one()
        bench.tick()
    page = bench.page()
    if not asked.attempt:
        (ROOT / "bench" / "CORES.md").write_text(page)
        (ROOT / "bench" / "cores.json").write_text(json.dumps(bench.rows, indent=2) + "\n")
    print(page)


if __name__ == "__main__":
    main()
