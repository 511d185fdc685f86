"""Who is killed when, and how. What is played, and what must hold then, a subclass says."""

from __future__ import annotations

import random
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from bench.kills.processes import Actor, Nursery
from bench.kills.servers import seaweed
from bench.kills.traffic import Aim, Traffic

__all__ = ["SHARE", "KillPlay", "plan"]

SHARE: Final = 0.04
"""Of requests that are spoilt, in each second play."""
_REACH_SECONDS: Final = 0.5
"""A kill comes at some moment within this time after the last one."""
_AIM_SECONDS: Final = 1.5
"""So long it is waited for the request in which somebody is to die."""
_SKIP_MAX: Final = 6
_ACTS_MAX: Final = 120
_WRITES: Final = 0.7
_OF_MANIFEST: Final = 0.5
_LANDS: Final = 0.5
_DOWN_SECONDS: Final = 0.3
_FROZEN_SECONDS: Final = 1.0
_STARTS_MAX: Final = 5
_FIRST_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.1
_TIMES: Final = {
    "timeout": "2s",
    "connect_timeout": "1s",
    "retry_timeout": "2s",
    "max_retries": "3",
}


def plan(rounds: int, rng: random.Random, victims: Sequence[str]) -> list[str]:
    """Choose who is killed: each kind as often as the others, in any order."""
    found: list[str] = []
    while len(found) < rounds:
        found += rng.sample(victims, len(victims))
    return found[:rounds]


