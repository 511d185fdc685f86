"""The long run of the crash harness: ``make soak``; its result is kept in ``bench/SOAK.md``.

Each part is a program of its own, as in the CI but larger. They run side by side, for the power
cuts wait for a disk most of the time. One that fails fails the run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "bench" / "SOAK.md"


@dataclass(frozen=True, slots=True)
class Part:
    """One program, and what it was asked for."""

    name: str
    command: list[str]
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """How a program ended."""

    part: Part
    seconds: float
    text: str


def parts(images: int, cuts: int, mutants: int) -> list[Part]:
    """Give the programs of one soak."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--timeout", "86400"]
    crashtest = [sys.executable, "-m", "quiver.testing", "--seed", "11", "--json"]
    crashtest += ["--nested", "100", "--nested-share", "1"]
    return [
        Part("images of crashes", [*crashtest, "--images", str(images)], {}),
        Part("real power cuts", [*pytest, "tests/power"], {"QUIVER_POWER_CUTS": str(cuts)}),
        Part(
            "Arrow mutants",
            [*pytest, "tests/testing/test_arrow_mutants.py"],
            {"QUIVER_ARROW_MUTANTS": str(mutants)},
        ),
    ]


def run(part: Part) -> Result:
    """Run one program to its end; raises CalledProcessError if that was no success."""
    print(f"{part.name}: {shown(part)}", flush=True)
    begun = time.monotonic()
    done = subprocess.run(
        part.command,
        cwd=ROOT,
        env={**os.environ, **part.environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begun
    print(f"{part.name}: exit code {done.returncode} after {seconds / 60:.1f} minutes", flush=True)
    if done.returncode:
        print(done.stdout, flush=True)
        done.check_returncode()
    return Result(part, seconds, done.stdout.strip())


def shown(part: Part) -> str:
    """Write a program as somebody would type it."""
    words = [f"{key}={value}" for key, value in part.environment.items()]
    return " ".join([*words, "python", *part.command[1:]])


def summary(result: Result) -> str:
    """Say in a line what came of a program."""
    if result.text.startswith("{"):
        found = json.loads(result.text)
        return (
            f"{found['image_count']:,} images ({found['distinct_count']:,} different disks, "
            f"{found['nested_count']:,} in recoveries), {found['fault_count']:,} failing acts and "
            f"kills, {found['life_count']:,} lives: {found['loss_count']} losses; "
            f"digest `{found['digest']}`"
        )
    return re.sub(r"[= ]*(.*?)[= ]*$", r"\1", result.text.splitlines()[-1])


def report(results: list[Result]) -> str:
    """Write the page."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    where = (
        f"{datetime.now(UTC):%Y-%m-%d}, revision `{revision}`, {cores} cores, {memory:.0f} GiB, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}. "
        "Made by `make soak`, whose parts run side by side."
    )
    lines = [
        "# The last soak",
        "",
        where,
        "",
        "| part | what came of it | minutes | command |",
        "|---|---|---|---|",
    ]
    for result in results:
        minutes = f"{result.seconds / 60:.1f}"
        lines.append(
            f"| {result.part.name} | {summary(result)} | {minutes} | `{shown(result.part)}` |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all parts and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=int, default=5_000_000)
    options.add_argument("--cuts", type=int, default=20_000)
    options.add_argument("--mutants", type=int, default=100_000)
    asked = options.parse_args()
    programs = parts(asked.images, asked.cuts, asked.mutants)
    with ThreadPoolExecutor(len(programs)) as pool:
        results = list(pool.map(run, programs))
    RESULT.write_text(report(results))
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
