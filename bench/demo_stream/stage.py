"""What the plays of all demonstrations have in common: who is on stage, waiting, and telling."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.demo_stream.processes import Actor, python

__all__ = ["Stage"]

_START_SECONDS: Final = 90.0
_END_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.2


class Stage:
    """Starts and kills actors, and tells about it with the time since the beginning."""

    def __init__(self, folder: str, tell: Callable[[str], object]) -> None:
        self.folder, self._tell = folder, tell
        self._log = os.path.join(folder, "stderr.txt")
        self._actors: list[Actor] = []
        self._began = time.monotonic()
        self.kills = 0

    def actor(self, name: str, module: str, arguments: Sequence[str]) -> Actor:
        """Name a process; it is not started yet."""
        return self.program(name, python(module, *arguments))

    def program(self, name: str, command: Sequence[str]) -> Actor:
        """Name a process that runs a command; it is not started yet."""
        self._actors.append(Actor(name, command, log=self._log))
        return self._actors[-1]

    def close(self) -> None:
        """Kill who is still there."""
        for actor in self._actors:
            if actor.is_alive:
                actor.kill()

    def say(self, text: str) -> None:
        """Tell a line."""
        self._tell(f"  {time.monotonic() - self._began:>5.1f} s  {text}")

    def note(self, who: str) -> None:
        """Tell that somebody was killed."""
        self.kills += 1
        self.say(f"SIGKILL  {who}")

    def start(self, actor: Actor, word: str) -> None:
        """Start a process and wait until it says a word."""
        actor.start()
        if not actor.await_that(lambda: actor.has_said(word), _START_SECONDS):
            raise SystemExit(f"{actor.name} did not start; see {self._log}")

    def await_that(
        self,
        what: str,
        holds: Callable[[], bool],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait until something holds, or give up with all."""
        if not self.has_come(holds, _END_SECONDS, meanwhile):
            raise SystemExit(f"{what} did not come; see {self._log}")

    @staticmethod
    def has_come(
        holds: Callable[[], bool], seconds: float, meanwhile: Callable[[], object] = lambda: None
    ) -> bool:
        """Wait so long until something holds; say whether it does."""
        limit = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > limit:
                return False
            meanwhile()
            time.sleep(_POLL_SECONDS)
        return True

    def revive(self, query: Actor, word: str = "running") -> None:
        """Start a query again that has given up, as whoever runs one does."""
        if query.starts and not query.is_alive:
            query.kill()
            self.say(f"the {query.name} has ended and is started again")
            self.start(query, word)
