"""``make bench-profile``: samples of the work behind rows that miss their goal, and causes.

Reads what ``make bench`` wrote. Writes ``bench/profiles/*.svg``, ``bench/profiles.json`` and
``bench/PROFILES.md``; causes are in ``bench/profiling/causes.toml``, by the name of the work.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

from bench.kit import ROOT, machine
from bench.profiling.flames import draw, folded, selves
from bench.profiling.works import WORKS, Work
from bench.report import Told, goals

PLACE: Final = ROOT / "bench"
PICTURES: Final = PLACE / "profiles"
FOUND: Final = PLACE / "profiles.json"
CAUSES: Final = PLACE / "profiling" / "causes.toml"
PATIENCE: Final = 180

_ABOUT: Final = """
Made by `make bench-profile` from the rows of the last `make bench` that miss their goal. The work
behind a row is done again for some seconds while `py-spy` samples all threads, frames of C and
C++ included. The main thread is drawn with what it waits for, so its width is the time that passes;
other threads are drawn with what they do, without what they wait for. Sampling stops the process
for a moment each time: shares are to be trusted more than times. Hover over a box for its name.
"""


def sampler() -> str:
    """Find py-spy, beside this Python or on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    place = str(beside) if beside.exists() else shutil.which("py-spy")
    if place is None:
        raise SystemExit("no py-spy: pip install py-spy (the group `bench` has it)")
    return place


def told_rows() -> dict[str, list[Told]]:
    """Give the rows with goals of each part that was measured."""
    found = {}
    for part in sorted({name for work in WORKS.values() for name in work.rows} | {"growth"}):
        place = PLACE / f"{part}.json"
        told = json.loads(place.read_text()) if place.exists() else {}
        if "rows" in told:
            found[part] = goals(told)
    return found


def of(work: Work, rows: dict[str, list[Told]]) -> list[tuple[str, Told]]:
    """Give the rows that miss their goal and have this work behind them."""
    return [
        (part, row)
        for part, pattern in work.rows.items()
        for row in rows.get(part, [])
        if not row.reached and re.search(pattern, row.measure)
    ]


def record(name: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Sample a work in a process of its own; draw it, and give its tables."""
    raw, place = folder / "raw", folder / "work"
    place.mkdir()
    command = [sys.executable, "-m", "bench.profiling.works", name, str(place)]
    command += ["--seconds", str(seconds), "--sampler", sampler(), "--raw", str(raw)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    shutil.rmtree(place)
    if done.returncode or not raw.exists():
        raise RuntimeError(f"{name}: {done.stderr[-1000:]}")
    stacks = folded(raw.read_text())
    raw.unlink()
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(draw(WORKS[name].title, stacks))
    threads = sorted({stack.frames[0] for stack in stacks}, key=lambda one: one != "main thread")
    counts = {
        thread: sum(stack.count for stack in stacks if stack.frames[0] == thread)
        for thread in threads
    }
    print(f"{name}: {counts}", flush=True)
    selfs = {thread: selves(stacks, thread) for thread in threads}
    return {"samples": counts, "selves": selfs, "machine": machine()}


def page(rows: dict[str, list[Told]], found: dict[str, Any], causes: dict[str, str]) -> str:
    """Write it: a cause, the rows, the picture, and where the time is, for each work."""
    where = machine()
    lines = ["# Why rows of the report miss their goal", ""]
    lines += [f"{where['date']}, {where['cores']} cores, {where['memory_gib']} GiB."]
    lines += _ABOUT.splitlines()
    seen: set[tuple[str, str]] = set()
    for name, work in WORKS.items():
        missed = of(work, rows)
        seen |= {(part, row.measure) for part, row in missed}
        if missed or name in found:
            lines += _section(name, missed, found.get(name), causes.get(name, ""))
    rest = [
        (part, row)
        for part, told in rows.items()
        for row in told
        if not row.reached and (part, row.measure) not in seen
    ]
    if rest:
        lines += ["", "## Rows without a picture", "", *_rows(rest)]
        lines += [f"\n{causes['rest']}"] if causes.get("rest") else []
    lines += ["", "Spark has a page of its own: [SPARK_PROFILE.md](SPARK_PROFILE.md)."]
    return "\n".join(lines) + "\n"


def _section(
    name: str, missed: list[tuple[str, Told]], found: dict[str, Any] | None, cause: str
) -> list[str]:
    lines = ["", f"## {WORKS[name].title}", ""]
    lines += [cause.strip() or "No cause is written down yet."]
    lines += ["", *_rows(missed)] if missed else ["", "No row of this misses its goal."]
    if found is None:
        return [*lines, "", f"Not sampled yet: `make bench-profile WORK={name}`."]
    lines += ["", f"![flame graph](profiles/{name}.svg)", ""]
    main = found["samples"].get("main thread", 0)
    lines += ["| thread | busy, by the main thread's time | most of it, itself |", "|---|---:|---|"]
    for thread, count in found["samples"].items():
        most = ", ".join(
            f"{_code(one)} {share:.0%}" for one, share in found["selves"][thread] if share >= 0.03
        )
        lines.append(f"| {thread} | {count / max(main, 1):.0%} | {most} |")
    return lines


def _code(name: str) -> str:
    """Give a name as it fits into a table: without types of C++, and without its file."""
    short = re.sub(r"<.*|[(].*", "", name.replace("(anonymous namespace)::", "")).strip(" :")
    return f"`{short or name[:40]}`"


def _rows(rows: list[tuple[str, Told]]) -> list[str]:
    lines = ["| part | row | figure | wanted |", "|---|---|---:|---:|"]
    for part, row in rows:
        figure = f"{row.figure:.3g}{row.unit}"
        wanted = f"{row.bound} {row.wanted:g}{row.unit}"
        lines.append(f"| {part} | {row.measure} | {figure} | {wanted} |")
    return lines


def main() -> None:
    """Sample what misses, or what is asked for, and write the page."""
    options = argparse.ArgumentParser(prog="bench.profiling", description=__doc__)
    options.add_argument("--work", choices=WORKS, action="append", help="sample this one; again")
    options.add_argument("--all", action="store_true", help="also those whose rows reach it")
    options.add_argument("--page", action="store_true", help="sample nothing: only the page")
    options.add_argument("--seconds", type=float, default=4.0, help="of each work")
    options.add_argument("--dir", help="where to write, on the disk that was measured")
    asked = options.parse_args()
    rows = told_rows()
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    wanted = [] if asked.page else asked.work or [n for n, w in WORKS.items() if of(w, rows)]
    if asked.all:
        wanted = list(WORKS)
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
            found[name] = record(name, Path(folder), asked.seconds)
    FOUND.write_text(json.dumps(found, indent=1) + "\n")
    causes = tomllib.loads(CAUSES.read_text()) if CAUSES.exists() else {}
    (PLACE / "PROFILES.md").write_text(page(rows, found, causes))
    print("bench/PROFILES.md")


if __name__ == "__main__":
    main()
