"""Opening after kill -9 with a full open segment, against reading and checking its log raw."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.kit import ROOT, Bench, warm
from bench.opening.profiles import profile_table
from bench.wal import raw
from quiver.disk import LocalDisk
from quiver.wal import ACTIVE_NAME
from quiver.wal.format import HEADER_BYTES
from quiver.wal.truncate import read_sidecar

__all__ = ["killed"]

SECONDS: Final = 0.05
RATIO: Final = 3.0
STATES: Final = {
    "a full open segment behind a finished one": (0.98, 1),
    "a full open segment that is due at once": (1.02, 0),
}


def python(*arguments: object, check: bool = True) -> list[str]:
    """Run a module of ours in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=check,
    )
    return done.stdout.split()


def copied(whole: Path, folder: Path) -> Path:
    """Copy a store as it was left, holes and all; what is read of it comes from the disk.

    The page cache is warm: the segment is written by whoever opens it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    warm(whole.parent)
    subprocess.run(["cp", "-a", whole, folder], check=True)
    os.sync()
    return folder


class Opened(NamedTuple):
    """What an opening took, in seconds, and how many bundles came back."""

    took: float
    cpu: float
    bundles: float
    opening: float
    fetching: float
    writing: float


def _opened(whole: Path, what: str) -> Opened:
    copy = copied(whole, whole.with_name("copy"))
    return Opened(*map(float, python("bench.opening.opener", copy, what)))


def _scanned(whole: Path) -> tuple[float, int]:
    """Read what a recovery has to read of the log, and check it, with nothing around."""
    copy = copied(whole, whole.with_name("copy"))
    sidecar, _ = read_sidecar(LocalDisk(copy), "core_0/wal")
    start = HEADER_BYTES if sidecar is None else sidecar.offset
    count, took = raw.scan(copy / "core_0/wal" / ACTIVE_NAME, start)
    return took, count


def _parts(name: str, found: list[Opened]) -> list[str]:
    """Say where the time until the first bundle goes."""
    opening, fetching, writing = (
        statistics.median(getattr(one, part) for one in found) * 1e3
        for part in ("opening", "fetching", "writing")
    )
    text = f"Until the first bundle, {name}: opening {opening:.0f} ms"
    if not writing:
        return ["", f"{text}; the rest is the first reading of the finished segment."]
    text += f", recovered bundles read again and validated {fetching:.0f} ms, their segment written"
    return ["", f"{text} {writing:.0f} ms. A subscriber is given bundles of segments alone."]


def killed(bench: Bench) -> None:
    """Kill a writer, open its store, and wait for the first bundle and for the first append."""
    for name, (share, finished) in STATES.items():
        whole = bench.folder / "killed"
        full = share * bench.scale
        python("bench.opening.writer", whole, 1000, full, finished, check=False)
        found = bench.interleave(
            raw=partial(_scanned, whole),
            bundle=partial(_opened, whole, "bundle"),
            append=partial(_opened, whole, "append"),
        )
        bar, counts = zip(*found["raw"], strict=True)
        most = max(RATIO, SECONDS / statistics.median(bar))
        for what in ("bundle", "append"):
            took, cpu, replayed, *_ = zip(*found[what], strict=True)
            assert set(replayed) == set(counts), (replayed, counts)
            bench.add(
                f"{name}: kill -9, opening until the first {what}, by reading its log raw",
                list(took),
                list(bar),
                wanted=("at most", round(most, 2)),
                milliseconds=statistics.median(took) * 1e3,
                milliseconds_of_cpu=statistics.median(cpu) * 1e3,
                milliseconds_raw=statistics.median(bar) * 1e3,
                bundles=replayed[0],
            )
        bench.notes += _parts(name, found["bundle"])
        profile = bench.folder / "profile"
        copy = copied(whole, whole.with_name("copy"))
        python("bench.opening.opener", copy, "bundle", profile)
        bench.notes += profile_table(f"{name}, until the first bundle", profile)
        shutil.rmtree(whole)
        shutil.rmtree(copy)
