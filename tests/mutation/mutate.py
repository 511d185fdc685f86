"""How many small changes of the formats do their tests notice? ``make mutate``, for a long while.

Each mutant of a module is tried in a process of its own, forked before anything of Quiver's that
needs the module was imported: an import hook puts the mutant in its place, then the module's fast
tests run until the first that fails. Nothing is ever written to ``quiver/``. A mutant that makes
the tests hang counts as noticed, and so does one that cannot even be imported.

``equivalent.toml`` lists the mutants that no test could notice, each with the reason. They count
as survivors in the score all the same; the second score leaves them out.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import platform
import resource
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import wait
from pathlib import Path
from types import CodeType, ModuleType

import hypothesis
import pytest
from mutants import Mutant, mutants

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "RESULTS.md"
EQUIVALENT = HERE / "equivalent.toml"
SCORE_MIN = 90
TRIAL_SECONDS_MAX = 60
TRIAL_BYTES_MAX = 2 << 30
FLAGS = ["-x", "-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
FLAGS += [flag for name in ("cacheprovider", "randomly", "xdist") for flag in ("-p", f"no:{name}")]
PASSED, NOTICED, UNUSED = 10, (11, 12, 13, 14), 20
"""How a trial ends: pytest's own exit code plus 10, so that nothing else is taken for one."""
READY = (
    "hypothesis.strategies",
    "numpy",
    "pyarrow",
    "quiver.disk",
    "quiver.ipc",
    "quiver.manifest",
)
"""Imported once, so that no trial has to; none of it imports a module that is changed."""

TARGETS = {
    "quiver.wal.format": ["wal/test_wal_format*.py"],
    "quiver.wal.sidecar": ["wal/test_wal_format*.py"],
    "quiver.acks.format": ["acks/test_acks_format*.py"],
    "quiver.acks.states": ["acks/test_acks_format.py", "acks/test_acks_checkpoint*.py"],
    "quiver.acks.checkpoint": ["acks/test_acks_format.py", "acks/test_acks_checkpoint*.py"],
    "quiver.acks.inbox": ["acks/test_acks_inbox*.py"],
    "quiver.segment.format": ["segment/test_segment_format*.py"],
}


@dataclass(slots=True)
class Score:
    """What became of the mutants of one module."""

    module: str
    count: int = 0
    killed: int = 0
    hung: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    equivalent: list[tuple[Mutant, str]] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Noticed, of all."""
        return 100 * self.killed / self.count

    @property
    def percent_of_noticeable(self) -> float:
        """Noticed, of those that could be."""
        return 100 * self.killed / (self.count - len(self.equivalent))


class _Changed(importlib.machinery.SourceFileLoader):
    """Finds one module and gives it other code."""

    def __init__(self, module: str, path: Path, tree: ast.Module) -> None:
        super().__init__(module, str(path))
        self._tree = tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec")


def source_of(module: str) -> Path:
    """Where a module's source is."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def tests_of(module: str) -> list[str]:
    """Find the fast tests of a module, those of its edges first."""
    found = {p for glob in TARGETS[module] for p in (ROOT / "tests").glob(glob)}
    return sorted(map(str, found), key=lambda path: (not path.endswith("edges.py"), path))


