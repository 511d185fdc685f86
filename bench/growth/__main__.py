"""``make bench-growth``: what grows with the backlog, with subscribers, and with time.

Writes ``bench/GROWTH.md``, ``bench/growth.json`` and ``bench/growth.svg`` unless ``--try``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.growth.backlog import Stage, backlog
from bench.growth.crowd import SEGMENTS, Crowd, crowds
from bench.growth.memory import memory
from bench.growth.plots import Curve, draw
from bench.kit import ROOT, Bench


class Measure(NamedTuple):
    """What a measure is called, its unit, how many a second has, and how much it may grow."""

    title: str
    unit: str
    factor: float
    wanted: float | None = None


OF_BACKLOG: Final = {
    "append": Measure("append of a megabyte", "ms", 1e3, 1.25),
    "claim and ack": Measure("claim and ack of a bundle", "us", 1e6, 1.25),
    "tick": Measure("tick", "us", 1e6, 1.25),
    "lag": Measure("lag of a subscriber", "us", 1e6),
    "stats": Measure("stats", "us", 1e6),
    "open": Measure("opening, and closing again", "ms", 1e3),
    "scan": Measure("a new scan until its schema", "ms", 1e3),
}
OF_CROWD: Final = {
    "append": Measure("append of a bundle of 100 rows", "us", 1e6, 1.25),
    "claim": Measure("claim of one bundle", "us", 1e6, 1.25),
    "ack": Measure("ack of one bundle", "us", 1e6, 1.25),
    "tick": Measure("tick", "us", 1e6, 1.25),
    "stats": Measure("stats", "us", 1e6),
    "open": Measure("opening, and closing again", "ms", 1e3),
}
"""What a user expects to be flat has a bound."""

NOTES: Final = """
![what grows](growth.svg)

Ratios are of the last size to the first, medians with the spread of single values in the picture.
The backlog is of bundles of 10,000 rows in four slots, put in without a log; appends are timed
over the last 400 MB before each size, each entry durable within 25 ms, with the page cache warmed.
A claim reads one slot of a bundle that lies in the page cache. What has no number under "wanted"
goes over all segments that somebody still needs, or all subscribers: it may grow, but no faster
than these do.

Memory is what a process of its own has at most (VmHWM), less what it has after its imports and the
bundles it appends; bytes written are pages made dirty, by the kernel's count. The last measure has
no bound, but should be near 1.
"""


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.growth", description=__doc__)
    options.add_argument("--rounds", type=int, default=3, help="of what is measured of memory")
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument(
        "--only", choices=("backlog", "crowd", "memory"), action="append", help="no page then"
    )
    options.add_argument(
        "--seconds", type=float, default=float("inf"), help="for the backlog; larger ones left out"
    )
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    parts = asked.only or ["memory", "crowd", "backlog"]
    curves: list[Curve] = []
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(
            Path(folder),
            rounds=asked.rounds,
            scale=asked.scale,
            part="growth",
            title="What grows with the backlog, with subscribers, and with time",
        )
        if "memory" in parts:
            memory(bench)
        if "crowd" in parts:
            curves += told_of_crowds(bench, crowds(bench))
        if "backlog" in parts:
            curves = told_of_backlog(bench, backlog(bench, asked.seconds)) + curves
    bench.notes = [NOTES, *bench.notes]
    if not asked.attempt and not asked.only:
        bench.save()
        draw(curves, ROOT / "bench" / "growth")
    print(bench.page())


def told_of_backlog(bench: Bench, stages: Sequence[Stage]) -> list[Curve]:
    """Note how each measure grew with the backlog, and give its curve."""
    if len(stages) < 2:
        return []
    first, last = stages[0], stages[-1]
    span = f"{last.gigabytes:g} GB by {first.gigabytes:g} GB"
    bench.add("segments: " + span, [float(last.segments)], [float(first.segments)])
    samples = [stage.samples for stage in stages]
    curves = []
    places = [stage.gigabytes for stage in stages]
    for name, measure in OF_BACKLOG.items():
        values = [each[name] for each in samples]
        compare(bench, f"{measure.title}: {span}", measure, values)
        curves.append(curve(measure, "GB of backlog", places, values))
    more = (last.memory - first.memory) / max(last.segments - first.segments, 1)
    bench.add(
        f"memory of an open store: {span}",
        [float(last.memory)],
        [float(first.memory)],
        bytes_for_each_segment=more,
    )
    memories = [[stage.memory / 1e6] for stage in stages]
    curves.append(Curve("memory of an open store", "MB", "GB of backlog", places, memories))
    return curves


def told_of_crowds(bench: Bench, found: Sequence[Crowd]) -> list[Curve]:
    """Note how each measure grew with the subscribers, and give its curve."""
    first, last = found[0], found[-1]
    span = f"{last.subscribers} subscribers by {first.subscribers}"
    samples = [each.samples for each in found]
    places = [float(each.subscribers) for each in found]
    curves = []
    for name, measure in OF_CROWD.items():
        values = [each[name] for each in samples]
        compare(bench, f"{measure.title}: {span}", measure, values)
        curves.append(curve(measure, "subscribers", places, values))
    more = (last.memory - first.memory) / (last.subscribers - first.subscribers)
    bench.add(
        f"memory of an open store of {SEGMENTS} segments: {span}",
        [float(last.memory)],
        [float(first.memory)],
        kilobytes_for_each_subscriber=more / 1e3,
    )
    memories = [[each.memory / 1e6] for each in found]
    return [*curves, Curve("memory of an open store", "MB", "subscribers", places, memories)]


def compare(bench: Bench, title: str, measure: Measure, values: Sequence[list[float]]) -> None:
    """Note the ratio of the last to the first, each by rank."""
    count = min(len(values[0]), len(values[-1]))
    over, under = (sorted(each)[:count] for each in (values[-1], values[0]))
    first, last = (statistics.median(each) * measure.factor for each in (under, over))
    words = "microseconds" if measure.unit == "us" else "milliseconds"
    wanted = None if measure.wanted is None else ("at most", measure.wanted)
    more = {f"{words}_first": first, f"{words}_last": last}
    bench.add(title, over, under, wanted=wanted, **more)


def curve(
    measure: Measure, axis: str, places: Sequence[float], values: Sequence[list[float]]
) -> Curve:
    """Give the curve of one measure."""
    scaled = [[took * measure.factor for took in each] for each in values]
    return Curve(measure.title, measure.unit, axis, places, scaled)


if __name__ == "__main__":
    main()
