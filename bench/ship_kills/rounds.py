"""Who is killed when, what must hold after each kill, and how a play comes to its end."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from bench.ship_kills.judge import Outcome, gone, judge, judge_queue, leftovers, look
from bench.ship_kills.processes import NURSERY, Actor, Nursery
from bench.ship_kills.sending import open_store, write_rest
from bench.ship_kills.servers import seaweed
from bench.ship_kills.setup import CORES, Setup
from bench.ship_kills.sweeping import sweep_once
from bench.ship_kills.traffic import Aim, Traffic
from quiver.errors import QuiverError
from quiver.ship.objects import open_bucket
from quiver.ship.queue import Queue

__all__ = ["VICTIMS", "Play", "plan"]

VICTIMS: Final = ("writer", "shipper", "producer", "consumer", "sweeper", "server")
_REACH_SECONDS: Final = 0.5
"""A kill comes at some moment within this time after the last one."""
_AIM_SECONDS: Final = 1.5
"""So long it is waited for the request in which somebody is to die."""
_SKIP_MAX: Final = 6
_WRITES: Final = 0.7
_OF_MANIFEST: Final = 0.5
_LANDS: Final = 0.5
_DOWN_SECONDS: Final = 0.3
_FROZEN_SECONDS: Final = 1.0
_STARTS_MAX: Final = 5
_END_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.1
_SHARE: Final = 0.04
"""Of requests that are spoilt, in each second play."""
_TIMES: Final = {
    "timeout": "2s",
    "connect_timeout": "1s",
    "retry_timeout": "2s",
    "max_retries": "3",
}


def plan(rounds: int, rng: random.Random) -> list[str]:
    """Choose who is killed: each kind once in six rounds, in any order."""
    found: list[str] = []
    while len(found) < rounds:
        found += rng.sample(VICTIMS, len(VICTIMS))
    return found[:rounds]


@dataclass
class Play:
    """One store, one queue, and all who use them, in a folder of their own."""

    folder: str
    server: Any
    rng: random.Random
    away: float = 0.08
    """In so many cases a victim is away for longer than anybody has patience, and the consumer for
    longer than the grace."""
    aims: float = 0.6
    """In so many cases a victim dies while a request of his is held."""
    zombies: float = 0.2
    """In so many cases a consumer is killed only after another one has taken over."""
    spoilt: bool = False
    """Whether answers of the server are spoilt as well."""
    nursery: Sequence[str] = NURSERY
    """The command that actors are forked from."""
    tell: Callable[[str], object] = lambda _: None
    kills: Counter[str] = field(default_factory=Counter)
    aimed: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self, victims: Sequence[str], *, until_wrong: bool = False) -> Outcome:
        """Kill one after the other, let all come to an end, and judge.

        With ``until_wrong`` it ends as soon as anything is wrong.
        """
        os.makedirs(self.folder)
        began = time.monotonic()
        with ExitStack() as stack:
            share = _SHARE if self.spoilt else 0.0
            self.traffic = stack.enter_context(Traffic(self.server.port, self.rng, share))
            options = self._options(self.traffic.endpoint)
            url = f"{self.server.url}/{os.path.basename(self.folder)}-{time.time_ns():x}"
            self.setup = Setup(self.folder, url, options)
            straight = open_bucket(url, options=self._options(self.server.endpoint))
            self.straight = Queue(straight)
            for core in range(CORES):
                open_store(self.setup, core).close()
            nursery = stack.enter_context(Nursery(self.setup, self.nursery))
            self._cast(nursery)
            self._await_first()
            for number, victim in enumerate(victims, 1):
                time.sleep(self.rng.random() * _REACH_SECONDS)
                said = self._strike(victim)
                found = [each for each in self._look() if each not in self.problems]
                self.problems += found
                wrong = f"  ! {found[0]}" if found else ""
                self.tell(f"{time.monotonic() - began:>7.1f}  {number:>3}  {said}{wrong}")
                if until_wrong and self.problems:
                    return Outcome(problems=self.problems)
            return self._end(nursery)

    def _options(self, endpoint: str) -> dict[str, str]:
        return {**seaweed.options_for(endpoint), **_TIMES}

    def _cast(self, nursery: Nursery) -> None:
        self.home = nursery
        writers = [Actor(nursery, f"writer {core}", "writer", core) for core in range(CORES)]
        self.actors = {"writer": writers} | {
            name: [Actor(nursery, name, name)]
            for name in ("shipper", "producer", "consumer", "sweeper")
        }
        for actor in self._all():
            actor.start()

    def _all(self) -> list[Actor]:
        return [actor for actors in self.actors.values() for actor in actors]

    def _await_first(self) -> None:
        """Wait until bundles and records come through: a play of few kills is to have some."""
        for _ in range(round(_END_SECONDS / _LOOK_SECONDS)):
            found = judge(self.setup)
            if (found.acknowledged and found.bundles) or found.problems:
                return
            time.sleep(_LOOK_SECONDS)
        self.problems.append("nothing comes through, before anybody is killed")

    # kills ---------------------------------------------------------------------------------------

    def _strike(self, victim: str) -> str:
        """Kill one, at any moment or in the middle of a request, and start it again."""
        aim = self._take_aim(victim)
        if aim is not None:
            self.aimed += 1
        self.kills[victim] += 1
        in_request = " in a request" if aim is not None else ""
        down = self._down(victim)
        if victim == "server":
            self.server.kill()
            if aim is not None:
                aim.release.set()
            time.sleep(down)
            self._start_server()
            return f"SIGKILL  server{in_request}, down for {down:.2f} s"
        actor = self.rng.choice(self.actors[victim])
        if victim == "consumer" and self.rng.random() < self.zombies:
            return self._replace(actor, aim)
        actor.kill()
        if aim is not None:
            aim.release.set()
        time.sleep(down)
        actor.start()
        return f"SIGKILL  {actor.name}{in_request}, down for {down:.2f} s"

    def _start_server(self) -> None:
        """Start it; a port that somebody has taken meanwhile may be free a moment later."""
        for _ in range(_STARTS_MAX):
            with suppress(ConnectionError):
                self.server.start()
                return
            time.sleep(_FROZEN_SECONDS)
        self.server.start()

    def _replace(self, actor: Actor, aim: Aim | None) -> str:
        """Let a consumer stand still until another one has taken over, go on, and die then."""
        actor.freeze()
        other = Actor(self.home, actor.name, actor.kind)
        other.lives = actor.lives
        other.start()
        self.actors[actor.kind] = [other]
        time.sleep(self.rng.random() * _FROZEN_SECONDS)
        actor.thaw()
        if aim is not None:
            aim.release.set()
        time.sleep(self.rng.random() * _FROZEN_SECONDS)
        actor.kill()
        return f"SIGSTOP  {actor.name}, SIGKILL once another one had taken over"

    def _down(self, victim: str) -> float:
        """Choose how long a victim is away: now and then beyond the patience, or the grace."""
        down = self.rng.random() * _DOWN_SECONDS
        if self.rng.random() < self.away:
            down += 1.2 * self.setup.grace if victim == "consumer" else 1.5 * self.setup.patience
        return down

    def _take_aim(self, victim: str) -> Aim | None:
        """Wait for a request of the victim, and hold it; None if it is to die at any moment."""
        if victim == "writer" or self.rng.random() >= self.aims:
            return None
        aim = Aim(
            "" if victim == "server" else victim,
            skip=int(self.rng.random() ** 2 * _SKIP_MAX),
            writes=self.rng.random() < _WRITES,
            manifest=self.rng.random() < _OF_MANIFEST and victim != "sweeper",
            reaches=self.rng.random() < _LANDS,
        )
        self.traffic.aim(aim)
        if aim.reached.wait(_AIM_SECONDS):
            return aim
        self.traffic.aim(None)
        if aim.reached.is_set():  # Just now.
            return aim
        return None

    def _look(self) -> list[str]:
        """See what is wrong already, and that nobody died but of a kill."""
        found = []
        for actor in self._all():
            if not actor.is_alive:
                found.append(f"{actor.name} ended by itself; see {self.folder}/stderr.txt")
                actor.await_end(0)
                actor.start()
        try:
            found += look(self.straight)
        except QuiverError as error:
            found.append(f"the queue cannot be read: {type(error).__name__}: {error}")
        return found + self.traffic.witness.problems + judge(self.setup).problems

    # the end -------------------------------------------------------------------------------------

    def _end(self, nursery: Nursery) -> Outcome:
        """Let all that was sent arrive, and what nobody names go; then judge."""
        self.traffic.calm()
        for kind in ("producer", "writer", "shipper"):
            for actor in self.actors[kind]:
                actor.kill()
        bundles = write_rest(self.setup)
        self._play_out(nursery, "ship-rest")
        for actor in self.actors["consumer"]:
            actor.kill()
        self.traffic.await_silence(_END_SECONDS)
        self._play_out(nursery, "drain")
        for actor in self.actors["sweeper"]:
            actor.kill()
        time.sleep(self.setup.grace)
        sweep_once(self.setup)
        outcome = judge(self.setup, bundles)
        outcome.problems += judge_queue(self.setup, self.traffic.witness, outcome)
        outcome.problems += leftovers(self.straight.bucket)
        outcome.swept = gone(self.straight.bucket, self.traffic.witness)
        outcome.problems += [each for each in self.problems if each not in outcome.problems]
        return outcome

    def _play_out(self, nursery: Nursery, kind: str) -> None:
        actor = Actor(nursery, kind, kind)
        actor.start()
        if not actor.await_end(_END_SECONDS):
            actor.kill()
            self.problems.append(f"{kind} did not come to its end")
