"""What ``make ship-kills`` and ``make upsert-kills`` share: options, server, plays, page."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from bench.demo.folder import Folder
from bench.kills.servers import seaweed
from bench.kit import machine

__all__ = ["Campaign", "tell"]


class Campaign(ABC):
    """Plays one after the other, all with one server. What is played, a subclass says."""

    name: ClassVar[str]
    """As ``make`` calls it."""
    rounds: ClassVar[int]
    """Kills, if nobody says how many."""
    rounds_of_a_play: ClassVar[int]
    begin: ClassVar[str]
    """What is told first."""
    wrong: ClassVar[str]
    """Of what there should be none."""
    title: ClassVar[str]
    right: ClassVar[str]
    """What the page says if nothing is wrong; with NOT before it if something is."""

    def __init__(self, doc: str | None) -> None:
        """Read the options."""
        parser = argparse.ArgumentParser(prog=f"bench.{self.name.replace('-', '_')}")
        parser.description = doc
        place = f"out/{self.name}"
        parser.add_argument("--dir", default=place, help="where to work; emptied before")
        parser.add_argument("--rounds", type=int, default=self.rounds, help="how many kills")
        parser.add_argument("--seed", type=int, default=2026, help="decides who is killed when")
        parser.add_argument("--result", help="write the outcome to this Markdown file")
        self.options = parser.parse_args()
        self.outcome: Any = None
        self.kills: Counter[str] = Counter()
        self.aimed = 0

    @abstractmethod
    def play(self, number: int, folder: str, server: Any, rng: random.Random) -> Any:
        """Make the play of this number."""

    @abstractmethod
    def victims(self, play: Any, rounds: int) -> list[str]:
        """Choose who is killed in it."""

    @abstractmethod
    def told(self) -> list[str]:
        """Tell what came through, a line each."""

    @abstractmethod
    def text(self, verdict: str) -> str:
        """Give what the page says of how it was done, and how it ended."""

    def where(self, play: Any) -> str:
        """Say where a play is, behind its number."""
        del play
        return ""

    def run(self) -> int:
        """Run all plays and give the exit status: 0 only if nothing is wrong."""
        if missing := seaweed.seaweed_missing():
            print(missing, file=sys.stderr)
            return 1
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The server ends with this.
        began = time.monotonic()
        folder = Folder.prepare(self.options.dir).root
        print(f"{self.begin}\n")
        place = os.path.join(folder, "server")
        with seaweed.running(Path(place)) as server:
            self._play_all(folder, server)
        shutil.rmtree(place)
        problems = self.outcome.problems
        report = self._report(time.monotonic() - began)
        print("\n".join(["", *report]))
        if self.options.result:
            self._write(report, f"**{self.right if not problems else f'NOT {self.right}'}**")
        return 1 if problems else 0

    def _play_all(self, folder: str, server: Any) -> None:
        rounds, most = self.options.rounds, self.rounds_of_a_play
        for number in range(max(-(-rounds // most), 1)):
            rng = random.Random(f"{self.options.seed} {number}")
            play = self.play(number, os.path.join(folder, f"play-{number + 1}"), server, rng)
            print(f"play {number + 1}{self.where(play)}", flush=True)
            found = play.run(self.victims(play, min(rounds - number * most, most)))
            if self.outcome is None:
                self.outcome = found
            else:
                self.outcome.add(found)
            self.kills += play.kills
            self.aimed += play.aimed
            for problem in found.problems:
                print(f"  ! {problem}")
            if not found.problems:
                shutil.rmtree(play.folder)

    def _report(self, seconds: float) -> list[str]:
        each = ", ".join(f"{count} {name}" for name, count in sorted(self.kills.items()))
        problems = self.outcome.problems
        lines = [
            *self.told(),
            f"  kills survived              {self.kills.total():>9,}  {each}",
            f"  of these in an act          {self.aimed:>9,}",
            f"  {self.wrong}: {len(problems)}",
            f"  {seconds:,.0f} seconds",
        ]
        return lines + [f"  ! {problem}" for problem in problems]

    def _write(self, report: list[str], verdict: str) -> None:
        at = machine()
        where = (
            f"{at['date']}, {at['cores']} cores, {at['memory_gib']} GiB, load {at['load']} at the "
            f"end. `make {self.name} ROUNDS={self.options.rounds}`, seed {self.options.seed}:"
        )
        with open(self.options.result, "w", encoding="utf-8") as file:
            print(f"# {self.title}\n\n{where} {self.text(verdict)}\n", file=file)
            print("\n".join(["```", *report, "```"]), file=file)


def tell(text: str) -> None:
    """Say at once how a play goes."""
    print(text, flush=True)
