"""Look for every defect with every method, and write DEFECTS.md and known.json.

    .venv/bin/python tests/crash/planted/matrix.py [--methods kill,posix] [--jobs 2]

Takes most of an hour on one core; the real cuts need root. What a method came to is kept in a file
beside the page until the page is written, so it may be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from defects import DEFECTS, HARMLESS
from methods import CUT_LIVES, CUTS, KNOWN, METHODS

__all__ = ["look", "page", "run_all"]

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parent / "DEFECTS.md"
NOTES: Final = PAGE.with_suffix(".part.json")
NOBODY: Final = ""
STRICTEST: Final = "posix"
SECONDS: Final = {"kill": 5, "ext4 cut": 90, "xfs cut": 90, "journaled": 12, "posix": 60}
"""When a method gives up on a defect."""
SECONDS_HARMLESS: Final = 10
"""When posix, the only one to try, gives up on a line that is judged harmless."""
SLOWNESS: Final = 20
"""How much longer a method may take when it shares the machine, or judges one large life."""

INTRODUCTION: Final = """\
# Planted defects

How good is the crash harness? Each line below is one wrong line in the real store, planted on
purpose; each column is a way to look for it. Written by `{command}` on {date}, {machine}.

Read it as a comparison of methods, not as a rate of detection. The defects were planted with the
code of the store at hand, by somebody who also knew the oracle, so they are the ones that come to
mind to a reader, not those that nobody thought of; and where a defect was missed, the lives or the
oracle were made stronger until it was found. A dash means: not found in the time that the method
has. It is no proof that the method cannot find it.

| method | what it looks at | gives up after |
|---|---|---|
| kill | what is visible before each act, and before each act of the recovery from that | {kill} s |
| ext4 cut, xfs cut | what a real file system leaves when it is shut down before an act \
| {cuts} cuts in each of {cut_lives} lives, or {cut} s |
| journaled | what a power cut may leave where names persist in order, as ext4 and XFS do it \
| {journaled} s |
| posix | what a power cut may leave where only the standard is believed | {posix} s |

All lead the same lives in the same order. Both simulators also refuse acts, and kill the process
and go on. Seconds are of one core, for real cuts of a clock on the wall. A number in the table says
how many images had been judged when the defect showed itself, those inside recoveries included.
"""

JUDGED: Final = """\
## Judged harmless

Wrong lines too, but no crash can make a store break a promise by them, as far as we can tell.
They are planted as well; posix, the strictest method, looked for each of them for {seconds} s.
"""


def look(method: str, name: str) -> dict[str, Any]:
    """Run one method on one defect in a process of its own."""
    harmless = any(name == defect.name for defect in HARMLESS)
    seconds = SECONDS_HARMLESS if harmless else SECONDS[method]
    command = [sys.executable, str(HERE / "methods.py"), method, *([name] if name else [])]
    command += ["--seconds", str(seconds)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SLOWNESS * seconds
    )
    if done.returncode:
        raise RuntimeError(f"{method} on {name!r}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_all(methods: list[str], jobs: int) -> dict[str, dict[str, Any]]:
    """Give what came of each method and defect by ``method/defect``; what was done before stays."""
    verdicts: dict[str, dict[str, Any]] = json.loads(NOTES.read_text()) if NOTES.exists() else {}
    names = [NOBODY, *(defect.name for defect in DEFECTS)]
    wanted = [(method, name) for method in methods for name in names]
    if STRICTEST in methods:
        wanted += [(STRICTEST, defect.name) for defect in HARMLESS]
    wanted = [(method, name) for method, name in wanted if f"{method}/{name}" not in verdicts]
    with ThreadPoolExecutor(jobs) as pool:
        for (method, name), verdict in zip(
            wanted, pool.map(lambda pair: look(*pair), wanted), strict=True
        ):
            verdicts[f"{method}/{name}"] = verdict
            NOTES.write_text(json.dumps(verdicts))
            sys.stdout.write(f"{method:10} {cell(verdict):>8} {verdict['seconds']:7.1f} s {name}\n")
            sys.stdout.flush()
    return verdicts


def cell(verdict: dict[str, Any] | None) -> str:
    """Say in a word what came of it."""
    if verdict is None or verdict["obstacle"]:
        return "not run"
    return f"{verdict['images']:,}" if verdict["found"] else "-"


def page(verdicts: dict[str, dict[str, Any]], *, command: str, date: str) -> str:
    """Write the whole page."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB of RAM"
    budgets = {method.split()[-1]: seconds for method, seconds in SECONDS.items()}
    facts = {"command": command, "date": date, "machine": machine, **budgets}
    parts = [INTRODUCTION.format(cuts=CUTS, cut_lives=CUT_LIVES, **facts)]
    parts += [*_totals(verdicts), "", *_speed(verdicts), "", "## The defects", ""]
    parts += [*_table(verdicts), "", JUDGED.format(seconds=SECONDS_HARMLESS)]
    parts += ["| line | found | why it is harmless |", "|---|---|---|"]
    for defect in HARMLESS:
        found = cell(verdicts.get(f"{STRICTEST}/{defect.name}"))
        parts.append(f"| {defect.name} (`{defect.module}`) | {found} | {defect.harmless} |")
    return "\n".join(parts) + "\n"


