"""Larger collections: what a batch costs then, and what it takes to make one."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bench.kit import ROOT, Bench, clocked
from bench.upsert.gauges import memory_of
from bench.upsert.load import mixed, snapshot
from bench.upsert.ours import Ours
from bench.upsert.plots import Line, Panel
from bench.upsert.sides import DELTA, OURS, SPARK, bench_session, sides
from bench.upsert.spark_side import Sparked

__all__ = ["growth", "initial", "panels"]

KEYS: Final = (100_000, 1_000_000, 4_000_000, 10_000_000)
SIZE: Final = 10_000
_ROUNDS: Final = 3
"""For each round of the others: single small batches are quick, and their times differ."""
_GROWS: Final = 1.5
"""At most, from one million keys to ten."""
_FLAT: Final = 1.2
_DRIVER_BYTES: Final = 0.5e9
"""What a worker may have: here the driver is the only one."""
_EARLY: Final = 3
"""Pieces of an initial snapshot after which memory should not grow any more."""


def growth(bench: Bench) -> None:
    """Give batches of one size to ever larger collections."""
    found: dict[str, dict[str, list[float]]] = {}
    for keys in (max(int(each * bench.scale), 1000) for each in KEYS):
        with sides(bench, f"growth-{keys}", with_spark=False) as every:
            every.load(keys)
            every.ours.tend()
            sums = found.setdefault(str(keys), {})
            for number in range(_ROUNDS * bench.rounds + 1):
                took = every.take(mixed(max(int(SIZE * bench.scale), 10), keys, number))
                if number:
                    for name, seconds in took.items():
                        sums.setdefault(name, []).append(seconds)
            if differing := every.differing():
                raise SystemExit(f"{', '.join(differing)}: other rows than {OURS}")
    bench.more["by_keys"] = found
    names = list(found)
    one, ten = found[names[1]], found[names[-1]]
    for side in (OURS, DELTA):
        if side in one:
            bench.add(
                f"{SIZE:,} commands, {side}: {KEYS[-1]:,} keys by {KEYS[1]:,}",
                ten[side],
                one[side],
                wanted=("at most", _GROWS) if side == OURS else None,
                milliseconds_first=statistics.median(one[side]) * 1e3,
                milliseconds_last=statistics.median(ten[side]) * 1e3,
            )
    tended = f"{OURS}, tended"
    bench.add(
        f"{SIZE:,} commands, {OURS}, with all tending of these rounds: as above",
        [statistics.fmean(ten[tended])],
        [statistics.fmean(one[tended])],
        milliseconds_first=statistics.fmean(one[tended]) * 1e3,
        milliseconds_last=statistics.fmean(ten[tended]) * 1e3,
    )


def initial(bench: Bench) -> None:
    """Make a collection of ten million keys, in tens; then give small batches to it and a tenth."""
    keys = max(int(KEYS[-1] * bench.scale), 10_000)
    folder = bench.folder / "initial"
    folder.mkdir()
    found = {OURS: _child(folder / "ours", keys, 0)}
    found[SPARK] = _child(folder / "spark", keys, _ROUNDS * bench.rounds + 1)
    grown = found[SPARK].pop("grown")
    first, last = (found[SPARK].pop(str(count)) for count in (keys // 10, keys))
    bench.more["initial"] = found
    for name, told in found.items():
        for who in [key for key in told if key != "seconds"]:
            values = told[who]
            bench.add(
                f"initial snapshot of {KEYS[-1]:,} keys, {name}: most memory of {who} in the end "
                f"by that behind {_EARLY} million",
                [values[-1]],
                [values[min(_EARLY, len(values)) - 1]],
                wanted=("at most", _FLAT),
                megabytes=values[-1] / 1e6,
                seconds=sum(told["seconds"]),
            )
    most = max(grown)
    bench.add(
        f"{KEYS[1]:,} commands, {SPARK}: most memory of the driver above what it has, by 0.5 GB",
        [most],
        [_DRIVER_BYTES],
        wanted=("at most", 1.0),
        megabytes=most / 1e6,
    )
    bench.add(
        f"{SIZE:,} commands, {SPARK}: {KEYS[-1]:,} keys by {KEYS[1]:,}",
        last,
        first,
        wanted=("at most", _GROWS),
        milliseconds_first=statistics.median(first) * 1e3,
        milliseconds_last=statistics.median(last) * 1e3,
    )
    bench.more["spark_by_keys"] = {str(keys // 10): first, str(keys): last}


def _child(folder: Path, keys: int, batches: int) -> dict[str, Any]:
    """Load a collection in a process of its own; with Spark, if it is to take batches then."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "bench.upsert.large", str(folder), str(keys), str(batches)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _load(folder: Path, keys: int) -> dict[str, list[float]]:
    """Load a collection in this process, and say how much memory that took so far."""
    found: dict[str, list[float]] = {"seconds": [], "the process": []}
    ours = Ours(folder / "collection")
    for piece in snapshot(keys, piece=keys // 10):
        found["seconds"].append(clocked(lambda piece=piece: (ours.take(piece), ours.tend())))
        found["the process"].append(_most())
    ours.close()
    return found


def _load_with_spark(folder: Path, keys: int, batches: int) -> dict[str, list[float]]:
    """Load one with Spark, and one of a tenth; then give both small batches, in turn."""
    found: dict[str, list[float]] = {"seconds": [], "JVM": [], "driver": [], "grown": []}
    with bench_session(folder) as spark:
        side, less = Sparked(spark, folder / "all"), Sparked(spark, folder / "tenth")
        try:
            for piece in snapshot(keys, piece=keys // 10):
                found["seconds"].append(side.take(piece).batch)
                found["JVM"].append(float(side.memory()[0].most))
                found["driver"].append(_most())
                found["grown"].append(float(side.grown))
            for piece in snapshot(keys // 10, piece=keys // 100):
                less.take(piece)
            for number in range(batches):
                for each, count in ((less, keys // 10), (side, keys)):
                    took = each.take(mixed(max(SIZE * keys // KEYS[-1], 10), count, number)).batch
                    if number:
                        found.setdefault(str(count), []).append(took)
        finally:
            side.stop()
            less.stop()
    return found


def _most() -> float:
    memory = memory_of()
    assert memory is not None
    return float(memory.most)


def panels(bench: Bench) -> list[Panel]:
    """Give the pictures of what was measured here."""
    by_keys = bench.more["by_keys"]
    lines = [
        Line(side, [float(keys) for keys in by_keys], [sums[side] for sums in by_keys.values()])
        for side in (OURS, DELTA)
        if all(side in sums for sums in by_keys.values())
    ]
    if spark := bench.more.get("spark_by_keys"):
        lines.append(Line(SPARK, [float(keys) for keys in spark], list(spark.values())))
    memory = [
        Line(
            f"{name}: {who}",
            range(1, len(told[who]) + 1),
            [[value / 1e6] for value in told[who]],
        )
        for name, told in bench.more["initial"].items()
        for who in told
        if who != "seconds"
    ]
    return [
        Panel("ten thousand commands", "keys in the collection", "seconds", lines),
        Panel("most memory, of an initial snapshot", "million keys", "MB", memory, is_log=False),
    ]


if __name__ == "__main__":
    where, count, small = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(_load_with_spark(where, count, small) if small else _load(where, count)))
