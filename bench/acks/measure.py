"""Rounds of several measures in turn, and the page that is made of them."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.kit import clocked, machine
from quiver.acks import AckLog
from quiver.disk import LocalDisk

__all__ = ["ACKS", "TITLE", "Bench", "clocked", "opened"]

ACKS = "core_0/acks"
TITLE = "What acknowledgements cost"
NOTE = (
    "What is not reached is in bold. A log has room for 4,194,303 records: ten million bundles",
    "are acked by 4,000,000 of them here, every second one a run of 4, the others singles.",
)


def opened(folder: Path) -> AckLog:
    """Open the log in a folder, made with what is around it if there is none."""
    disk = LocalDisk(folder, create=True)
    disk.make_dir("core_0")
    log, _ = AckLog.open(disk, ACKS, "core_0/quarantine")
    return log


class Bench:
    """What one run found."""

    def __init__(self, folder: Path, *, rounds: int, scale: float) -> None:
        self.folder = folder
        self.rounds = rounds
        self.scale = scale
        self.rows: list[dict[str, Any]] = []

    def count(self, full: int) -> int:
        """Scale a number of things."""
        return max(1000, int(full * self.scale))

    def interleave(self, *acts: Callable[[Path], float]) -> list[list[float]]:
        """Do each once unmeasured, then ``rounds`` times in turn, each time in an empty folder."""
        found: list[list[float]] = [[] for _ in acts]
        for number in range(self.rounds + 1):
            for act, seconds in zip(acts, found, strict=True):
                place = self.folder / "round"
                place.mkdir()
                took = act(place)
                shutil.rmtree(place)
                if number:
                    seconds.append(took)
        return found

    def add(self, measure: str, seconds: list[float], count: int, **more: Any) -> None:
        """Note how long ``count`` things took in each round; ``at_most`` is in microseconds."""
        each = [took / count * 1e6 for took in seconds]
        row: dict[str, Any] = {"measure": measure, "count": count}
        row |= {"microseconds": statistics.median(each), "least": min(each), "most": max(each)}
        row |= {"per_second": 1e6 / row["microseconds"]}
        if "at_most" in more:
            row["reached"] = row["microseconds"] <= more["at_most"]
        self.note(row | more)

    def note(self, row: dict[str, Any]) -> None:
        """Note what is no time."""
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def page(self) -> str:
        """Write the page."""
        found = machine()
        where = (
            f"{found['date']}, {found['cores']} cores, {found['memory_gib']} GiB, Python "
            f"{found['python']}, numpy {np.__version__}. Made by `make bench-acks`: medians of "
            f"{self.rounds} rounds, all measures of a part in turn."
        )
        lines = [
            f"# {TITLE}",
            "",
            where,
            *NOTE,
            "",
            "| measure | things | microseconds each | least to most | wanted | a second | more |",
            "|---|---:|---:|---:|---:|---:|---|",
        ]
        known = ("measure", "count", "microseconds", "least", "most", "at_most", "reached", "ratio")
        known = (*known, "bound", "wanted", "per_second")
        for row in self.rows:
            extra = {n: v for n, v in row.items() if n not in known}
            more = ", ".join(f"{v:,.6g} {n.replace('_', ' ')}" for n, v in extra.items())
            if "ratio" in row:
                ratio = f"ratio {row['ratio']:.2f}"
                ratio = ratio if row["reached"] else f"**{ratio}**"
                lines.append(
                    f"| {row['measure']} | {row['count']:,} | {ratio} | {row['least']:.2f} to "
                    f"{row['most']:.2f} | {row['bound']} {row['wanted']:g} | | {more} |"
                )
                continue
            if "microseconds" not in row:
                lines.append(f"| {row['measure']} | {row['count']:,} | | | | | {more} |")
                continue
            each = f"{row['microseconds']:.3g}"
            each = each if row.get("reached", True) else f"**{each}**"
            wanted = f"at most {row['at_most']:g}" if "at_most" in row else ""
            lines.append(
                f"| {row['measure']} | {row['count']:,} | {each} | {row['least']:.3g} to "
                f"{row['most']:.3g} | {wanted} | {row['per_second']:,.0f} | {more} |"
            )
        return "\n".join(lines) + "\n"