def try_mutant(module: str, tree: ast.Module) -> None:
    """Run a module's tests over another tree, in a child that ends here with their exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (TRIAL_BYTES_MAX, TRIAL_BYTES_MAX))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, _Changed(module, source_of(module), tree))
    code = pytest.main([*FLAGS, *tests_of(module)])
    ran = getattr(sys.modules.get(module), "__loader__", None)
    os._exit(UNUSED if code == 0 and not isinstance(ran, _Changed) else PASSED + code)


def trials(module: str, trees: Sequence[ast.Module], jobs: int) -> Iterator[tuple[int, int | None]]:
    """Try each tree; give its index and the exit code of the tests, None if they hung."""
    context = multiprocessing.get_context("fork")
    waiting = list(enumerate(trees))[::-1]
    running: dict[int, tuple[multiprocessing.context.ForkProcess, int, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            index, tree = waiting.pop()
            process = context.Process(target=try_mutant, args=(module, tree))
            process.start()
            running[process.sentinel] = process, index, time.monotonic() + TRIAL_SECONDS_MAX
        first = min(deadline for _, _, deadline in running.values())
        wait(list(running), timeout=max(0, first - time.monotonic()))
        for sentinel, (process, index, deadline) in list(running.items()):
            hangs = process.is_alive()
            if hangs and time.monotonic() < deadline:
                continue
            process.kill()
            process.join()
            del running[sentinel]
            yield index, None if hangs else process.exitcode


def score(module: str, jobs: int) -> Score:
    """Try all mutants of a module."""
    source = source_of(module).read_text()
    [(_, sound)] = trials(module, [ast.parse(source)], 1)
    if sound != PASSED:
        raise SystemExit(f"the tests of {module} fail without any mutant: exit code {sound}")
    found = list(mutants(source))
    reasons = equivalents(module)
    result = Score(module, len(found))
    for index, code in trials(module, [mutant.tree for mutant in found], jobs):
        mutant = found[index]
        if code is None or code in NOTICED or code < 0:
            result.killed += 1
            result.hung += code is None
            continue
        if code != PASSED:
            raise SystemExit(f"a trial of {module}:{mutant.line} went wrong: exit code {code}")
        reason = reasons.get((mutant.owner, mutant.was, mutant.becomes))
        if reason is None:
            result.survivors.append(mutant)
        else:
            result.equivalent.append((mutant, reason))
    result.survivors.sort(key=lambda mutant: mutant.line)
    result.equivalent.sort(key=lambda pair: pair[0].line)
    excused = {(m.owner, m.was, m.becomes) for m, _ in result.equivalent}
    if reasons.keys() - excused:
        raise SystemExit(f"no survivors, so not equivalent: {sorted(reasons.keys() - excused)}")
    return result


def equivalents(module: str) -> dict[tuple[str, str, str], str]:
    """Read what no test could notice in a module, and why."""
    rows = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    mine = [row for row in rows if row["module"] == module]
    return {(row["in"], row["was"], row["becomes"]): row["reason"] for row in mine}


def report(scores: Sequence[Score], command: str, seconds: float) -> str:
    """Write the page of results."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    lines = [
        "# How many small changes of the formats the tests notice",
        "",
        f"Made by `{command}` on {datetime.now(UTC):%Y-%m-%d}, in {seconds / 60:.0f} minutes,",
        f"with Python {platform.python_version()} on {os.cpu_count()} cores and {memory:.0f} GiB.",
        "`mutants.py` says which changes are made, `mutate.py` how each is tried.",
        "",
        "| module | mutants | noticed | hung | equivalent | survived | score | of noticeable |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{s.module}` | {s.count} | {s.killed} | {s.hung} | {len(s.equivalent)} "
        f"| {len(s.survivors)} | {s.percent:.1f} % | {s.percent_of_noticeable:.1f} % |"
        for s in scores
    ]
    lines += ["", "## Survivors", ""]
    rows = [f"| `{s.module}` {m.line} {_diff(m)} |" for s in scores for m in s.survivors]
    lines += ["| where | in | was | becomes |", "|---|---|---|---|", *rows] if rows else ["None."]
    lines += ["", "## Equivalent", "", "No test can tell these from the module itself.", ""]
    lines += ["| where | in | was | becomes | why |", "|---|---|---|---|---|"]
    lines += [
        f"| `{s.module}` {m.line} {_diff(m)} | {reason} |"
        for s in scores
        for m, reason in s.equivalent
    ]
    return "\n".join(lines) + "\n"


def _diff(mutant: Mutant) -> str:
    cells = mutant.owner or "module", mutant.was, mutant.becomes
    return "".join(f"| `{cell.replace('|', chr(92) + '|')}` " for cell in cells).rstrip()


def main() -> int:
    """Score the modules asked for; the page is written only for all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="default: all", metavar="module")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time")
    wanted = parser.parse_args()
    os.chdir(ROOT)  # Where pytest and hypothesis keep their things, wherever this was started.
    hypothesis.settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=20,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    hypothesis.settings.load_profile("mutation")
    for name in READY:
        importlib.import_module(name)
    gc.freeze()  # So that no child copies all of it when it collects.
    if set(TARGETS) & set(sys.modules):
        raise SystemExit("a module is there already and cannot be changed")
    started = time.monotonic()
    scores = []
    for module in wanted.modules or TARGETS:
        scores.append(score(module, wanted.jobs))
        last = scores[-1]
        text = f"{module}: {last.percent:.1f} % of {last.count} mutants noticed\n"
        for mutant in last.survivors:
            text += f"  {mutant.line}: {mutant.owner}\n    - {mutant.was}\n    + {mutant.becomes}\n"
        sys.stdout.write(text)
        sys.stdout.flush()
    if not wanted.modules:
        RESULTS.write_text(report(scores, "make mutate", time.monotonic() - started))
    return int(any(last.percent < SCORE_MIN for last in scores))


if __name__ == "__main__":
    sys.exit(main())
