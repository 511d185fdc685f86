"""Batches of several sizes into a million keys, and many of one size: time and memory."""

from __future__ import annotations

import statistics
from typing import Any, Final

from bench.kit import Bench
from bench.upsert.gauges import memory_of
from bench.upsert.load import mixed
from bench.upsert.plots import Line, Panel
from bench.upsert.sides import DELTA, OURS, SPARK, TASKS, Sides, sides

__all__ = ["add", "batches", "panels"]

KEYS: Final = 1_000_000
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
_WANTED: Final = {10_000: 1.0, 1_000_000: 1.2}
"""At most so many times the MERGE of the same commands."""
_MANY: Final = 40
"""Batches of ten thousand in a row, in which memory is looked at."""
_WARM: Final = 10
"""Before these memory still grows: code is loaded and compiled."""
_JVM_BYTES: Final = 1.5e9
_WORKER_BYTES: Final = 0.5e9
_FLAT: Final = 1.15


def batches(bench: Bench) -> None:
    """Measure both, on all sides in turn."""
    keys = max(int(KEYS * bench.scale), 1000)
    with sides(bench, "batches", with_spark=True) as every:
        every.load(keys)
        found = _sizes(bench, every, keys)
        memory = _many(bench, every, keys)
        if differing := every.differing():
            raise SystemExit(f"{', '.join(differing)}: other rows than {OURS}")
    bench.notes.append(f"All sides held the same rows at the end of *batches*: {keys:,} or so.")
    bench.more["by_size"], bench.more["by_batches"] = found, memory


def _sizes(bench: Bench, every: Sides, keys: int) -> dict[str, Any]:
    found: dict[int, dict[str, list[float]]] = {size: {} for size in SIZES}
    jobs: list[float] = []
    assert every.spark is not None
    for number in range(bench.rounds + 1):
        for size in SIZES:
            count = max(int(size * bench.scale), 10)
            took = every.take(mixed(count, keys, number * 10 + len(str(size))))
            job = every.spark.job()
            if number:
                jobs += [job] if size == SIZES[-1] else []
                for name, seconds in took.items():
                    found[size].setdefault(name, []).append(seconds)
    for size, sums in found.items():
        in_tasks = (TASKS,) if size == SIZES[-1] else ()  # Smaller ones the driver always takes.
        for side in (SPARK, *in_tasks, OURS):
            if DELTA in sums:
                add(bench, side, size, sums)
    if DELTA in found[SIZES[-1]]:
        bench.add(
            f"a job of Spark with two tasks in Python that do nothing, by MERGE of {SIZES[-1]:,}",
            jobs,
            found[SIZES[-1]][DELTA],
            milliseconds=statistics.median(jobs) * 1e3,
        )
    return {str(size): sums for size, sums in found.items()}


def add(bench: Bench, side: str, size: int, sums: dict[str, list[float]]) -> None:
    median = {name: statistics.median(values) for name, values in sums.items()}
    extra = (f"{OURS}, tended",) if side == OURS else (f"{side}, whole",)
    bench.add(
        f"{size:,} commands, {side}: its batch by MERGE",
        sums[side],
        sums[DELTA],
        wanted=("at most", _WANTED[size]) if size in _WANTED and side != TASKS else None,
        seconds=median[side],
        **{f"seconds {name.rpartition(', ')[2]}": median[name] for name in extra},
        seconds_of_MERGE=median[DELTA],
        seconds_with_one_command_for_each_key_found=median[f"{DELTA}, reduced"],
    )


def _many(bench: Bench, every: Sides, keys: int) -> dict[str, list[float]]:
    """Give both our sides many small batches, and look at their memory behind each."""
    assert every.spark is not None
    found: dict[str, list[float]] = {"JVM": [], "largest worker": [], "this process": []}
    most = {"JVM": 0, "largest worker": 0}
    count = max(int(SIZES[1] * bench.scale), 10)
    for number in range(_MANY):
        commands = mixed(count, keys, 500 + number)
        every.ours.take(commands)
        every.ours.tend()
        every.spark.take(commands)
        if every.tasks is not None:
            every.tasks.take(commands)
        if every.delta is not None:
            every.delta.take(commands)
        jvm, workers = every.spark.memory()
        own = memory_of()
        assert own is not None
        now = jvm.own, max(worker.own for worker in workers), own.own
        for values, value in zip(found.values(), now, strict=True):
            values.append(float(value))
        most["JVM"] = max(most["JVM"], jvm.most)
        most["largest worker"] = max(most["largest worker"], *(each.most for each in workers))
    for name, bound in (("JVM", _JVM_BYTES), ("largest worker", _WORKER_BYTES)):
        bench.add(
            f"most memory of {name}, by {bound / 1e9:g} GB",
            [float(most[name])],
            [bound],
            wanted=("at most", 1.0),
            megabytes=most[name] / 1e6,
        )
        early, late = found[name][_WARM : 2 * _WARM], found[name][-_WARM:]
        bench.add(
            f"memory of {name}: batches {_MANY - _WARM} to {_MANY} by {_WARM} to {2 * _WARM}",
            late,
            early,
            wanted=("at most", _FLAT),
            megabytes_first=statistics.median(early) / 1e6,
            megabytes_last=statistics.median(late) / 1e6,
        )
    return found


def panels(bench: Bench) -> list[Panel]:
    """Give the pictures of what was measured here."""
    sizes = bench.more["by_size"]
    lines = [
        Line(side, [float(size) for size in sizes], [sums[side] for sums in sizes.values()])
        for side in (OURS, SPARK, DELTA)
        if all(side in sums for sums in sizes.values())
    ]
    places = list(range(1, _MANY + 1))
    memory = [
        Line(name, places, [[value / 1e6] for value in values])
        for name, values in bench.more["by_batches"].items()
    ]
    return [
        Panel("a batch into a million keys", "commands", "seconds", lines),
        Panel("memory, behind each of many batches", "batches of 10,000", "MB", memory, False),
    ]
