"""A writer in a process of its own that is killed or stopped; for a forkserver to run."""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

import quiver

SLOTS = ["events"]


def numbered(writer: int, number: int, size: int) -> dict[str, pa.RecordBatch]:
    """Make a bundle that tells who appended it, and as which of its own."""
    text = pa.array([f"{writer}/{number} " * (size // 8 + 1)])
    columns = {"writer": pa.array([writer]), "n": pa.array([number]), "text": text}
    return {"events": pa.record_batch(columns)}


def write(
    path: str, mouth: Connection, *, writer: int, size: int, config: Mapping[str, Any] | None = None
) -> None:
    """Append for ever in the first free core; tell it, then each bundle that is safe."""
    with quiver.open(path, slots=SLOTS, config=config) as store:
        mouth.send_bytes(b"%d" % store.info().core)
        number = 0
        while True:
            try:
                store.append(numbered(writer, number, size))
            except quiver.CapacityError:
                mouth.send_bytes(b"full")
                continue
            mouth.send_bytes(b"%d" % number)
            number += 1