def _totals(verdicts: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield f"| method | found of {len(DEFECTS)} | the store without a defect |"
    yield "|---|---|---|"
    for method in METHODS:
        own = [verdicts.get(f"{method}/{defect.name}") for defect in DEFECTS]
        ran = [v for v in own if v is not None and not v["obstacle"]]
        if not ran:
            why = next((v["obstacle"] for v in own if v is not None), "it was not asked for")
            yield f"| {method} | not run: {why} | |"
            continue
        true = verdicts[f"{method}/{NOBODY}"]
        state = "FLAGGED" if true["found"] else f"clean: {true['images']:,} images"
        yield f"| {method} | **{sum(v['found'] for v in ran)}** | {state} |"


def _speed(verdicts: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Say how long the strictest method takes to find what it finds."""
    own = [verdicts.get(f"{STRICTEST}/{defect.name}") for defect in DEFECTS]
    seconds = sorted(v["seconds"] for v in own if v is not None and v["found"])
    if seconds:
        yield (
            f"{STRICTEST} finds a defect in {seconds[len(seconds) // 2]:.1f} s (median), "
            f"{seconds[-1]:.1f} s at most."
        )


def _table(verdicts: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "| defect | module | " + " | ".join(METHODS) + f" | {STRICTEST}: seconds | in the life |"
    yield "|---|---|" + "---|" * (len(METHODS) + 2)
    for defect in DEFECTS:
        cells = [cell(verdicts.get(f"{method}/{defect.name}")) for method in METHODS]
        found = verdicts.get(f"{STRICTEST}/{defect.name}")
        cells += ["", ""] if not found else [f"{found['seconds']:.1f}", found["life"]]
        yield f"| {defect.name} | `{defect.module}` | " + " | ".join(cells) + " |"


def known(verdicts: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    """Say for each defect in which round and life the strictest method found it."""
    own = [(defect.name, verdicts.get(f"{STRICTEST}/{defect.name}")) for defect in DEFECTS]
    return {name: [v["turn"], v["life"]] for name, v in own if v is not None and v["found"]}


def _main() -> None:
    parser = argparse.ArgumentParser(description="write DEFECTS.md")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    methods = asked.methods.split(",")
    verdicts = run_all(methods, asked.jobs)
    command = ".venv/bin/python tests/crash/planted/matrix.py"
    PAGE.write_text(page(verdicts, command=command, date=f"{datetime.now(UTC):%Y-%m-%d}"))
    if STRICTEST in methods:
        KNOWN.write_text(json.dumps(known(verdicts), indent=1) + "\n")
    NOTES.unlink()


if __name__ == "__main__":
    _main()
