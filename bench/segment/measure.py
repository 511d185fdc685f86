"""Rounds of several measures in turn, and the page that is made of them."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

__all__ = ["Bench", "clocked", "p99", "warm"]

_PIECE = bytes(4 << 20)
_WARM_BYTES = 512 << 20

Bound = Literal["at most", "at least"]


def warm(folder: Path) -> None:
    """Write a large file and delete it, so that the page cache grows into memory that is there.

    A host may have taken back memory that was free for some seconds, and giving it again costs ten
    times as much as the write that is to be measured.
    """
    place = folder / "warm"
    with place.open("wb", buffering=0) as file:
        for _ in range(_WARM_BYTES // len(_PIECE)):
            file.write(_PIECE)
    place.unlink()


def clocked(act: Callable[[], Any]) -> float:
    """Do something; seconds."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def p99(took: list[float]) -> float:
    """Give the 99th percentile."""
    return sorted(took)[min(int(len(took) * 0.99), len(took) - 1)]


class Bench:
    """What one run found."""

    def __init__(self, folder: Path, *, rounds: int, scale: float) -> None:
        self.folder = folder
        self.rounds = rounds
        self.scale = scale
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def interleave(self, **acts: Callable[[], Any]) -> dict[str, list[Any]]:
        """Do each thing once unmeasured, then ``rounds`` times in turn; what each of them gave."""
        for act in acts.values():
            act()
        found: dict[str, list[Any]] = {name: [] for name in acts}
        for _ in range(self.rounds):
            for name, act in acts.items():
                found[name].append(act())
        return found

    def add(
        self,
        measure: str,
        over: list[float],
        under: list[float],
        *,
        wanted: tuple[Bound, float] | None = None,
        **more: Any,
    ) -> None:
        """Note ``over / under`` of each round, and what the median of it should be."""
        ratios = [a / b for a, b in zip(over, under, strict=True)]
        median = statistics.median(ratios)
        row: dict[str, Any] = {"measure": measure, "ratio": median}
        row |= {"least": min(ratios), "most": max(ratios)}
        if wanted is not None:
            bound, value = wanted
            row |= {"bound": bound, "wanted": value}
            row["reached"] = median <= value if bound == "at most" else median >= value
        self.rows.append(row | more)
        print(json.dumps(self.rows[-1]), flush=True)

    def page(self) -> str:
        """Write the page."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        where = (
            f"{datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, "
            f"{memory:.0f} GiB, Python {platform.python_version()}, pyarrow {pa.__version__}. Made "
            f"by `make bench-segment`: medians of {self.rounds} rounds, both sides in turn, the "
            "page cache"
        )
        lines = [
            "# Segments against the same bytes with nothing around",
            "",
            where,
            "warmed before each timed write. What is not reached is in bold.",
            "",
            "| measure | ratio | least to most | wanted | more |",
            "|---|---:|---:|---:|---|",
        ]
        known = ("measure", "ratio", "least", "most", "bound", "wanted", "reached")
        for row in self.rows:
            extra = {name: value for name, value in row.items() if name not in known}
            more = ", ".join(
                f"{value:,.4g} {name.replace('_', ' ')}" for name, value in extra.items()
            )
            wanted = f"{row['bound']} {row['wanted']:g}" if "wanted" in row else ""
            ratio = f"{row['ratio']:.2f}" if row.get("reached", True) else f"**{row['ratio']:.2f}**"
            spread = f"{row['least']:.2f} to {row['most']:.2f}"
            lines.append(f"| {row['measure']} | {ratio} | {spread} | {wanted} | {more} |")
        return "\n".join([*lines, *self.notes]) + "\n"
