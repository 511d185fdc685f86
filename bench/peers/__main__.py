"""``make bench-peers``: the same durable appends by Quiver and by others, in interleaved rounds.

Writes ``bench/PEERS.md``, ``bench/peers.json`` and ``bench/peers.svg`` unless ``--try``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.kit import ROOT, Bench
from bench.peers import chart, given, page
from bench.peers.ceiling import Ceiling, Goal, ceilings, section
from bench.peers.peer import Mode
from bench.peers.peers import MODULES, RAW, TWO_COPIES, find, missing, modes
from bench.peers.runs import Side, count_syncs, measure

ROWS: Final = 1000
SIZES: Final = (100, ROWS, 10_000)
FAST: Final = ("quiver", "lmdb", "lmdb-writemap", "rocksdb", "sqlite-full", "redis-always")
"""Those are measured at all sizes, and in each round."""
OFTEN: Final = (*FAST, "sqlite-default")
"""Those are measured in each round; the others in every third one."""
VARIANTS: Final = (
    "lmdb-writemap",
    "sqlite-default",
    "sqlite-normal",
    "redis-everysec",
    "arrow-files",
    "parquet-files",
    *RAW,
)
"""Of the same version as another one, as pyarrow, or as the kernel."""
SECONDS: Final = 2.0
SLOW_SECONDS: Final = 1.0
BYTES: Final = 500e6
"""Quiver writes them twice, and so much is warmed."""
WANTED: Final[dict[tuple[Mode, str], float]] = {
    ("group", "sqlite-full"): 4.0,
    ("group", "sqlite-default"): 4.0,
    ("group", "redis-always"): 4.0,
    ("group", "rocksdb"): 2.5,
    ("group", "lmdb"): 1.25,
    ("each", "sqlite-full"): 2.0,
    ("each", "sqlite-default"): 2.0,
    ("each", "rocksdb"): 1.7,
    ("each", "lmdb"): 1.3,
    ("each", "parquet-files"): 10.0,
    ("each", "duckdb"): 10.0,
    ("each", "delta"): 10.0,
    ("each", "lance"): 10.0,
}
WANTED_P99: Final = 3.0
WORDS: Final[dict[Mode, str]] = {"group": "25 ms", "each": "a sync for each append"}


class Peers(Bench):
    """All sides, and what each run of them found, by round."""

    def __init__(self, folder: Path, *, rounds: int, scale: float, names: list[str]) -> None:
        title = "Quiver beside other stores"
        super().__init__(folder, rounds=rounds, scale=scale, part="peers", title=title)
        self.absent = {name: why for name in names if (why := missing(name))}
        self.names = [name for name in names if name not in self.absent]
        self.found: dict[Side, dict[int, dict[str, Any]]] = {}
        self.syncs: dict[str, float | None] = {}
        for name, why in self.absent.items():
            print(f"NOT MEASURED: {name}: {why}", file=sys.stderr, flush=True)

    def sides(self, number: int) -> list[Side]:
        """Give what takes part in a round; every second one goes backwards."""
        found = []
        for rows in SIZES if number == 0 else (ROWS,):
            for name in self.names:
                often = name in OFTEN or number % 3 == 0
                if name in RAW:  # The same in each round, more or less, and they take a while.
                    often = number == 0 or (number == 1 and name in TWO_COPIES)
                if name in FAST or (rows == ROWS and often):
                    found += [Side(name, mode, rows) for mode in modes(name)]
        return found[::-1] if number % 2 else found

    def run(self, seconds: float) -> None:
        """Measure all rounds, or those that can be done within so many seconds."""
        begun = time.monotonic()
        longest = 0.0
        for rows in SIZES:
            given.prepare(self.folder / f"given-{rows}", rows)
        for name in self.names:
            if name not in VARIANTS:
                self.versions[name] = find(name).version()
            # Nobody's modules are read from the disk for the first time when it is measured.
            self.syncs[name] = count_syncs(Side(name, "each", ROWS), self.folder)
        for number in range(self.rounds):
            start = time.monotonic()
            if number and start + longest - begun > seconds:
                print(f"{self.rounds - number} rounds left out: it takes long", file=sys.stderr)
                self.rounds = number
                break
            for side in self.sides(number):
                self.measure(side, number)
            if number:
                longest = max(longest, time.monotonic() - start)

    def measure(self, side: Side, number: int) -> None:
        """Let one side run; one that fails is told on the page, and Quiver must not."""
        is_fast = side.peer in OFTEN or side.peer in RAW
        seconds = (SECONDS if is_fast else SLOW_SECONDS) * min(1.0, 3 * self.scale)
        try:
            one = measure(side, self.folder, seconds=seconds, byte_count=BYTES * self.scale)
        except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
            if side.peer == "quiver":
                raise
            why = str(error).strip().splitlines()[-1][:200]
            self.absent[f"{side.peer}, {WORDS[side.mode]}, round {number + 1}"] = why
            print(f"FAILED: {side}: {error}", file=sys.stderr, flush=True)
            return
        self.found.setdefault(side, {})[number] = one
        what = f"{number} {side.peer} {side.mode} {side.rows}"
        print(f"{what}: {one['rate']:.0f} MB/s", file=sys.stderr, flush=True)

    def compare(self) -> None:
        """Make the rows."""
        for rows in (ROWS, *(size for size in SIZES if size != ROWS)):
            for side in [side for side in self.found if side.rows == rows]:
                if side.peer != "quiver":
                    self.compare_with(side)

    def compare_with(self, side: Side) -> None:
        theirs, all_ours = self.found[side], self.found[side._replace(peer="quiver")]
        ours = {number: all_ours[number] for number in theirs}
        what = f"{WORDS[side.mode]}, {side.rows:,} rows: throughput, Quiver by {side.peer}"
        wanted = WANTED.get((side.mode, side.peer)) if side.rows == ROWS else None
        more = {
            "megabytes_per_second": page.median(ours, "rate"),
            f"of_{side.peer}": page.median(theirs, "rate"),
        }
        self.add(
            what,
            [one["rate"] for one in ours.values()],
            [one["rate"] for one in theirs.values()],
            wanted=None if wanted is None else ("at least", wanted),
            **more,
        )
        if (side.mode, side.peer, side.rows) == ("each", "lmdb", ROWS):
            self.add(
                f"{WORDS['each']}, {ROWS:,} rows: 99th percentile of an append, Quiver by lmdb",
                [one["ack_0.99"] for one in ours.values()],
                [one["ack_0.99"] for one in theirs.values()],
                wanted=("at most", WANTED_P99),
                milliseconds=page.median(ours, "ack_0.99"),
                of_lmdb=page.median(theirs, "ack_0.99"),
            )

    def ceilings(self) -> list[Ceiling]:
        """Set the goals beside raw writing."""
        goals = [Goal(mode, peer, "rate", times) for (mode, peer), times in WANTED.items()]
        goals.append(Goal("each", "lmdb", "ack_0.99", WANTED_P99))
        return ceilings(self.found, goals, ROWS)

    def save(self) -> None:
        super().save()
        place = ROOT / "bench" / "peers.json"
        whole = json.loads(place.read_text())
        whole["sides"] = [
            {**side._asdict(), **page.medians(rounds)} for side, rounds in self.found.items()
        ]
        whole["ceilings"] = [one.row() for one in self.ceilings()]
        place.write_text(json.dumps(whole, indent=2) + "\n")


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument(
        "--seconds", type=float, default=600.0, help="rounds that would end later are left out"
    )
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    options.add_argument(
        "--only", action="append", choices=sorted(MODULES), help="this one beside Quiver; again"
    )
    asked = options.parse_args()
    names = [name for name in MODULES if not asked.only or name in {"quiver", *asked.only}]
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Peers(Path(folder), rounds=asked.rounds, scale=asked.scale, names=names)
        bench.run(asked.seconds)
    bench.compare()
    bench.notes = [
        *section(bench.ceilings(), WORDS),
        *page.notes(bench.found, bench.syncs, bench.absent),
    ]
    if not asked.attempt:
        bench.save()
        chart.draw(bench.found, ROWS, ROOT / "bench" / "peers")
    print(bench.page())


if __name__ == "__main__":
    main()
