"""When to kill the writer, and what its last words say about where it was.

A seed decides at which bundle and in which act; where within the act is left to chance. The writer
says what it is about to do (``writer``); its parent waits for that line, then for a random part of
the time that the act took before, then sends SIGKILL. What the writer said last is the evidence:
``append 17`` without ``durable 17`` means that it died inside that append.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Hunt", "Kill", "Life", "plan", "read_life", "surprises"]

_BEGUN_BY: Final = {"durable": "append", "finalized": "finalize", "opened": "opening"}
"""Which line ends the act that which line began."""
_FIRST_GUESS: Final = {"append": 5e-4, "finalize": 0.02, "opening": 0.02}
"""Seconds an act takes, until one was seen."""
_REACH: Final = 0.5
"""A kill comes within this part of the time that the act took before, so as to meet it inside."""
_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True)
class Kill:
    """One planned kill: in the first act of a kind at or behind a bundle."""

    act: str
    bundle: int

    def strikes(self, word: str, bundle: int) -> bool:
        """Whether the writer's line is the one that was waited for."""
        return word == self.act and (word == "opening" or bundle >= self.bundle)


@dataclass
class Life:
    """One writer process, from its start to its end, as far as its words tell."""

    found: dict[str, Any] = field(default_factory=dict)
    """What recovery found at the start; empty if it did not get that far."""
    acknowledged: int = 0
    """How many bundles the store had acknowledged by the end, in this life and all before."""
    act: str = ""
    """The act that had begun and not ended; empty if it was between two."""
    bundle: int = -1
    """The bundle of that act."""
    killed: bool = False


def plan(rng: random.Random, bundles: int, *, months: Collection[int], appends: int) -> list[Kill]:
    """Spread kills over the year: ``appends`` in appends, two in finalizes, one in a recovery."""
    bounds = [bundles * n // appends for n in range(appends + 1)]
    kills = [Kill("append", rng.randrange(bounds[n], bounds[n + 1])) for n in range(appends)]
    kills += [Kill("finalize", bundle) for bundle in rng.sample(sorted(months)[1:-2], 2)]
    kills.sort(key=lambda kill: kill.bundle)
    # Right after another kill, so that there is something to recover from.
    place = rng.randrange(1, len(kills))
    kills.insert(place, Kill("opening", kills[place - 1].bundle))
    return kills


class Hunt:
    """Starts writers on a store, one after the other, and kills them as planned."""

    def __init__(
        self, store: str, rng: random.Random, *, on_durable: Callable[[int], object]
    ) -> None:
        """Tell ``on_durable`` how many bundles are acknowledged, whenever that changes."""
        self._store = store
        self._rng = rng
        self._on_durable = on_durable
        self._seconds = dict(_FIRST_GUESS)

    def run(self, kill: Kill | None, *, acknowledged: int) -> Life:
        """Start a writer; kill it as planned, or let it come to its end if there is no plan."""
        command = [sys.executable, "-m", "bench.demo.writer", self._store]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT) as writer:
            try:
                lines = self._listen(writer, kill)
            except BaseException:
                writer.kill()
                raise
        life = read_life(lines, acknowledged=acknowledged)
        life.killed = kill is not None and writer.returncode < 0
        if writer.returncode and not life.killed:
            raise SystemExit(f"the writer ended by itself with status {writer.returncode}")
        return life

    def _listen(self, writer: subprocess.Popen[bytes], kill: Kill | None) -> list[str]:
        """Read what the writer says until it is gone, and strike once."""
        stream: Any = writer.stdout
        lines = []
        began = time.perf_counter()
        for raw in stream:
            lines.append(raw.decode())
            word, bundle = _parse(lines[-1])
            now = time.perf_counter()
            if word in _BEGUN_BY:
                self._seconds[_BEGUN_BY[word]] = now - began
            began = now
            if word == "durable":
                self._on_durable(bundle + 1)
            if kill is not None and kill.strikes(word, bundle):
                time.sleep(self._rng.random() * _REACH * self._seconds[word])
                writer.kill()
                kill = None
        return lines


def read_life(lines: Iterable[str], *, acknowledged: int) -> Life:
    """Tell from a writer's lines how far it came and in what it died."""
    life = Life(acknowledged=acknowledged)
    for line in lines:
        word, bundle = _parse(line)
        if word in _BEGUN_BY:
            life.act, life.bundle = "", -1
        else:
            life.act, life.bundle = word, bundle
        if word == "durable":
            life.acknowledged = bundle + 1
        elif word == "opened":
            life.found = json.loads(line.partition(" ")[2])
    return life


def _parse(line: str) -> tuple[str, int]:
    word, _, rest = line.strip().partition(" ")
    return word, int(rest) if rest.isdigit() else -1


def surprises(lives: Iterable[Life]) -> list[str]:
    """List what recovery brought back that it should not have, or did not bring back.

    Every acknowledged bundle must be there. One more may be, if the writer died while appending
    it: written, but nobody was told. Nothing else.
    """
    wrong = []
    least = most = 0
    for number, life in enumerate(lives):
        if life.found:
            there, damaged = life.found["next"], life.found["damaged"]
            if not least <= there <= most:
                wrong.append(f"start {number}: {there} bundles there, not {least} to {most}")
            if damaged:
                wrong.append(f"start {number}: recovery found {damaged} damaged items")
            least = most = max(there, life.acknowledged)
        if life.act == "append":
            most = least + 1
    return wrong
