"""Write the golden collection, once; refuses to touch what is there.

Its files are whatever pyarrow wrote on that day: that they are read is what they are for. The bytes
of the manifest are ours.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kit")]

from persist_kit import Rig, error  # noqa: E402

from quiver.ship.objects import FolderBucket  # noqa: E402
from quiver.upsert.persist import Dropped, Source  # noqa: E402
from quiver.upsert.rows import Definition  # noqa: E402

PATH = Path(__file__).parent / "v1" / "persist"

DEFINITION = Definition(
    pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("at", pa.timestamp("ms", "UTC")),
            pa.field("tags", pa.list_(pa.string())),
        ]
    ),
    pa.schema([pa.field("text", pa.string()), pa.field("n", pa.int32())]),
    2,
)


def key(number: int) -> tuple[object, ...]:
    moment = datetime.fromtimestamp(number, UTC)
    return number, None if number % 3 else moment, ("a",) * (number % 4)


def main() -> None:
    """Write it."""
    rig = Rig(FolderBucket(str(PATH)), DEFINITION)
    rig.apply({key(n): {"text": f"first {n}", "n": n} for n in range(8)})
    sources = {"store": Source("query", 3, {"core_0": 17, "core_1": (1 << 64) - 1})}
    rig.apply(
        {key(2): None, key(3): {"text": None, "n": -1}, key(9): error("bad")}, sources=sources
    )
    rig.fold(0)
    wider = pa.schema([pa.field("n", pa.int64()), pa.field("more", pa.float64())])
    rig.apply({}, value=wider)
    rig.apply({key(1): {"text": "fourth", "n": 1 << 40, "more": 0.5}, key(9): None})
    dropped = Dropped("runs/01ARZ3NDEKTSV4RRFFQ69G5FAV.arrow", 3, 1_700_000_000_000)
    rig.writer.change(lambda now: replace(now.manifest, dropped=(dropped,)))


if __name__ == "__main__":
    if (PATH / "manifest").exists():
        sys.exit(f"{PATH} is there already: golden files are never written again")
    main()
