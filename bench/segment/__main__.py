"""``make bench-segment``: segments against plain files in the same run, in interleaved rounds.

Writes ``bench/SEGMENT.md`` and ``bench/segment.json`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from bench.kit import Bench
from bench.segment.finalizes import appends, finalizes
from bench.segment.openings import openings
from bench.segment.scans import columns, scans

PARTS: Final = {
    "finalizes": finalizes,
    "appends": appends,
    "scans": scans,
    "columns": columns,
    "openings": openings,
}


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.segment", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
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
            part="segment",
            title="Segments against the same bytes with nothing around",
        )
        for name in asked.only or PARTS:
            PARTS[name](bench)
    if not asked.attempt and not asked.only:
        bench.save()
    print(bench.page())


if __name__ == "__main__":
    main()
