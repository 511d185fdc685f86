"""Peak memory of a recovery and of a scan, in parts of what is allowed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import quiver
from bench.kit import Bench
from bench.opening.killed import python
from bench.segment.finalizes import SEGMENT_BYTES, bundles_for
from bench.wal import shapes
from quiver.testing import MemoryDisk

__all__ = ["memory"]

_SEGMENTS: Final = 4
_HUGE: Final = 1 << 40


def _status(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def _imported() -> int:
    """Have everything imported that is needed; how much memory that takes."""
    with quiver.open("x", slots=shapes.SLOTS, disk=MemoryDisk(), worker=False) as store:
        store.append(shapes.standard(10))
        store.finalize()
    return _status("VmRSS")


def recovery(folder: str) -> tuple[int, int, int]:
    """Open a store that was killed: memory before, its peak, and that of what is not a file."""
    before = _imported()
    store = quiver.open(folder, config={"wal": {"max_size": _HUGE, "rotate_size": _HUGE}})
    store.append(shapes.standard(10))
    return before, _status("VmHWM"), _status("RssAnon")


def scan(folder: str) -> tuple[int, int, int]:
    """Go through a store batch by batch: the same three."""
    before, anonymous = _imported(), 0
    for slot in shapes.SLOTS:
        for number, _ in enumerate(quiver.scan(folder, slot=slot).to_reader()):
            if number % 100 == 0:
                anonymous = max(anonymous, _status("RssAnon"))
    return before, _status("VmHWM"), anonymous


def memory(bench: Bench) -> None:
    """Recover and scan half a gigabyte."""
    count = max(int(16 * bench.scale), 2)
    place = bench.folder / "large"
    python("bench.opening.writer", place, 1000, count, 0, check=False)
    _row(bench, "a recovery", place, count)
    shutil.rmtree(place)
    bundles = bundles_for(1000, SEGMENT_BYTES)
    with quiver.open(place, slots=shapes.SLOTS, worker=False) as store:
        for _ in range(count):
            for bundle in bundles:
                store.append(bundle, wait=False)
    _row(bench, "a scan", place, count)
    shutil.rmtree(place)


def _row(bench: Bench, what: str, place: Path, count: int) -> None:
    found: Any = python("bench.opening.memory", what.removeprefix("a "), place)
    before, peak, anonymous = map(int, found)
    allowed = before + _SEGMENTS * SEGMENT_BYTES
    bench.add(
        f"peak memory of {what} of {count} segments, in parts of what is allowed",
        [peak],
        [allowed],
        wanted=("at most", 1),
        megabytes_imported=before / 1e6,
        megabytes_at_most=peak / 1e6,
        megabytes_not_of_files=anonymous / 1e6,
        megabytes_allowed=allowed / 1e6,
    )


if __name__ == "__main__":
    print(*{"recovery": recovery, "scan": scan}[sys.argv[1]](sys.argv[2]), flush=True)
    os._exit(0)
