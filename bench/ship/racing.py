"""Eight processes append to one manifest: is anything lost, and does anybody starve?"""

from __future__ import annotations

from typing import Final

from race_kit import check, race

from bench.kit import Bench, quantile
from bench.ship.places import Place, opened
from quiver.ship.queue import Queue

__all__ = ["racing"]

PROCESSES: Final = 8
APPENDS: Final = 1_000
WANTED: Final = ("at most", 2.0)


def racing(bench: Bench, place: Place, *, share: float = 1.0) -> None:
    """Let them race once; raises RacerError if an entry is lost, there twice, or out of order."""
    appends = max(int(APPENDS * share * bench.scale), 10)
    url = place.fresh()
    racers = race(url, place.options, processes=PROCESSES, appends=appends)
    queue = Queue(opened(place, url))
    check(queue, racers)
    entries = queue.read().entry_count
    count = PROCESSES * appends
    took = sorted(seconds for racer in racers for seconds in racer.took)
    begun = min(racer.begun_ns[0] for racer in racers)
    seconds = (max(racer.ended_ns[-1] for racer in racers) - begun) / 1e9
    first = min(racer.ended_ns[-1] for racer in racers)
    least = min(racer.done_by(first) for racer in racers)
    who = f"{place.name}: {PROCESSES} processes with {appends:,} appends each"
    times = [racer.seconds for racer in racers]
    bench.add(
        f"{who}: time of the slowest by that of the fastest",
        [max(times)],
        [min(times)],
        wanted=WANTED,
        appends_a_second=count / seconds,
        conflicts_for_each_append=sum(racer.conflicts for racer in racers) / count,
        p50_ms=1e3 * quantile(took, 0.5),
        p99_ms=1e3 * quantile(took, 0.99),
        longest_ms=1e3 * took[-1],
        faults=sum(racer.faults for racer in racers),
    )
    bench.add(
        f"{who}: appends of the first to finish by those of the last, at that moment",
        [appends],
        [max(least, 1)],
        wanted=WANTED,
    )
    bench.add(
        f"{who}: entries, none lost, none twice, no gap, by appends",
        [entries],
        [count],
        wanted=("at least", 1.0),
        entries=entries,
    )
