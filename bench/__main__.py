"""``make bench``: every part in turn, each in a process of its own, and one report of them all.

Each part writes its page and its JSON; ``bench/BENCH.md`` holds the figures that have a goal, and
names the pages of those that are measured by themselves. A part is run shorter here than by
``make bench-<part>``, and its page says how many rounds it was.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Final

from bench.kit import ROOT
from bench.report import Part, draw, goals, page

PLACE: Final = ROOT / "bench"
TIMES: Final = PLACE / "bench.json"
PATIENCE: Final = 3
"""A part that takes so many times its share is ended: it is no measure of a quiet machine."""

PARTS: Final = (
    Part("ingest", ("--rounds", "3"), 110),
    Part("peers", ("--rounds", "4", "--seconds", "240"), 270, ("peers",)),
    Part("pipeline", ("--rounds", "2"), 140),
    Part("opening", ("--rounds", "3"), 110),
    Part("segment", ("--rounds", "2", "--scale", "0.5"), 150),
    Part("growth", ("--rounds", "2", "--seconds", "120"), 130, ("growth",)),
    Part("acks", ("--rounds", "3", "--scale", "0.3"), 70),
    Part("ship", ("--rounds", "2", "--scale", "0.2"), 120),
    Part("spark", ("--rounds", "2"), 190, ("spark",)),
)
"""Their seconds are twenty-one minutes together, and most take less."""


ALONE: Final = ("chain", "otel", "upsert")
"""What takes too long for this, or says nothing at a smaller size: its page has its goals."""

QUICK: Final = ("--rounds", "1", "--scale", "0.05", "--try")
"""A part with these shows in seconds that it works; its figures mean nothing."""


def run(part: Part, options: tuple[str, ...], place: str | None) -> float | None:
    """Let a part measure and write its page; seconds, or None if it failed.

    Nothing is left of its data, however it ended.
    """
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=place) as folder:
        return run_in(folder, part, options)


def run_in(folder: str, part: Part, options: tuple[str, ...]) -> float | None:
    """Do so in a folder on the disk to be measured."""
    command = [sys.executable, "-m", f"bench.{part.name}", *options, "--dir", folder]
    print(f"\n== {' '.join(command[1:])}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        code = process.wait(PATIENCE * part.seconds)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        if process.poll() is None:
            end(process)
    took = time.monotonic() - began
    print(f"== {part.name}: {took:.0f} s of {part.seconds}, exit code {code}", flush=True)
    return took if code == 0 else None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a part that has its own process group, after it has put its folders away."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    """Measure everything, or write the report anew of what was measured."""
    options = argparse.ArgumentParser(prog="bench", description=__doc__)
    names = [part.name for part in PARTS]
    options.add_argument("--only", choices=names, action="append", help="measure this part; again")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument("--page", action="store_true", help="measure nothing: only the report")
    options.add_argument("--quick", action="store_true", help="only try it: no pages, no report")
    asked = options.parse_args()
    took = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    wanted = [] if asked.page else [p for p in PARTS if not asked.only or p.name in asked.only]
    failed = []
    for part in wanted:
        seconds = run(part, QUICK if asked.quick else part.options, asked.dir)
        took.pop(part.name, None)
        if seconds is None:
            failed.append(part.name)
        else:
            took[part.name] = seconds
    if asked.quick:
        print(f"failed: {failed or 'none'}")
        return 1 if failed else 0
    TIMES.write_text(json.dumps(took, indent=2) + "\n")
    found = {
        part.name: json.loads((PLACE / f"{part.name}.json").read_text())
        for part in PARTS
        if part.name in took
    }
    for name, one in found.items():
        if rows := goals(one):
            draw(rows, PLACE / "plots" / f"{name}.svg")
    absent = [name for name in names if name not in took]
    alone = {
        name: json.loads((PLACE / f"{name}.json").read_text())
        for name in [*absent, *ALONE]
        if (PLACE / f"{name}.json").exists()
    }
    (PLACE / "BENCH.md").write_text(page(PARTS, found, took, failed, alone=alone))
    print(f"\nbench/BENCH.md, {sum(took.values()) / 60:.1f} minutes; absent: {absent or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
