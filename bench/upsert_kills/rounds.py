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
from bench.upsert_kills.judge import Judge, Outcome, judge_collection, leftovers, look
from bench.upsert_kills.setup import LIMITS, Setup
from bench.upsert_kills.witness import Witness
from bench.upsert_kills.writing import open_collection
from quiver.errors import QuiverError
from quiver.ship.objects import open_bucket
from quiver.upsert.persist import MANIFEST_KEY, close_all
from quiver.upsert.tending import sweep, tend

__all__ = ["FOLDER_VICTIMS", "VICTIMS", "Play", "plan"]

FOLDER_VICTIMS: Final = ("writer", "writer", "reader", "follower")
VICTIMS: Final = (*FOLDER_VICTIMS, "server")
_PATIENCE: Final = 2.0
_SILENCE_SECONDS: Final = 60.0
_TENDS_MAX: Final = 40


def plan(rounds: int, rng: random.Random, *, has_server: bool) -> list[str]:
    """Choose who is killed, the writer twice as often as anybody else."""
    return play.plan(rounds, rng, VICTIMS if has_server else FOLDER_VICTIMS)


@dataclass
class Play(KillPlay):
    """One collection, in a folder or in a server, and all who use it."""

    grace: float = 3.0

    replaced: ClassVar[str] = "writer"
    manifest: ClassVar[str] = MANIFEST_KEY

    def run(self, victims: Sequence[str], *, until_wrong: bool = False) -> Outcome:
        """Kill one after the other, let all come to an end, and judge.

        With ``until_wrong`` it ends as soon as anything is wrong.
        """
        os.makedirs(self.folder)
        with ExitStack() as stack:
            self.witness = Witness()
            self.setup = Setup(self.folder, grace=self.grace)
            self.straight = self.setup.store("judge")
            if self.server is not None:
                self._go_by_traffic(stack)
            self.judge = Judge(self.setup)
            open_collection(self.straight)
            command = self.command("bench.upsert_kills.nursery", self.setup.to_json())
            stderr = os.path.join(self.folder, "stderr.txt")
            home = stack.enter_context(Nursery(command, stderr))
            names = ("writer", "reader", "follower")
            self.cast(home, {name: [Actor(home, name, name)] for name in names})
            if not self.kill(victims, until_wrong=until_wrong):
                return Outcome(problems=self.problems)
            return self._end()

    def _go_by_traffic(self, stack: ExitStack) -> None:
        share = SHARE if self.spoilt else 0.0
        self.traffic = stack.enter_context(Traffic(self.server.port, self.rng, share))
        self.traffic.shows = (MANIFEST_KEY, self.witness.see)
        url = f"{self.server.url}/{os.path.basename(self.folder)}-{time.time_ns():x}"
        options = self.options(self.traffic.endpoint)
        self.setup = Setup(self.folder, url, options, grace=self.grace)
        self.straight = open_bucket(url, options=self.options(self.server.endpoint))

    def is_under_way(self) -> bool:
        """Whether there are folds and merges, and who reads and who follows has seen something."""
        found = self.judge.judge()
        some = found.folded and found.merged and found.steps and found.reads > found.steps
        return bool(some or found.problems)

    def absence(self, victim: str) -> float:
        """Say for how long a victim is away beyond the patience, or the grace."""
        return 1.2 * self.grace if victim != "server" else 1.5 * _PATIENCE

    def look(self) -> list[str]:
        """See what is wrong already, in the collection and in what was read."""
        found = []
        try:
            if self.traffic is None:
                self.witness.see(bytes(self.straight.get(MANIFEST_KEY).data))
            found += look(self.straight)
        except QuiverError as error:
            found.append(f"the collection cannot be read: {type(error).__name__}: {error}")
        return found + list(self.witness.problems) + self.judge.judge().problems

    def _end(self) -> Outcome:
        """Let nobody write any more, tend to the end, let what is garbage go; then judge."""
        if self.traffic is not None:
            self.traffic.calm()
        self.stop("writer")
        if self.traffic is not None:
            self.traffic.await_silence(_SILENCE_SECONDS)
        self.stop("reader", "follower")
        problems = []
        try:
            problems += self._close()
        except QuiverError as error:
            problems.append(f"it does not come to its end: {type(error).__name__}: {error}")
        outcome = self.judge.judge()
        outcome.problems += problems
        outcome.problems += self.witness.problems
        outcome.problems += [each for each in self.problems if each not in outcome.problems]
        return outcome

    def _close(self) -> list[str]:
        """Have one more writer say what it finds, tend until nothing is due, and sweep."""
        writer = open_collection(self.straight).writer()
        snapshot = writer.snapshot()
        self.judge.close(snapshot)
        self.judge.judge()  # The dictionary comes to the last epoch by that.
        for _ in range(_TENDS_MAX):
            done = tend(writer, LIMITS, grace=f"{self.grace}s")
            if not (done.folded or done.merged or done.left):
                break
        time.sleep(1.2 * self.grace)
        for _ in range(2):  # The second one for what the first one drops.
            tend(writer, LIMITS, grace="0s")
        sweep(writer, grace=f"{self.grace}s")
        after = writer.snapshot()
        close_all()
        found = list(judge_collection(self.straight, after, self.judge.model))
        return [*found, *leftovers(self.straight, after)]
