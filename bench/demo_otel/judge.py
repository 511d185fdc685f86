"""What came out against what was logged: lost, twice, and what Spark counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.demo_otel.flights import flight_log

__all__ = ["Found", "Verdict", "judge"]


@dataclass(frozen=True)
class Found:
    """What somebody has of the log."""

    came: int
    different: int
    strange: int
    """Numbers that no line has."""


@dataclass
class Verdict:
    """How it went."""

    lines: int
    found: dict[str, Found]
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether everybody has each line, and Spark counts them as the log does."""
        return not self.problems


def judge(lines: int, sinks: dict[str, Any], answer: dict[str, Any]) -> Verdict:
    """Compare the numbers of lines of each sink, and Spark's answer, with the log."""
    found = {name: look(numbers, lines) for name, numbers in sinks.items()}
    found["the store, by Spark"] = Found(answer["lines"], answer["different"], 0)
    problems = [
        f"{name}: {lines - each.different:,} lines lost, {each.strange:,} strange"
        for name, each in found.items()
        if each.different != lines or each.strange
    ]
    logged = Counter(tuple(line.split(" ", 3)[1:3]) for line in flight_log(lines))
    kinds = sorted([carrier, how, count] for (how, carrier), count in logged.items())
    if kinds != answer["kinds"]:
        problems.append("Spark counts other carriers or severities than the log has")
    return Verdict(lines, found, problems)


def look(numbers: Any, lines: int) -> Found:
    """Count what a sink has."""
    different = np.unique(numbers)
    known = different[(different >= 0) & (different < lines)]
    return Found(len(numbers), len(known), len(different) - len(known))
