"""A process that appends its half of the year: ``python -m bench.demo_ship.writer STORE PART``.

Bundle ``n`` of the store is bundle ``2 n + PART`` of the year, so the store itself says where to go
on, however the last writer ended. ``ready``, ``durable N`` and ``done`` on its standard output say
how far it is.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import quiver
from bench.demo.source import SLOTS, cut, load
from bench.demo_stream.telling import say

__all__ = ["PARTS"]

PARTS: Final = 2
_CONFIG: Final = {"segment": {"target_size": "512KB", "max_open_duration": "400ms"}}
_SECONDS: Final = 40.0
"""A writer that is not killed takes so long, or as long as the disk does."""


def main(path: str, part: int) -> None:
    """Append what the store does not have yet."""
    year = cut(load())
    count = (len(year) - part + PARTS - 1) // PARTS
    with quiver.open(path, slots=SLOTS, config=_CONFIG) as store:
        number = store.info().next_wal_seq
        say("ready")
        while number < count:
            if store.append(year.bundle(PARTS * number + part)) != number:
                raise SystemExit(f"bundle {number} became another one")
            say(f"durable {number}")
            number += 1
            time.sleep(_SECONDS / count)
        store.finalize()
    say("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
