"""``python -m bench.demo_ship``: play it, and end with status 0 only if the rows are the same."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from bench.demo.compare import Difference, compare
from bench.demo.folder import Folder
from bench.demo.source import cut, load
from bench.demo_ship.play import Play, table_of
from bench.demo_ship.query import SLOT
from bench.kills.servers import seaweed


def main() -> int:
    """Run the demonstration and give its exit status."""
    parser = argparse.ArgumentParser(prog="bench.demo_ship", description=__doc__)
    parser.add_argument("--dir", default="out/demo-ship", help="where to work; emptied before")
    options = parser.parse_args()
    if missing := seaweed.seaweed_missing():
        print(missing, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # All that was started ends with this.
    began = time.monotonic()
    folder = Folder.prepare(options.dir).root
    print("Two writers have a store each. quiver ship takes what is finished into a queue in an")
    print("object store, and one streaming query of Spark takes the flights from there into")
    print("Parquet. One of each kind of process is killed.\n")
    place = os.path.join(folder, "server")
    source = cut(load()).tables[SLOT]
    try:
        with seaweed.running(Path(place)) as server:
            play = Play(folder, server, lambda text: print(text, flush=True))
            batches, waiting = play.run(source.num_rows)
    finally:
        shutil.rmtree(place)
    found = compare(source, table_of(play.sink, source.schema))
    for line in report(found, batches=batches, waiting=waiting, kills=play.kills):
        print(line)
    print(f"  {time.monotonic() - began:,.0f} seconds")
    if found.is_none:
        shutil.rmtree(folder)
    else:
        print(f"\nwhat is left is in {folder}")
    return 0 if found.is_none else 1


def report(found: Difference, *, batches: int, waiting: int, kills: int) -> list[str]:
    """Say what came of it."""
    return [
        "",
        f"  flights written  {found.rows_in:>9,}",
        f"  rows in Parquet  {found.rows_out:>9,}",
        f"  lost {found.lost}   twice {found.duplicates}   differ {found.foreign}  {found.columns}",
        f"  batches that went through the queue {batches:,}, {waiting:,} still wait for their ack",
        f"  kills survived {kills}",
    ]


if __name__ == "__main__":
    sys.exit(main())
