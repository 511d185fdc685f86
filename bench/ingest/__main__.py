"""``make bench-ingest``: appends against the same bytes written with nothing around.

Writes ``bench/INGEST.md`` and ``bench/ingest.json`` unless ``--try`` or ``--only`` is given.
``--keep-work`` writes what an append does now where the next page finds it as what it did before.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from bench.ingest import work
from bench.ingest.parts import each, encoding, log, path
from bench.kit import Bench

PARTS: Final = {
    "log": log,
    "each": each,
    "path": path,
    "encoding": encoding,
    "work": work.table,
}


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.ingest", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument(
        "--only", choices=PARTS, action="append", help="a part of it; no page then"
    )
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    options.add_argument("--keep-work", action="store_true", help="only count, and keep it")
    asked = options.parse_args()
    if asked.keep_work:
        work.keep()
        return
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(
            Path(folder),
            rounds=asked.rounds,
            scale=asked.scale,
            part="ingest",
            title="Appends against the same bytes with nothing around",
        )
        for name in asked.only or PARTS:
            PARTS[name](bench)
    if not asked.attempt and not asked.only:
        bench.save()
    print(bench.page())


if __name__ == "__main__":
    main()
