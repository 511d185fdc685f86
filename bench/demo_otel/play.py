"""Who is started, who is killed when, and when all is through."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import quiver
from bench.demo_otel.collectors import go_collector, pipeline, rust_collector
from bench.demo_otel.parquet import line_numbers
from bench.demo_otel.sink import numbers
from bench.demo_stream.stage import Stage
from quiver.otel import TELEMETRY

__all__ = ["Play", "Plot"]


@dataclass(frozen=True)
class Plot:
    """What is played."""

    lines: int = 120_000
    """The log of January to May."""
    seconds: float = 30.0
    """The log is written in so many seconds."""
    kills: int = 2
    """Quiver is killed so often, every so many lines."""


_DRAIN_SECONDS: Final = 60.0
_MORE_SECONDS: Final = 60.0
"""In so many seconds more lines have to come, or all of them are there."""
_QUERY_SECONDS: Final = 600.0
_READER: Final = "spark"
"""A subscriber for whom the store keeps everything, until Spark has looked at it."""


class Play:
    """A log, a collector that tails it, Quiver, and the two that Quiver gives to."""

    def __init__(self, folder: str, tell: Callable[[str], object], plot: Plot) -> None:
        self._plot = plot
        self._stage = stage = Stage(folder, tell)
        self.folder = folder
        self.store, self.parquet, self.log, self._sunk, self._answer = (
            os.path.join(folder, name)
            for name in ("store", "parquet", "flights.log", "sunk.i64", "answer.json")
        )
        self.answer = self._answer
        self._receives, self._second = free_address(), free_address()
        python = stage.actor
        self._sink = python("sink", "bench.demo_otel.sink", [self._sunk])
        self._writer = python(
            "log", "bench.demo_otel.logfile", [self.log, str(plot.lines), str(plot.seconds)]
        )
        config = pipeline(folder, self._receives, self._second)
        self._quiver = python("quiver", "quiver", ["run", config])
        self._tail = stage.program(
            "collector", go_collector(folder, self.log, f"http://{self._receives}")
        )
        self._query = python("query", "bench.demo_otel.query", [self.store, self._answer])

    @property
    def kills(self) -> int:
        """How many were killed."""
        return self._stage.kills

    def refused(self) -> list[str]:
        """Give what somebody says he dropped or refused for ever; nobody should."""
        said = ("Permanent error", "not retryable", "Dropping data", "rejected")
        with open(os.path.join(self.folder, "stderr.txt"), encoding="utf-8") as file:
            found = [line.strip()[:300] for line in file if any(word in line for word in said)]
        letters = os.path.join(self.store, "core_0", "dead_letters")
        found += [f"a dead letter: {name}" for name in dead_letters(letters)]
        return found

    def sunk(self) -> Any:
        """Give the numbers of the lines that came out behind the second collector."""
        return numbers(self._sunk)

    def run(self) -> None:
        """Play until all lines are in both sinks, and Spark has looked at the store."""
        plot = self._plot
        try:
            self._begin()
            for number in range(plot.kills):
                if number == plot.kills // 2:
                    self._stop_second()
                self._kill_quiver(plot.lines * (number + 1) // (plot.kills + 2))
            self._end()
        finally:
            self._stage.close()

    # the beginning -------------------------------------------------------------------------------

    def _begin(self) -> None:
        stage = self._stage
        with quiver.open(self.store, slots=TELEMETRY) as store:
            store.subscribe(_READER).close()
        stage.start(self._sink, "listening")
        self._sink_port = self._sink.lines[0].split()[1]
        self._start_second()
        self._start_quiver()
        stage.start(self._writer, "ready")
        self._tail.start()
        stage.await_that("the first lines behind both exporters", self._has_some)
        stage.say("a collector tails the log; its lines are in Parquet and in a second collector")

    def _start_quiver(self) -> None:
        self._quiver.start()
        self._stage.await_that("a receiver", lambda: listens(self._receives))

    def _start_second(self) -> None:
        command = rust_collector(self.folder, self._second, f"http://127.0.0.1:{self._sink_port}")
        self._rust = self._stage.program("second collector", command)
        self._rust.start()
        self._stage.await_that("the second collector", lambda: listens(self._second))

    def _has_some(self) -> bool:
        return bool(len(self.sunk()) and len(line_numbers(self.parquet)))

    # what happens --------------------------------------------------------------------------------

    def _await_lines(self, lines: int) -> None:
        """Wait until the log has so many."""
        self._stage.await_that(f"line {lines:,}", lambda: lines_of(self.log) >= lines, self._revive)

    def _kill_quiver(self, at: int) -> None:
        self._await_lines(at)
        self._quiver.kill()
        self._stage.note(f"Quiver, at line {lines_of(self.log):,}")
        self._start_quiver()
        self._stage.say("Quiver is there again; the collector sends on what had no answer")

    def _stop_second(self) -> None:
        """Stop the second collector, and start it again after a while; Quiver goes on."""
        if not self._rust.end(_DRAIN_SECONDS):
            raise SystemExit("the second collector did not end")
        self._stage.say(f"the second collector is stopped, at line {lines_of(self.log):,}")
        self._await_lines(min(lines_of(self.log) + self._plot.lines // 10, self._plot.lines))
        self._start_second()
        self._stage.say("the second collector is there again")

    def _revive(self) -> None:
        if not self._quiver.is_alive:
            raise SystemExit(f"Quiver has ended; see {self._stage.folder}/stderr.txt")

    # the end -------------------------------------------------------------------------------------

    def _end(self) -> None:
        stage = self._stage
        stage.await_that("the end of the log", lambda: self._writer.has_said("done"), self._revive)
        before = (-1, -1)
        while not self._has_all():
            now = self._counts()
            if now == before:
                raise SystemExit(f"no more lines came; see {stage.folder}/stderr.txt")
            before = now
            stage.has_come(self._has_all, _MORE_SECONDS, self._revive)
        stage.say("all lines are in Parquet and behind the second collector")
        self._tail.end(_DRAIN_SECONDS)
        if not self._quiver.end(_DRAIN_SECONDS):
            raise SystemExit("Quiver did not end when it was told to")
        stage.say("Quiver has drained and ended")
        self._query.start()
        if not self._query.await_that(lambda: self._query.has_said("answered"), _QUERY_SECONDS):
            raise SystemExit(f"Spark did not answer; see {stage.folder}/stderr.txt")
        stage.say("Spark has looked at the store")

    def _counts(self) -> tuple[int, int]:
        return len(self.sunk()), len(line_numbers(self.parquet))

    def _has_all(self) -> bool:
        lines = self._plot.lines
        return len(np.unique(self.sunk())) >= lines <= len(np.unique(line_numbers(self.parquet)))


def dead_letters(folder: str) -> list[str]:
    """List what a subscriber gave up."""
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def lines_of(path: str) -> int:
    """Count the lines of a log."""
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def free_address() -> str:
    """Find a port of this machine that nobody listens to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def listens(address: str) -> bool:
    """Whether somebody answers there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True
