"""What one append costs, by how many entries wait: with pages, and with all of them in line."""

from __future__ import annotations

import secrets
import statistics
import time
from typing import Final

from race_kit import Racer, race

from bench.kit import Bench
from bench.ship.places import Place, opened
from quiver.ship.batch import mint_name
from quiver.ship.objects import root_key
from quiver.ship.queue import Batch, Item, NewEntry, Queue, QueueOptions

__all__ = ["backlog"]

BACKLOGS: Final = (0, 1_000, 10_000, 100_000)
APPENDS: Final = 256
"""Of one round; three rounds are as many as make a page."""
FEW: Final = 12
"""Where each moves megabytes."""
LARGE: Final = 2_000_000
IN_LINE_OF_MANY: Final = 10_000
"""Four producers are not kept waiting for more in line than that."""
PRODUCERS: Final = 4
GOAL: Final = {10_000: ("at most", 3.0)}


class _Backlog:
    """A queue with so many entries in it."""

    def __init__(self, place: Place, count: int, *, paged: bool, appends: int) -> None:
        self.place, self.count, self._appends = place, count, appends
        self.paged = paged
        self._of = {} if paged else {"page_entries": 0}
        self.url = place.fresh()
        self.queue = Queue(opened(place, self.url), options=QueueOptions(**self._of))
        step = 1_000 if paged else 10_000
        for begin in range(0, count, step):
            self.queue.append(*(self._entry() for _ in range(min(step, count - begin))))
        self.manifest_bytes: list[int] = []
        self.pages = 0

    def _entry(self) -> NewEntry:
        now_ns = time.time_ns()
        name = root_key(self.queue.bucket, mint_name(now_ns, secrets.token_bytes))
        return NewEntry(name, [Item(0, now_ns // 1_000_000, b"")], Batch(1 << 20, 0))

    def _reset(self) -> None:
        """Have as many entries wait as are said, no more."""
        extra = self.queue.read().next_sequence - self.count
        if not self.count and extra:
            epoch = self.queue.start().epoch
            self.queue.dequeue(self.queue.read().next_sequence - 1, epoch=epoch)

    def _note(self) -> None:
        view = self.queue.read()
        self.manifest_bytes.append(len(view.manifest.data))
        self.pages = len(view.pages)

    def _most(self) -> int:
        return FEW if len(self.queue.read().manifest.data) > LARGE else self._appends

    def alone(self) -> float:
        """Let one append for a while; seconds of each on average."""
        self._reset()
        count = self._most()
        begun = time.perf_counter()
        for _ in range(count):
            self.queue.append(self._entry())
        took = (time.perf_counter() - begun) / count
        self._note()
        return took

    def together(self) -> float:
        """Let four processes append; seconds from one entry in the queue to the next."""
        self._reset()
        each = self._most() // PRODUCERS
        racers = race(self.url, self.place.options, processes=PRODUCERS, appends=each, **self._of)
        self._note()
        return _seconds(racers) / (each * PRODUCERS)


def _seconds(racers: list[Racer]) -> float:
    begun = min(racer.begun_ns[0] for racer in racers)
    return (max(racer.ended_ns[-1] for racer in racers) - begun) / 1e9


def backlog(bench: Bench, place: Place) -> None:
    """Measure all backlogs in turn; in a folder, which syncs each time, the one that has a goal."""
    counts = BACKLOGS if place.options else (0, 10_000)
    appends = max(int(APPENDS * bench.scale), 4 * PRODUCERS)
    queues = {
        (count, paged): _Backlog(place, count, paged=paged, appends=appends)
        for paged in (True, False)
        for count in counts
        if paged or count
    }
    for act, who in (("alone", "one producer"), ("together", f"{PRODUCERS} producers")):
        asked = {
            (count, paged): queue
            for (count, paged), queue in queues.items()
            if act == "alone" or paged or count <= IN_LINE_OF_MANY
        }
        found = bench.interleave(**{f"{c}_{p}": getattr(q, act) for (c, p), q in asked.items()})
        for (count, paged), queue in asked.items():
            if count:
                _add(bench, queue, found[f"{count}_{paged}"], found["0_True"], who=who)


def _add(bench: Bench, queue: _Backlog, took: list[float], empty: list[float], *, who: str) -> None:
    bench.add(
        f"{queue.place.name}: an append of {who}, {queue.count:,} entries wait, "
        f"{'with pages' if queue.paged else 'all in line'}: by that to an empty queue",
        took,
        empty,
        wanted=GOAL.get(queue.count) if queue.paged else None,
        ms_each=1e3 * statistics.median(took),
        ms_each_if_empty=1e3 * statistics.median(empty),
        bytes_of_the_manifest_at_most=max(queue.manifest_bytes),
        pages=queue.pages,
    )
