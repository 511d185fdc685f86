"""``make bench``: every part in turn, each in a process of its own, and one report of them all.

Each part writes its page and its JSON; ``bench/BENCH.md`` holds the figures that have a goal. A
part is run shorter here than by ``make bench-<part>``, and its page says how many rounds it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any, Final, NamedTuple

from bench.kit import ROOT, machine

PLACE: Final = ROOT / "bench"


class Part(NamedTuple):
    """What is run, and what it draws."""

    name: str
    options: tuple[str, ...]
    plots: tuple[str, ...] = ()


PARTS: Final = (
    Part("ingest", ("--rounds", "3")),
    Part("peers", (), ("peers",)),
    Part("pipeline", ("--rounds", "3")),
    Part("opening", ("--rounds", "3")),
    Part("segment", ("--rounds", "3", "--scale", "0.3")),
    Part("growth", (), ("growth",)),
    Part("acks", ("--rounds", "3", "--scale", "0.3")),
    Part("spark", ("--rounds", "3"), ("spark",)),
)


class Told(NamedTuple):
    """One figure that has a goal."""

    measure: str
    figure: str
    spread: str
    wanted: str
    reached: bool


def goals(rows: list[dict[str, Any]]) -> list[Told]:
    """Pick the rows that have a goal: a ratio, or microseconds."""
    found = []
    for row in rows:
        if "reached" not in row:
            continue
        value = row.get("ratio", row.get("microseconds"))
        unit = "" if "ratio" in row else " us"
        bound = f"{row['bound']} {row['wanted']:g}" if "bound" in row else ""
        wanted = bound or f"at most {row['at_most']:g}"
        spread = f"{row['least']:.3g} to {row['most']:.3g}"
        found.append(
            Told(row["measure"], f"{value:.3g}{unit}", spread, f"{wanted}{unit}", row["reached"])
        )
    return found


def report(parts: dict[str, dict[str, Any]], *, minutes: float) -> str:
    """Write the page."""
    where = machine()
    said = {n: v for part in parts.values() for n, v in part.get("versions", {}).items()}
    versions = "".join(f", {name} {version}" for name, version in sorted(said.items()))
    every = {name: goals(part["rows"]) for name, part in parts.items()}
    count = sum(len(rows) for rows in every.values())
    missed = sum(not row.reached for rows in every.values() for row in rows)
    how = (
        f"{where['date']}. Made by `make bench` in {minutes:.0f} minutes on {where['cores']} cores "
        f"with {where['memory_gib']} GiB: Linux {where['kernel']}, Python {where['python']}, "
        f"pyarrow {where['pyarrow']}{versions}."
    )
    what = (
        f"Of {count} figures with a goal {count - missed} reach it; the others are in bold. Each "
        "is a ratio of medians of rounds in which both sides take turns, in one run on one disk, "
        "where no unit is given. The page of a part has the rest of its figures, and what is "
        "behind those that miss."
    )
    lines = ["# What Quiver costs, beside the raw disk and beside others", "", how, "", what]
    for part in PARTS:
        if part.name not in parts:
            continue
        found = parts[part.name]
        page = f"{part.name.upper()}.md"
        lines += ["", f"## {found['title']}", ""]
        lines += [f"`{found['command']}`, {found['rounds']} rounds: [all of it]({page})", ""]
        lines += [f"![{found['title']}]({plot}.svg)\n" for plot in part.plots]
        lines += ["| measure | figure | least to most | wanted |", "|---|---:|---:|---:|"]
        for row in every[part.name]:
            figure = row.figure if row.reached else f"**{row.figure}**"
            lines.append(f"| {row.measure} | {figure} | {row.spread} | {row.wanted} |")
    return "\n".join(lines) + "\n"


def run(part: Part) -> bool:
    """Let a part measure and write its page; whether it did."""
    command = [sys.executable, "-m", f"bench.{part.name}", *part.options]
    print(f"\n== {' '.join(command[1:])}", flush=True)
    began = time.monotonic()
    code = subprocess.call(command, cwd=ROOT)
    print(f"== {part.name}: {time.monotonic() - began:.0f} s, exit code {code}", flush=True)
    return code == 0


def main() -> int:
    """Measure everything, or write the report anew of what was measured."""
    options = argparse.ArgumentParser(prog="bench", description=__doc__)
    names = [part.name for part in PARTS]
    options.add_argument("--only", choices=names, action="append", help="a part of it")
    options.add_argument("--minutes", type=float, help="measure nothing: the last run took so long")
    asked = options.parse_args()
    began = time.monotonic()
    wanted = [part for part in PARTS if asked.only is None or part.name in asked.only]
    failed = [] if asked.minutes is not None else [p.name for p in wanted if not run(p)]
    if failed:
        print(f"no report: {', '.join(failed)} failed", file=sys.stderr)
        return 1
    if asked.only is None:
        minutes = asked.minutes or (time.monotonic() - began) / 60
        found = {p.name: json.loads((PLACE / f"{p.name}.json").read_text()) for p in PARTS}
        (PLACE / "BENCH.md").write_text(report(found, minutes=minutes))
        print(f"\nbench/BENCH.md, {minutes:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
