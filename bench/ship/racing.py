"""Eight processes append to one manifest: is anything lost, and does anybody starve?"""

from __future__ import annotations

from statistics import median
from typing import Final, NamedTuple

from race_kit import Racer, check, race

from bench.kit import Bench, quantile
from bench.ship.places import Place, opened
from quiver.ship.queue import Queue

__all__ = ["racing"]

PROCESSES: Final = 8
APPENDS: Final = 1_000
WANTED: Final = ("at most", 2.0)


class Found(NamedTuple):
    """What one race came to."""

    racers: list[Racer]
    entries: int

    @property
    def times(self) -> tuple[float, float]:
        """Seconds of the slowest, from his first append to his last answer; and of the fastest."""
        times = [racer.seconds for racer in self.racers]
        return max(times), min(times)

    @property
    def shares(self) -> tuple[int, int]:
        """Appends of the first to finish, and of the last, at the moment when the first is done."""
        first = min(racer.ended_ns[-1] for racer in self.racers)
        done = [racer.done_by(first) for racer in self.racers]
        return max(done), max(min(done), 1)


def racing(bench: Bench, place: Place, *, share: float = 1.0) -> None:
    """Let them race, in each round anew; raises RacerError if an entry is lost, or there twice."""
    appends = max(int(APPENDS * share * bench.scale), 10)
    found = [_race(place, appends) for _ in range(bench.rounds)]
    count = PROCESSES * appends
    racers = [racer for one in found for racer in one.racers]
    took = sorted(seconds for racer in racers for seconds in racer.took)
    whole = [
        (max(r.ended_ns[-1] for r in one.racers) - min(r.begun_ns[0] for r in one.racers)) / 1e9
        for one in found
    ]
    who = f"{place.name}: {PROCESSES} processes with {appends:,} appends each"
    worst = max(found, key=lambda one: one.shares[0] / one.shares[1])
    bench.add(
        f"{who}: appends of the first to finish by those of the last then, worst race",
        [worst.shares[0]],
        [worst.shares[1]],
        wanted=WANTED,
        races=len(found),
        least_uneven=min(one.shares[0] / one.shares[1] for one in found),
        appends_a_second=count / median(whole),
        conflicts_for_each_append=sum(racer.conflicts for racer in racers) / len(racers) / appends,
        p50_ms=1e3 * quantile(took, 0.5),
        p99_ms=1e3 * quantile(took, 0.99),
        longest_ms=1e3 * took[-1],
        faults=sum(racer.faults for racer in racers),
    )
    worst = max(found, key=lambda one: one.times[0] / one.times[1])
    bench.add(
        f"{who}: time of the slowest by that of the fastest, worst race",
        [worst.times[0]],
        [worst.times[1]],
        wanted=WANTED,
    )
    bench.add(
        f"{who}: entries, none lost, none twice, no gap, by appends",
        [one.entries for one in found],
        [count] * len(found),
        wanted=("at least", 1.0),
    )


def _race(place: Place, appends: int) -> Found:
    url = place.fresh()
    racers = race(url, place.options, processes=PROCESSES, appends=appends)
    queue = Queue(opened(place, url))
    check(queue, racers)
    return Found(racers, queue.read().entry_count)
