"""Many append to one manifest at once, and what became of each append is held against the queue."""

from __future__ import annotations

import multiprocessing
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Final, NamedTuple, Protocol

from quiver.ship.batch import mint_name
from quiver.ship.objects import Bucket, open_bucket, root_key
from quiver.ship.queue import Batch, Item, NewEntry, Queue, QueueOptions

__all__ = ["FORKSERVER", "Racer", "RacerError", "append_all", "check", "race", "race_of_threads"]

FORKSERVER: Final = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["race_kit"])
PATIENCE: Final = 300.0
SIZE: Final = 1 << 20


class Meeting(Protocol):
    """A barrier, of threads or of processes."""

    def wait(self, timeout: float) -> object: ...


class RacerError(AssertionError):
    """What was appended is not what is in the queue."""


class Racer(NamedTuple):
    """What one who appended was told, and when; times are those of the machine."""

    names: list[str]
    sequences: list[int | None]
    begun_ns: list[int]
    ended_ns: list[int]
    writes: int
    conflicts: int
    faults: int

    @property
    def seconds(self) -> float:
        """From the first append to the last answer."""
        return (self.ended_ns[-1] - self.begun_ns[0]) / 1e9

    @property
    def took(self) -> list[float]:
        """Seconds of each append."""
        return [(b - a) / 1e9 for a, b in zip(self.begun_ns, self.ended_ns, strict=True)]

    def done_by(self, moment_ns: int) -> int:
        """Say how many appends had their answer by then."""
        return sum(ended <= moment_ns for ended in self.ended_ns)


def append_all(queue: Queue, count: int, meeting: Meeting) -> Racer:
    """Append so many entries, one by one, from the moment that all are there."""
    names, sequences, begun, ended = [], [], [], []
    queue.read()
    meeting.wait(PATIENCE)
    for _ in range(count):
        begun.append(time.monotonic_ns())
        now_ns = time.time_ns()
        name = root_key(queue.bucket, mint_name(now_ns, secrets.token_bytes))
        entry = NewEntry(name, [Item(0, now_ns // 1_000_000, b"")], Batch(SIZE, 0))
        sequences += queue.append(entry)
        ended.append(time.monotonic_ns())
        names.append(name)
    counted = queue.counters
    return Racer(names, sequences, begun, ended, counted.writes, counted.conflicts, counted.faults)


def race(
    url: str, options: Mapping[str, str] | None = None, *, processes: int, appends: int, **of: int
) -> list[Racer]:
    """Let so many processes append; ``of`` are options of their queues."""
    meeting = FORKSERVER.Barrier(processes)
    with ExitStack() as stack:
        ears = []
        for _ in range(processes):
            ear, mouth = FORKSERVER.Pipe(duplex=False)
            child = FORKSERVER.Process(
                target=_run, args=(url, dict(options or {}), meeting, mouth, appends, of)
            )
            child.start()
            stack.callback(child.join)
            stack.callback(child.terminate)
            mouth.close()
            ears.append(ear)
        return [_hear(ear) for ear in ears]


def _hear(ear: Connection) -> Racer:
    if not ear.poll(2 * PATIENCE):
        raise RacerError("a racer does not answer")
    try:
        return Racer(*ear.recv())
    except EOFError:
        raise RacerError("a racer ended without an answer") from None
    finally:
        ear.close()


def _run(
    url: str,
    options: dict[str, str],
    meeting: Meeting,
    mouth: Connection,
    appends: int,
    of: dict[str, int],
) -> None:
    queue = Queue(open_bucket(url, options=options), options=QueueOptions(**of))
    mouth.send(tuple(append_all(queue, appends, meeting)))


def race_of_threads(
    bucket: Callable[[], Bucket], *, threads: int, appends: int, **of: int
) -> list[Racer]:
    """Let so many threads append, each through a bucket and a queue of its own."""
    meeting = threading.Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        queues = [Queue(bucket(), options=QueueOptions(**of)) for _ in range(threads)]
        return list(pool.map(lambda queue: append_all(queue, appends, meeting), queues))


def check(queue: Queue, racers: list[Racer]) -> None:
    """Hold a queue that nobody else used against them: none lost, none twice, no gap, in order."""
    entries = list(queue.read().entries())
    there = {entry.location: entry.sequence for entry in entries}
    said = {n: s for racer in racers for n, s in zip(racer.names, racer.sequences, strict=True)}
    count = sum(len(racer.names) for racer in racers)
    if len(said) != count or len(entries) != count or len(there) != count:
        raise RacerError(f"{count} appends, {len(entries)} entries, {len(there)} locations")
    if [entry.sequence for entry in entries] != list(range(count)):
        raise RacerError("the numbers have gaps, or are not in order")
    if there != said:
        wrong = [name for name in said if there.get(name) != said[name]]
        raise RacerError(f"{len(wrong)} of {count} have another number than was told: {wrong[:3]}")
    for racer in racers:
        if racer.sequences != sorted(racer.sequences):
            raise RacerError("the appends of one racer are not in their order")
