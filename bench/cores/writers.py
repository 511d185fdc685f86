"""Writer processes of one store, or of bare files, and what they got done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import quiver

__all__ = ["SHARED", "SLOTS", "SPAWN", "WRITERS", "rate", "small", "stopped"]

SLOTS: Final = ["events"]
WRITERS: Final = 4
SPAWN: Final = multiprocessing.get_context("forkserver")
SHARED: Final = {"retention": {"size_cap": "64GiB", "coordination": "shared"}}
CPU_BOUND: Final[dict[str, Any]] = {**SHARED, "wal": {"durability": "interval"}}
DISK_BOUND: Final[dict[str, Any]] = {**SHARED, "wal": {"durability": "sync"}}
PATIENCE: Final = 120


def small() -> dict[str, pa.RecordBatch]:
    """Ten rows, 400 bytes: the work is Python's and Arrow's."""
    columns = {"id": pa.array(range(10)), "text": pa.array([f"line {n}" for n in range(10)])}
    return {"events": pa.record_batch(columns)}


def large() -> dict[str, pa.RecordBatch]:
    """4 MiB of noise: the work is the disk's."""
    noise = np.random.default_rng(7).integers(0, 1 << 62, 1 << 19)
    return {"events": pa.record_batch({"n": pa.array(noise)})}


SHAPES: Final = {"small": (small, CPU_BOUND), "large": (large, DISK_BOUND)}


def write(path: str, pipe: Connection, *, number: int, shape: str, seconds: float) -> None:
    """Append for so long from the moment that is told; give how many, and how long each took."""
    if shape == "bare":
        write_bare(path, pipe, number=number, seconds=seconds)
        return
    make, config = SHAPES[shape]
    bundle = make()
    with quiver.open(path, slots=SLOTS, config=config) as store:
        act(lambda: store.append(bundle), pipe, name=store.info().core, seconds=seconds)


def write_bare(path: str, pipe: Connection, *, number: int, seconds: float) -> None:
    """Do no more than what a log has to: write as much to the end of a file, and sync that."""
    data = large()["events"].column("n").buffers()[1]
    os.makedirs(path, exist_ok=True)
    descriptor = os.open(f"{path}/{number}", os.O_RDWR | os.O_CREAT)

    def append() -> None:
        os.write(descriptor, data)
        os.fdatasync(descriptor)

    act(append, pipe, name=number, seconds=seconds)
    os.close(descriptor)


def act(append: Callable[[], object], pipe: Connection, *, name: int, seconds: float) -> None:
    """Append for so long; tell how often, and how long each took."""
    for _ in range(3):
        append()
    pipe.send(name)
    begin = pipe.recv()
    time.sleep(max(begin - time.monotonic(), 0))
    took: list[float] = []
    last = time.monotonic()
    while last < begin + seconds:
        append()
        now = time.monotonic()
        took.append(now - last)
        last = now
    pipe.send((len(took), last - begin, took))
    pipe.recv()


class Team:
    """So many writers of one new store, all begun at the same moment."""

    def __init__(self, folder: Path, count: int, *, shape: str, seconds: float) -> None:
        self.seconds = seconds
        self.pipes: dict[int, Connection] = {}
        self.processes: dict[int, Any] = {}
        for number in range(count):
            here, there = SPAWN.Pipe()
            options = {"number": number, "shape": shape, "seconds": seconds}
            process = SPAWN.Process(target=write, args=(str(folder), there), kwargs=options)
            process.start()
            core = self._hear(here)
            self.pipes[core], self.processes[core] = here, process

    def _hear(self, pipe: Connection) -> Any:
        if not pipe.poll(PATIENCE):
            raise TimeoutError("a writer says nothing")
        return pipe.recv()

    def begin(self) -> float:
        begin = time.monotonic() + 0.2
        for pipe in self.pipes.values():
            pipe.send(begin)
        return begin

    def results(self) -> dict[int, tuple[int, float, list[float]]]:
        found = {core: self._hear(pipe) for core, pipe in self.pipes.items()}
        for pipe in self.pipes.values():
            pipe.send(None)
        for process in self.processes.values():
            process.join(PATIENCE)
        return found


def rate(folder: Path, count: int, *, shape: str, seconds: float) -> float:
    """Let so many writers append at once; bundles a second, of all together."""
    team = Team(folder, count, shape=shape, seconds=seconds)
    team.begin()
    return sum(done / took for done, took, _ in team.results().values())


def stopped(folder: Path, *, seconds: float) -> tuple[float, float]:
    """Stop one of four in the middle: the longest append of the others before and meanwhile."""
    team = Team(folder, WRITERS, shape="small", seconds=seconds)
    begin = team.begin()
    time.sleep(max(begin + seconds / 3 - time.monotonic(), 0))
    process = team.processes[1]
    os.kill(process.pid, signal.SIGSTOP)
    at = time.monotonic() - begin
    time.sleep(max(begin + seconds * 0.9 - time.monotonic(), 0))
    os.kill(process.pid, signal.SIGCONT)
    before, meanwhile = 0.0, 0.0
    for core, (_, _, took) in team.results().items():
        if core != 1:
            ends = np.cumsum(took)
            before = max([before, *(t for t, end in zip(took, ends, strict=True) if end < at)])
            inside = ((ends >= at) & (ends < seconds * 0.9)).tolist()
            meanwhile = max([meanwhile, *(t for t, i in zip(took, inside, strict=True) if i)])
    return before, meanwhile
