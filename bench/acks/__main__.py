"""``make bench-acks``: ack.log against the bare calls that it is made of, in interleaved rounds.

Writes ``bench/ACKS.md`` and ``bench/acks.json`` unless ``--try`` is given.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from bench.acks.appends import appends
from bench.acks.churn import churn
from bench.acks.deliveries import consumers, handles, ticks
from bench.acks.measure import TITLE, Bench
from bench.acks.replays import replays
from bench.kit import save

PARTS: Final = {
    "appends": appends,
    "replays": replays,
    "churn": churn,
    "handles": handles,
    "ticks": ticks,
    "consumers": consumers,
}


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(prog="bench.acks", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument("--only", choices=PARTS, action="append", help="a part; no page then")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(Path(folder), rounds=asked.rounds, scale=asked.scale)
        for name in asked.only or PARTS:
            PARTS[name](bench)
    if not asked.attempt and not asked.only:
        about = {"title": TITLE, "rounds": asked.rounds, "scale": asked.scale}
        save("acks", bench.page(), **about, rows=bench.rows)
    print(bench.page())


if __name__ == "__main__":
    main()
