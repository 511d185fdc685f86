"""A process that appends the year: ``python -m bench.demo_chain.loader METADATA JOURNAL PACE``.

Bundle ``n`` of the partition is bundle ``n`` of the year, so its record says where to go on,
however the last loader ended. ``ready`` and ``done`` on its standard output say how far it is; the
journal has each bundle that was acknowledged. The file ``PACE`` says how long to wait between two.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Final

import quiver
from bench.demo.source import SLOTS, cut, load
from bench.demo_chain.journal import Journal
from bench.demo_stream.telling import say
from quiver.chain import Loader, LoaderRules

__all__ = ["PARTITION", "RF", "main"]

PARTITION: Final = "core_0"
RF: Final = 3
_RULES: Final = LoaderRules(rf=RF, soft_bytes=4_000_000, takes_over=True)
_PATIENCE: Final = "90s"


def main(metadata: str, journal: str, pace: str) -> None:
    """Append what the partition does not have yet."""
    year = cut(load())
    with quiver.connect(metadata) as cluster:
        loader = cluster.loader(PARTITION, SLOTS, rules=_RULES)
        loader.wait_open(_PATIENCE)
        record = loader.record
        number = 0 if record is None else record.last_seq + 1
        noting = threading.Thread(
            target=note_acks, args=(loader, Journal(journal), number, len(year)), daemon=True
        )
        noting.start()
        say("ready")
        while number < len(year):
            if loader.send(year.bundle(number), timeout=_PATIENCE).wal_seq != number:
                raise SystemExit(f"bundle {number} became another one")
            number += 1
            time.sleep(float(Path(pace).read_text(encoding="utf-8") or 0))
        loader.close(_PATIENCE)
        noting.join()
    say("done")


def note_acks(loader: Loader, journal: Journal, number: int, end: int) -> None:
    """Note each bundle once it is acknowledged, from a number on."""
    while number < end:
        loader.wait_acked(number)
        acked = loader.acked_seq
        journal.note(range(number, acked + 1))
        number = acked + 1
    journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
