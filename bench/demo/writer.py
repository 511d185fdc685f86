"""The process that appends the year: ``python -m bench.demo.writer STORE``. Made to be killed.

It keeps no state of its own. Each bundle takes one ``wal_seq``, counted from 0, so the store's own
``next_wal_seq`` says where to go on, however the last writer ended: nothing is left out and
nothing is appended twice.

What it is about to do, and what it has done, it says on its standard output, so that whoever kills
it can tell afterwards where it was:

=======================  =====================================================================
``opening``              recovery starts
``opened {...}``         it is over; JSON of what it found
``append N``             bundle N goes to the store
``durable N``            the store has acknowledged bundle N
``finalize N``           the month ends with bundle N, its last segment is being written
``finalized N``          the segment is durable
=======================  =====================================================================
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Final

import quiver
from bench.demo.source import Year, cut, load

__all__ = ["CONFIG", "append_rest", "main"]

CONFIG: Final = {"segment": {"target_size": "4MB"}}
"""Small segments, so that there are many of them. All else is the default: each append syncs."""


def main(path: str) -> None:
    """Append what the store does not have yet."""
    year = cut(load())
    _say("opening")
    with quiver.open(path, config=CONFIG) as store:
        recovery = store.recovery
        found = {
            "next": store.info().next_wal_seq,
            "replayed": recovery.replayed_bundles,
            "torn": recovery.torn_tail is not None,
            "damaged": len(recovery.damage),
        }
        _say(f"opened {json.dumps(found)}")
        append_rest(store, year, say=_say)


def append_rest(store: quiver.Store, year: Year, *, say: Callable[[str], object]) -> None:
    """Append every bundle from the store's next_wal_seq on, and finalize behind each month."""
    months = year.months()
    for number in range(store.info().next_wal_seq, len(year)):
        say(f"append {number}")
        wal_seq = store.append(year.bundle(number))
        if wal_seq != number:
            raise SystemExit(f"bundle {number} became wal_seq {wal_seq}")
        say(f"durable {number}")
        if number in months:
            say(f"finalize {number}")
            store.finalize()
            say(f"finalized {number}")


def _say(line: str) -> None:
    # One system call: what was said is with the reader even if this process is gone right after.
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1])
