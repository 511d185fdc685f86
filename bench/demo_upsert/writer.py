"""A process that appends the year: ``python -m bench.demo_upsert.writer STORE FILE``.

Bundle ``n`` of the store is batch ``n`` of the file, so the store itself says where to go on,
however the last writer ended. ``ready``, ``durable N`` and ``done`` on its standard output say how
far it is.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import pyarrow as pa

import quiver
from bench.demo_stream.telling import say
from bench.demo_upsert.slots import SLOT, SLOTS

__all__ = ["main"]

_CONFIG: Final = {"segment": {"target_size": "2MiB", "max_open_duration": "400ms"}}
_SECONDS: Final = 30.0
"""A writer that is not killed takes so long, or as long as the disk does."""


def main(path: str, file: str) -> None:
    """Append what the store does not have yet."""
    with pa.memory_map(file) as mapped, quiver.open(path, slots=SLOTS, config=_CONFIG) as store:
        year = pa.ipc.open_file(mapped)
        count = year.num_record_batches
        number = store.info().next_wal_seq
        say("ready")
        while number < count:
            if store.append({SLOT: year.get_batch(number)}) != number:
                raise SystemExit(f"bundle {number} became another one")
            say(f"durable {number}")
            number += 1
            time.sleep(_SECONDS / count)
        store.finalize()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:3])
