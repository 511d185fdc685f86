"""What one append does: calls, memory, system calls; counted, not timed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import quiver
from bench.ingest import ours
from bench.kit import ROOT, Bench
from bench.wal import shapes
from quiver.config import Config
from quiver.engine import Store

__all__ = ["keep", "table"]

BEFORE: Final = ROOT / "bench" / "ingest" / "before.json"
_ROWS: Final = (100, 1000, 10_000)
_COUNT: Final = 50

Counts = dict[str, float]


def _opened(folder: Path) -> Store:
    config = Config.of({"segment": {"target_size": 1 << 40, "max_open_duration": "1h"}})
    return quiver.open(folder, slots=shapes.SLOTS, config=config, worker=False)


def _count(rows: int, folder: Path) -> Counts:
    """Count what appends of such bundles do, each synced; per bundle, once caches are warm."""
    bundles = ours.standard(rows, _COUNT)
    with _opened(folder) as store:
        for bundle in bundles[:16]:
            store.append(bundle)
        found = _calls(store, bundles)
        found |= _memory(store, bundles)
    return found


def _calls(store: Store, bundles: ours.Bundles) -> Counts:
    seen: Counter[str] = Counter()

    def note(_: object, event: str, __: object) -> None:
        seen[event] += 1

    for bundle in bundles:
        sys.setprofile(note)
        store.append(bundle)
        sys.setprofile(None)
    return {
        "Python functions called": seen["call"] / len(bundles),
        "C functions called": seen["c_call"] / len(bundles) - 1,  # One is setprofile.
    }


def _memory(store: Store, bundles: ours.Bundles) -> Counts:
    """Give what the open segment keeps of each, and how much more there was at once."""
    pool = pa.default_memory_pool()
    blocks, arrow = sys.getallocatedblocks(), pool.bytes_allocated()
    tracemalloc.start()
    try:
        before, peaks = tracemalloc.get_traced_memory()[0], []
        for bundle in bundles:
            at, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            store.append(bundle)
            peaks.append(tracemalloc.get_traced_memory()[1] - at)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    count = len(bundles)
    return {
        "objects kept": (sys.getallocatedblocks() - blocks) / count,
        "bytes kept, of Python and Arrow": (kept + pool.bytes_allocated() - arrow) / count,
        "bytes of Python at most at once": sum(peaks) / count,
    }


def _system_calls(rows: int, folder: Path) -> Counts:
    """Count with strace: those of many appends less those of few."""
    strace = shutil.which("strace")
    if strace is None:
        return {}
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from bench.ingest import ours, work\n"
        "bundles = ours.standard(int(sys.argv[1]), int(sys.argv[2]))\n"
        "store = work._opened(Path(sys.argv[3]))\n"
        "[store.append(bundle) for bundle in bundles]\n"
        "import os; os._exit(0)\n"
    )
    found = []
    for count in (_COUNT, 3 * _COUNT):
        place, out = folder / str(count), folder / "strace.out"
        command: list[Any] = [strace, "-f", "-c", "-U", "name,calls", "-o", out, sys.executable]
        command += ["-c", code, rows, count, place]
        subprocess.run([str(part) for part in command], cwd=ROOT, check=True)
        lines = [line.split() for line in out.read_text().splitlines()]
        rows_of = [line for line in lines if len(line) == 2 and line[1].isdigit()]
        found.append(Counter({name: int(calls) for name, calls in rows_of if name != "total"}))
        shutil.rmtree(place)
    more = {name: (n - found[0][name]) / (2 * _COUNT) for name, n in found[1].items()}
    kinds = {
        "writes": ("pwrite64", "pwritev", "pwritev2", "write", "writev"),
        "syncs": ("fdatasync", "fsync"),
    }
    counts = {f"system calls: {n}": sum(more.get(k, 0) for k in ks) for n, ks in kinds.items()}
    known = {name for names in kinds.values() for name in names}
    rest = sum(n for name, n in more.items() if name not in known)
    return counts | {"system calls: all others": rest}


def _all() -> dict[str, Counts]:
    found = {}
    with tempfile.TemporaryDirectory(prefix="quiver-bench-") as folder:
        for rows in _ROWS:
            found[str(rows)] = _count(rows, Path(folder) / f"store-{rows}")
            found[str(rows)] |= _system_calls(rows, Path(folder))
    return found


def keep() -> None:
    """Keep what an append does now as what it did before."""
    found = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "work": _all()}
    BEFORE.write_text(json.dumps(found, indent=2) + "\n")


def table(bench: Bench) -> None:
    """What one append does now and did before, in numbers that do not depend on the machine."""
    before = json.loads(BEFORE.read_text())
    now = _all()
    lines = ["", "## What one append does", ""]
    lines.append(
        f"Of a bundle with four slots, synced, once caches are warm; counted, not timed. Before: "
        f"{before['date']}, in brackets."
    )
    lines += ["", "| | " + " | ".join(f"{rows:,} rows" for rows in _ROWS) + " |"]
    lines.append("|---|" + "---:|" * len(_ROWS))
    for name in now[str(_ROWS[0])]:
        cells = []
        for rows in map(str, _ROWS):
            was = before["work"][rows].get(name)
            cells.append(f"{now[rows][name]:,.4g} ({'' if was is None else f'{was:,.4g}'})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    bench.notes += lines
