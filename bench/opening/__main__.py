"""``make bench-opening``: what opening and reading cost, against the same bytes read raw.

Writes ``bench/OPENING.md`` and ``bench/opening.json`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from bench.kit import Bench
from bench.opening.killed import killed
from bench.opening.memory import memory
from bench.opening.scans import cold, scans
from bench.opening.segments import segments

PARTS: Final = {
    "killed": killed,
    "scans": scans,
    "cold": cold,
    "segments": segments,
    "memory": memory,
}


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.opening", description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument(
        "--only", choices=PARTS, action="append", help="a part of it; no page then"
    )
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(
            Path(folder),
            rounds=asked.rounds,
            scale=asked.scale,
            part="opening",
            title="Opening and reading against the same bytes read raw",
        )
        for name in asked.only or PARTS:
            PARTS[name](bench)
    if not asked.attempt and not asked.only:
        bench.save()
    print(bench.page())


if __name__ == "__main__":
    main()
