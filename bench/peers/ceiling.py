"""What the disk gives: each goal beside raw writing of the same bytes in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from bench.peers.page import Found
from bench.peers.peer import Mode
from bench.peers.peers import TWO_COPIES
from bench.peers.runs import Side

__all__ = ["Ceiling", "Goal", "ceilings", "section"]

Figure = Literal["rate", "ack_0.99"]

_HOW: Final = """
## What the disk gives

`raw` and `raw-tuned` are no stores. They write frames that are ready to a log, and once more to
files of 32 MiB, as durable as the peers are, and compute a CRC32C: nothing is encoded, indexed or
given back. "Asks for" is what a goal makes of the peer's figure in each of its rounds. A goal is
above the disk if the least it asks for is more than both ever reached in this run: no store that
writes all bytes twice, as Quiver does, reaches it on this machine by any way that we know. It is
missed all the same, and stays bold. It is not above the disk if the better of the two reached the
most it asks for in each round: then what is missing is Quiver's own to mend. Else the spread of the
rounds is wider than the difference, and nothing is said. `raw-log` writes one copy, as the other
stores do.
"""


class Goal(NamedTuple):
    """What is wanted of Quiver beside a peer: so many times its figure, at least or at most."""

    mode: Mode
    peer: str
    figure: Figure
    times: float


class Ceiling(NamedTuple):
    """A goal, what it asks for, and what raw writing and Quiver reached, each in its rounds."""

    goal: Goal
    asks: Sequence[float]
    raw: Mapping[str, Sequence[float]]
    """By name; all were measured in the same rounds."""
    one_copy: Sequence[float]
    """Empty where it was not measured."""
    ours: Sequence[float]

    @property
    def best(self) -> Sequence[float]:
        """Give the better raw writing of each round."""
        pick = max if self.goal.figure == "rate" else min
        return [pick(each) for each in zip(*self.raw.values(), strict=True)]

    @property
    def is_above(self) -> bool | None:
        """Say if the goal is above all that raw writing gave, or not; None if rounds differ."""
        sign = 1 if self.goal.figure == "rate" else -1  # Of a time less is more.
        asks, best = [sign * each for each in self.asks], [sign * each for each in self.best]
        if min(asks) > max(best):
            return True
        return False if max(asks) <= min(best) else None

    def row(self) -> dict[str, Any]:
        """Give it as it stands in the JSON."""
        found = {"asks": self.asks, "quiver": self.ours, **self.raw, "raw-log": self.one_copy}
        medians = {name: statistics.median(each) for name, each in found.items() if each}
        return {**self.goal._asdict(), **medians, "is_above": self.is_above}


def ceilings(found: Found, goals: Sequence[Goal], rows: int) -> list[Ceiling]:
    """Set each goal beside raw writing; those of which a side was not measured are left out."""
    every = []
    for goal in goals:
        sides = {
            name: found.get(Side(name, goal.mode, rows), {})
            for name in (goal.peer, "quiver", "raw-log", *TWO_COPIES)
        }
        of = {name: [one[goal.figure] for one in side.values()] for name, side in sides.items()}
        both = [r for r in sides[TWO_COPIES[0]] if all(r in sides[name] for name in TWO_COPIES)]
        if of[goal.peer] and of["quiver"] and both:
            asks = [goal.times * theirs for theirs in of[goal.peer]]
            raw = {name: [sides[name][r][goal.figure] for r in both] for name in TWO_COPIES}
            every.append(Ceiling(goal, asks, raw, of["raw-log"], of["quiver"]))
    return every


def section(every: Sequence[Ceiling], words: Mapping[Mode, str]) -> list[str]:
    """Write the table."""
    if not every:
        return ["", "**What the disk gives was not measured.**"]
    names = " | ".join(TWO_COPIES)
    lines = [*_HOW.splitlines(), ""]
    lines += [
        f"| goal | asks for | {names} | raw-log | Quiver | by the better raw | above the disk |"
    ]
    lines += [f"|---|---:|{'---:|' * len(TWO_COPIES)}---:|---:|---:|---|"]
    lines += [_line(one, words) for one in every]
    above = sum(one.is_above is True for one in every)
    torn = sum(one.is_above is None for one in every)
    tail = f", and of {torn} it is not certain" if torn else ""
    return [*lines, "", f"Of {len(every)} goals {above} are above what the disk gives{tail}."]


def _line(one: Ceiling, words: Mapping[Mode, str]) -> str:
    goal = one.goal
    unit, bound = ("MB/s", "at least") if goal.figure == "rate" else ("ms, p99", "at most")
    share = statistics.median(one.ours) / statistics.median(one.best)
    verdict = {True: "yes", False: "no", None: "not certain"}[one.is_above]
    cells = [
        f"{words[goal.mode]}: {bound} {goal.times:g} x {goal.peer}, {unit}",
        *map(_spread, (one.asks, *one.raw.values())),
        _spread(one.one_copy) if one.one_copy else "",
        _spread(one.ours),
        f"{share:.2f}",
        verdict,
    ]
    return f"| {' | '.join(cells)} |"


def _spread(found: Sequence[float]) -> str:
    form = ",.0f" if min(found) >= 20 else ",.2f"
    median, ends = statistics.median(found), (min(found), max(found))
    if len(found) == 1:
        return format(median, form)
    return f"{format(median, form)} ({' to '.join(format(end, form) for end in ends)})"