@dataclass
class KillPlay(ABC):
    """All who take part, in a folder of their own, and how they die."""

    folder: str
    server: Any
    rng: random.Random
    away: float = 0.08
    """In so many cases a victim is away for longer than anybody has patience."""
    aims: float = 0.6
    """In so many cases a victim dies while a request of his is held."""
    zombies: float = 0.2
    """In so many cases who can be replaced is killed only after another one has taken over."""
    spoilt: bool = False
    """Whether answers of the server are spoilt as well."""
    nursery: Sequence[str] = ()
    """The command that actors are forked from; the play itself is its last argument."""
    tell: Callable[[str], object] = lambda _: None
    kills: Counter[str] = field(default_factory=Counter)
    aimed: int = 0
    problems: list[str] = field(default_factory=list)
    actors: dict[str, list[Actor]] = field(default_factory=dict)
    traffic: Traffic | None = None
    """None where there is no server."""

    replaced: ClassVar[str] = ""
    """Whom another one may replace while he stands still."""
    aimless: ClassVar[str] = ""
    """Who makes no requests."""
    manifest: ClassVar[str] = ""
    """The object that half of the aims are at."""
    no_manifest: ClassVar[str] = ""
    """Who does not change it."""

    @abstractmethod
    def look(self) -> list[str]:
        """See what is wrong already."""

    @abstractmethod
    def is_under_way(self) -> bool:
        """Whether something of everything has come through."""

    def absence(self, victim: str) -> float:
        """Say for how long a victim is away beyond everybody's patience."""
        raise NotImplementedError

    def command(self, module: str, setup: str) -> list[str]:
        """Give the command of the nursery."""
        return [*(self.nursery or (sys.executable, "-m", module)), setup]

    def options(self, endpoint: str) -> dict[str, str]:
        """Give what a bucket is opened with, so that nobody waits for long."""
        return {**seaweed.options_for(endpoint), **_TIMES}

    def everybody(self) -> list[Actor]:
        """Give all actors."""
        return [actor for actors in self.actors.values() for actor in actors]

    def cast(self, home: Nursery, actors: dict[str, list[Actor]]) -> None:
        """Start all, and wait until something comes through."""
        self.home, self.actors = home, actors
        for actor in self.everybody():
            actor.start(*(() if self.traffic is not None else (0,)))
        for _ in range(round(_FIRST_SECONDS / _LOOK_SECONDS)):
            if self.is_under_way():
                return
            time.sleep(_LOOK_SECONDS)
        self.problems.append("nothing comes through, before anybody is killed")

    def kill(self, victims: Sequence[str], *, until_wrong: bool) -> bool:
        """Kill one after the other; say whether all went well, if ``until_wrong`` ends it."""
        began = time.monotonic()
        for number, victim in enumerate(victims, 1):
            time.sleep(self.rng.random() * _REACH_SECONDS)
            said = self._strike(victim)
            found = [each for each in self._found() if each not in self.problems]
            self.problems += found
            wrong = f"  ! {found[0]}" if found else ""
            self.tell(f"{time.monotonic() - began:>7.1f}  {number:>3}  {said}{wrong}")
            if until_wrong and self.problems:
                return False
        return True

    def play_out(self, kind: str, seconds: float) -> None:
        """Let an actor come to its end."""
        actor = Actor(self.home, kind, kind)
        actor.start()
        if not actor.await_end(seconds):
            actor.kill()
            self.problems.append(f"{kind} did not come to its end")

    def stop(self, *kinds: str) -> None:
        """Kill all of some kinds for good."""
        for kind in kinds:
            for actor in self.actors[kind]:
                actor.kill()

    def _strike(self, victim: str) -> str:
        """Kill one, at any moment or in the middle of a request, and start it again."""
        if victim == "server":
            return self._strike_server()
        actor = self.rng.choice(self.actors[victim])
        aim = self._take_aim(victim)
        is_aimed = aim is not None or (self.traffic is None and self._await_stop(actor))
        in_request = self._count(victim, is_aimed=is_aimed)
        down = self._down(victim)
        if victim == self.replaced and self.rng.random() < self.zombies:
            return self._replace(actor, aim)
        actor.kill()
        if aim is not None:
            aim.release.set()
        time.sleep(down)
        actor.start(*self._fate())
        return f"SIGKILL  {actor.name}{in_request}, down for {down:.2f} s"

    def _strike_server(self) -> str:
        aim = self._take_aim("server")
        in_request = self._count("server", is_aimed=aim is not None)
        self.server.kill()
        if aim is not None:
            aim.release.set()
        down = self._down("server")
        time.sleep(down)
        self._start_server()
        return f"SIGKILL  server{in_request}, down for {down:.2f} s"

    def _count(self, victim: str, *, is_aimed: bool) -> str:
        self.kills[victim] += 1
        self.aimed += is_aimed
        return " in a request" if is_aimed else ""

    def _fate(self) -> tuple[int, ...]:
        """Without a server: say before which of its acts an actor is to stand still; 0: none."""
        if self.traffic is not None:
            return ()
        return (int(self.rng.random() < self.aims) * self.rng.randrange(1, _ACTS_MAX),)

    def _await_stop(self, actor: Actor) -> bool:
        """Wait for the moment at which an actor stands still by itself; say whether it came."""
        if not any(actor.more):
            return False
        for _ in range(round(_AIM_SECONDS / _LOOK_SECONDS)):
            if actor.is_stopped:
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def _start_server(self) -> None:
        """Start it; a port that somebody has taken meanwhile may be free a moment later."""
        for _ in range(_STARTS_MAX):
            with suppress(ConnectionError):
                self.server.start()
                return
            time.sleep(_FROZEN_SECONDS)
        self.server.start()

    def _replace(self, actor: Actor, aim: Aim | None) -> str:
        """Let one stand still until another one has taken over, go on, and die then."""
        actor.freeze()
        other = Actor(self.home, actor.name, actor.kind)
        other.lives = actor.lives
        other.start(*self._fate())
        self.actors[actor.kind] = [other]
        time.sleep(self.rng.random() * _FROZEN_SECONDS)
        actor.thaw()
        if aim is not None:
            aim.release.set()
        time.sleep(self.rng.random() * _FROZEN_SECONDS)
        actor.kill()
        return f"SIGSTOP  {actor.name}, SIGKILL once another one had taken over"

    def _down(self, victim: str) -> float:
        """Choose how long a victim is away."""
        down = self.rng.random() * _DOWN_SECONDS
        if self.rng.random() < self.away:
            down += self.absence(victim)
        return down

    def _take_aim(self, victim: str) -> Aim | None:
        """Wait for a request of the victim, and hold it; None if it is to die at any moment."""
        if self.traffic is None or victim == self.aimless or self.rng.random() >= self.aims:
            return None
        of_manifest = self.rng.random() < _OF_MANIFEST
        aim = Aim(
            "" if victim == "server" else victim,
            skip=int(self.rng.random() ** 2 * _SKIP_MAX),
            writes=self.rng.random() < _WRITES,
            key=self.manifest if of_manifest and victim != self.no_manifest else "",
            reaches=self.rng.random() < _LANDS,
        )
        self.traffic.aim(aim)
        if aim.reached.wait(_AIM_SECONDS):
            return aim
        self.traffic.aim(None)
        if aim.reached.is_set():  # Just now.
            return aim
        return None

    def _found(self) -> list[str]:
        """See what is wrong already, and that nobody died but of a kill."""
        found = []
        for actor in self.everybody():
            if not actor.is_alive:
                found.append(f"{actor.name} ended by itself; see {self.folder}/stderr.txt")
                actor.await_end(0)
                actor.start(*self._fate())
        return found + self.look()
