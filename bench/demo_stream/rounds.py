"""Which part is killed when, and what must hold after each kill and at the end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import quiver
from bench.demo_stream.compare import Outcome, committed, compare, deleted_early
from bench.demo_stream.processes import Actor, descendants, kill, python
from bench.demo_stream.writer import SLOTS

__all__ = ["VICTIMS", "Play", "plan"]

VICTIMS: Final = ("writer", "driver", "worker")
_CORES: Final = 2
_START_SECONDS: Final = 180.0
_END_SECONDS: Final = 300.0
_TRIES: Final = 3
_REACH_SECONDS: Final = 1.5
"""A kill comes at some moment within this time after the last one was recovered from."""


def plan(rounds: int, rng: random.Random) -> list[str]:
    """Choose who is killed: each kind once in three rounds, in any order."""
    found: list[str] = []
    while len(found) < rounds:
        found += rng.sample(VICTIMS, len(VICTIMS))
    return found[:rounds]


@dataclass
class Play:
    """One store, its writers and its query, in a folder of their own."""

    folder: str
    rng: random.Random
    tell: Callable[[str], object] = lambda _: None
    kills: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=lambda: [0] * _CORES)

    def __post_init__(self) -> None:
        """Make the store and say what there is to start."""
        os.makedirs(self.folder, exist_ok=True)
        self.store, self.checkpoint, self.sink = (
            os.path.join(self.folder, name) for name in ("store", "checkpoint", "parquet")
        )
        with quiver.open(self.store, slots=SLOTS, core=0):
            pass
        log = os.path.join(self.folder, "stderr.txt")
        self.writers = [
            Actor(
                f"writer {core}", python("bench.demo_stream.writer", self.store, str(core)), log=log
            )
            for core in range(_CORES)
        ]
        places = [self.store, self.checkpoint, self.sink]
        self.query = Actor("query", python("bench.demo_stream.query", *places), log=log)

    def run(self, victims: Sequence[str]) -> Outcome:
        """Kill one after the other, let all come to an end, and compare."""
        try:
            self._begin()
            for number, victim in enumerate(victims, 1):
                time.sleep(self.rng.random() * _REACH_SECONDS)
                told = self._strike(victim)
                early = deleted_early(self.store, self.checkpoint, cores=_CORES)
                self.problems += early
                self.tell(f"  {number:>4}  {told}{'  ' + early[0] if early else ''}")
            return self._end()
        finally:
            for actor in (*self.writers, self.query):
                if actor.is_alive:
                    actor.kill()

    def _begin(self) -> None:
        for writer in self.writers[:1]:
            self._start_writer(writer)
        # The slot has to have a segment before its columns are known.
        self.writers[0].await_that(self._has_segment, _START_SECONDS)
        self._start_query()
        for writer in self.writers[1:]:  # A core that comes while the query runs.
            self._start_writer(writer)
        self._await_batch()

    def _has_segment(self) -> bool:
        folder = os.path.join(self.store, "core_0", "segments")
        return any(name.endswith(".qseg") for name in os.listdir(folder))

    def _start_writer(self, writer: Actor) -> None:
        writer.start()
        if not writer.await_that(lambda: writer.has_said("ready"), _START_SECONDS):
            raise SystemExit(f"{writer.name} did not start; see {self.folder}/stderr.txt")

    def _start_query(self) -> None:
        self.query.start()
        if not self.query.await_that(lambda: self.query.has_said("running"), _START_SECONDS):
            raise SystemExit(f"the query did not start; see {self.folder}/stderr.txt")

    def _await_batch(self) -> None:
        """Wait until the query has done something since it was started, or has ended."""
        self.query.await_that(lambda: self.query.has_said("batch"), _START_SECONDS)

    def _strike(self, victim: str) -> str:
        """Kill one, and start again what is gone by that."""
        said = ""
        if victim == "writer":
            writer = self.rng.choice(self.writers)
            writer.kill()
            self._note(writer)
            self.kills[victim] += 1
            said = f"{writer.name}, behind bundle {self.acknowledged[self.writers.index(writer)]:,}"
            self._start_writer(writer)
        elif victim == "driver":
            batches = [line for line in self.query.lines if line.startswith("batch")]
            self.query.kill()
            self.kills[victim] += 1
            said = f"driver and JVM, behind {' '.join(batches[-1].split()[:2]) if batches else '-'}"
        else:
            below = descendants(self.query.pid, named="pyspark")
            pythons = [pid for pid in below if "java" not in _program(pid)]
            if pythons:
                kill(self.rng.choice(pythons))
                self.kills[victim] += 1
            said = f"one of {len(pythons)} Python processes of Spark"
            time.sleep(self.rng.random() * _REACH_SECONDS)
        if not self.query.is_alive:
            self.query.kill()
            self._start_query()
            self._await_batch()
            said += "; query started again"
        return f"SIGKILL  {said}"

    def _note(self, writer: Actor) -> None:
        """Remember what a writer was told to be durable."""
        core = self.writers.index(writer)
        numbers = [int(line.split()[1]) for line in writer.lines if line.startswith("durable")]
        if numbers:
            self.acknowledged[core] = max(self.acknowledged[core], numbers[-1] + 1)

    def _end(self) -> Outcome:
        """Let writers and query finish: all finalized, read, committed, acked and deleted."""
        bundles, ends = {}, {}
        for core, writer in enumerate(self.writers):
            writer.kill()
            self._note(writer)
            with quiver.open(self.store, core=core) as store:
                bundles[core] = store.info().next_wal_seq
                store.finalize()
                ends[core] = store.info().next_segment_seq
            if bundles[core] < self.acknowledged[core]:
                self.problems.append(f"core {core} has lost acknowledged bundles")
        self._drain(ends)
        outcome = compare(self.sink, bundles)
        program = os.path.join(os.path.dirname(sys.executable), "quiver")
        for command in (["spark-ack", self.checkpoint], ["gc", self.store]):
            subprocess.run([program, *command], check=True, capture_output=True)
        for core in range(_CORES):
            with quiver.open(self.store, core=core) as store:
                left = store.info().segments
            if left:
                self.problems.append(f"{left} segments of core {core} are left at the end")
        outcome.problems += self.problems
        return outcome

    def _drain(self, ends: dict[int, int]) -> None:
        """Let the query commit all there is, then kill it: its last batch is not acked by then."""

        def is_done() -> bool:
            done = committed(self.checkpoint)
            return all(done.get(core, 0) >= end for core, end in ends.items())

        for _ in range(_TRIES):
            if not self.query.is_alive:
                self.query.kill()
                self._start_query()
            if self.query.await_that(is_done, _END_SECONDS):
                break
        else:
            self.problems.append(f"the query did not come to an end; see {self.folder}/stderr.txt")
        self.query.kill()


def _program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""
