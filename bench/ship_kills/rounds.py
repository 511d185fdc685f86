"""The parts of the play, what must hold after each kill, and how a play comes to its end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar, Final

from bench.kills import play
from bench.kills.play import SHARE, KillPlay
from bench.kills.processes import Actor, Nursery
from bench.kills.traffic import Traffic
from bench.ship_kills.judge import Outcome, gone, judge, judge_queue, leftovers, look
from bench.ship_kills.sending import open_store, write_rest
from bench.ship_kills.setup import CORES, Setup
from bench.ship_kills.sweeping import sweep_once
from bench.ship_kills.witness import Witness
from quiver.errors import QuiverError
from quiver.ship.objects import open_bucket
from quiver.ship.queue import Queue
from quiver.ship.queue.changing import MANIFEST_KEY

__all__ = ["VICTIMS", "Play", "plan"]

VICTIMS: Final = ("writer", "shipper", "producer", "consumer", "sweeper", "server")
_END_SECONDS: Final = 120.0


def plan(rounds: int, rng: random.Random) -> list[str]:
    """Choose who is killed: each kind once in six rounds, in any order."""
    return play.plan(rounds, rng, VICTIMS)


@dataclass
class Play(KillPlay):
    """One store, one queue, and all who use them, in a folder of their own.

    Who is away for long is away for longer than anybody has patience, and the consumer for longer
    than the grace.
    """

    replaced: ClassVar[str] = "consumer"
    aimless: ClassVar[str] = "writer"
    manifest: ClassVar[str] = MANIFEST_KEY
    no_manifest: ClassVar[str] = "sweeper"

    def run(self, victims: Sequence[str], *, until_wrong: bool = False) -> Outcome:
        """Kill one after the other, let all come to an end, and judge.

        With ``until_wrong`` it ends as soon as anything is wrong.
        """
        os.makedirs(self.folder)
        with ExitStack() as stack:
            share = SHARE if self.spoilt else 0.0
            self.traffic = stack.enter_context(Traffic(self.server.port, self.rng, share))
            self.witness = Witness()
            self.traffic.shows = (MANIFEST_KEY, self.witness.see)
            options = self.options(self.traffic.endpoint)
            url = f"{self.server.url}/{os.path.basename(self.folder)}-{time.time_ns():x}"
            self.setup = Setup(self.folder, url, options)
            straight = open_bucket(url, options=self.options(self.server.endpoint))
            self.straight = Queue(straight)
            for core in range(CORES):
                open_store(self.setup, core).close()
            command = self.command("bench.ship_kills.nursery", self.setup.to_json())
            stderr = os.path.join(self.folder, "stderr.txt")
            home = stack.enter_context(Nursery(command, stderr))
            self.cast(home, _actors(home))
            if not self.kill(victims, until_wrong=until_wrong):
                return Outcome(problems=self.problems)
            return self._end(self.traffic)

    def is_under_way(self) -> bool:
        """Whether bundles and records have come through, or something is wrong."""
        found = judge(self.setup)
        return bool((found.acknowledged and found.bundles) or found.problems)

    def absence(self, victim: str) -> float:
        """Say for how long a victim is away beyond the patience, or the grace."""
        return 1.2 * self.setup.grace if victim == "consumer" else 1.5 * self.setup.patience

    def look(self) -> list[str]:
        """See what is wrong already, in the queue and in the sink."""
        found = []
        try:
            found += look(self.straight)
        except QuiverError as error:
            found.append(f"the queue cannot be read: {type(error).__name__}: {error}")
        return found + self.witness.problems + judge(self.setup).problems

    def _end(self, traffic: Traffic) -> Outcome:
        """Let all that was sent arrive, and what nobody names go; then judge."""
        traffic.calm()
        self.stop("producer", "writer", "shipper")
        bundles = write_rest(self.setup)
        self.play_out("ship-rest", _END_SECONDS)
        self.stop("consumer")
        traffic.await_silence(_END_SECONDS)
        self.play_out("drain", _END_SECONDS)
        self.stop("sweeper")
        time.sleep(self.setup.grace)
        sweep_once(self.setup)
        outcome = judge(self.setup, bundles)
        outcome.problems += judge_queue(self.setup, self.witness, outcome)
        outcome.problems += leftovers(self.straight.bucket)
        outcome.swept = gone(self.straight.bucket, self.witness)
        outcome.problems += [each for each in self.problems if each not in outcome.problems]
        return outcome


def _actors(home: Nursery) -> dict[str, list[Actor]]:
    writers = [Actor(home, f"writer {core}", "writer", core) for core in range(CORES)]
    others = ("shipper", "producer", "consumer", "sweeper")
    return {"writer": writers} | {name: [Actor(home, name, name)] for name in others}
