"""Producer, consumer and server are killed at any act: each record is in the sink exactly once.

Scenarios 63, 66 and 69. ``QUIVER_END_KILLS`` says how many lives each test has; ``make
ship-kills`` runs a thousand.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import queue_lives
from ends_kit import GRACE_MS

from quiver.clock import SystemClock
from quiver.ship.batch import name_time_ms
from quiver.ship.objects import open_bucket
from quiver.ship.queue import Queue
from quiver.ship.sweeper import Sweeper
from quiver.testing import ManualClock
from quiver.units import MILLISECOND

ROUNDS = int(os.environ.get("QUIVER_END_KILLS", "15"))
ROUNDS_REMOTE = max(ROUNDS // 15, 1)
KILLED = -signal.SIGKILL


class Lives:
    """One queue, and the lives that were spent on it."""

    def __init__(self, folder: Path, url: str, options: dict[str, str], *, rounds: int) -> None:
        self.url, self.options, self.count = url, options, 4 * rounds
        self.log, self.database = folder / "log", folder / "sink.db"
        self.ends: list[int] = []
        self.nursery: queue_lives.Nursery | None = None

    def live(self, role: str, kill_at: int) -> int:
        place = self.log if role == "produce" else self.database
        named = {"kill_at": kill_at, "place": place, "count": self.count}
        if not kill_at:
            queue_lives.live(role, self.url, self.options, **named)
            return 0
        if self.nursery is not None:
            code = self.nursery.live(role, self.url, **named)
            assert code in (0, KILLED)
            self.ends.append(code)
            return code
        arguments = [role, self.url, json.dumps(self.options), kill_at, place, self.count]
        done = subprocess.run(
            [sys.executable, queue_lives.__file__, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode in (0, KILLED), done.stderr
        self.ends.append(done.returncode)
        return done.returncode

    def queue(self) -> Queue:
        return Queue(open_bucket(self.url, options=self.options))

    def rows(self) -> list[str]:
        with sqlite3.connect(self.database) as base:
            return [row for (row,) in base.execute("SELECT record FROM rows")]

    def finish(self) -> None:
        """Let both come to their end, and look at what there is."""
        assert self.live("produce", 0) == 0
        assert self.live("consume", 0) == 0
        assert self.rows() == [f"{number:04}" for number in range(self.count)]
        assert KILLED in self.ends  # Else nothing was tried.


def orphans(lives: Lives) -> set[str]:
    """Find batches that nobody names."""
    queue = lives.queue()
    named = {entry.location.rpartition("/")[2] for entry in queue.read().entries(kept=True)}
    there = {each.key for each in queue.bucket.list("") if name_time_ms(each.key) is not None}
    return there - named


@pytest.fixture
def lives(tmp_path) -> Iterator[Lives]:
    lives = Lives(tmp_path, str(tmp_path / "queue"), {}, rounds=ROUNDS)
    lives.nursery = queue_lives.Nursery()
    yield lives
    lives.nursery.close()


def test_66_each_record_is_in_the_sink_once_however_they_die(lives) -> None:
    dice = random.Random(6)
    for _ in range(ROUNDS):
        lives.live("produce", dice.randrange(1, 12))
        lives.live("consume", dice.randrange(1, 12))
    lives.finish()


def test_66_a_consumer_dies_on_either_side_of_its_commit(lives) -> None:
    lives.count = 12
    lives.live("produce", 0)
    for kill_at in (5, 6, 5, 6):  # start reads and puts, look, fetch: then the commit.
        lives.live("consume", kill_at)
    lives.finish()


def test_63_what_a_killed_producer_left_is_swept_after_the_grace(lives) -> None:
    lives.count = 3
    assert lives.live("produce", 1) == KILLED  # Behind its first put, before the append.
    left = orphans(lives)
    assert len(left) == 1
    lives.queue().start()
    grace_ns = GRACE_MS * MILLISECOND
    assert Sweeper(lives.queue(), grace_ns=grace_ns, clock=SystemClock()).sweep().keys == ()
    later = ManualClock(wall_ns=SystemClock().wall_ns() + grace_ns)
    dry = Sweeper(lives.queue(), grace_ns=grace_ns, clock=later).sweep(dry_run=True)
    assert set(dry.keys) == left
    lives.finish()


def test_66_69_the_same_on_a_real_server_that_is_killed_too(tmp_path, seaweed, queue_url) -> None:
    lives = Lives(tmp_path, queue_url, seaweed.options, rounds=ROUNDS_REMOTE)
    dice = random.Random(69)
    for number in range(ROUNDS_REMOTE):
        lives.live("produce", dice.randrange(1, 12))
        if number % 2 == 0:
            seaweed.kill()
            seaweed.start()
        lives.live("consume", dice.randrange(1, 12))
    lives.finish()
