"""A process that appends: ``python -m bench.demo_stream.writer STORE CORE [STOP_AT]``.

It keeps no state of its own: each bundle takes one ``wal_seq``, so the store says where to go on,
and what a bundle holds follows from its number and its core. ``ready`` and ``durable N`` on its
standard output say how far it is. With STOP_AT it ends behind that many bundles.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import pyarrow as pa

import quiver
from bench.demo_stream.telling import say

__all__ = ["ROWS", "SLOTS", "expected", "rows"]

ROWS: Final = 50
SLOTS: Final = ["events", "others"]
_CONFIG: Final = {"segment": {"target_size": "64KiB", "max_open_duration": "300ms"}}
_PAUSE_SECONDS: Final = 0.04
_EVERY: Final = 7
"""Each seventh bundle has nothing for the query."""


def rows(core: int, bundle: int) -> dict[str, list[object]]:
    """Give what a bundle holds of the slot that is read; empty if it has nothing of it."""
    if bundle % _EVERY == 0:
        return {"core": [], "n": [], "text": [], "value": []}
    first = bundle * ROWS
    numbers = range(first, first + ROWS)
    return {
        "core": [core] * ROWS,
        "n": list(numbers),
        "text": [None if n % 11 == 0 else f"row {n} of {core} \u2713" for n in numbers],
        "value": [n / 7 for n in numbers],
    }


def expected(core: int, bundles: int) -> pa.Table:
    """Give all rows of the first bundles of a core."""
    columns: dict[str, list[object]] = {"core": [], "n": [], "text": [], "value": []}
    for bundle in range(bundles):
        for name, values in rows(core, bundle).items():
            columns[name] += values
    return pa.table(columns, schema=SCHEMA)


SCHEMA: Final = pa.schema(
    [("core", pa.int32()), ("n", pa.int64()), ("text", pa.string()), ("value", pa.float64())]
)


def main(path: str, core: int, stop_at: int | None) -> None:
    """Append until it is told to stop, or killed."""
    with quiver.open(path, slots=SLOTS, core=core, config=_CONFIG) as store:
        say("ready")
        number = store.info().next_wal_seq
        while stop_at is None or number < stop_at:
            bundle = {"events": pa.record_batch(rows(core, number), schema=SCHEMA)}
            if not bundle["events"].num_rows:
                bundle = {"others": pa.record_batch({"n": [number]})}
            if store.append(bundle) != number:
                raise SystemExit(f"bundle {number} became another one")
            say(f"durable {number}")
            number += 1
            if stop_at is None:
                time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
