"""Bundles that tell themselves apart, and a way to let a store go; for several test folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import quiver
from quiver.testing import ManualClock, MemoryDisk

SLOTS = ["events", "notes"]


def abandon(store: quiver.Store) -> None:
    """Let a store go as kill -9 does: files stay as they are, the lock is free."""
    store._closed = True
    for thread in (store._worker, store._scribe):
        if thread is not None:  # Those of a process that was killed write nothing more.
            thread.stop()
    store._core.held.release()


def on_memory(disk: MemoryDisk, **config: object) -> quiver.Store:
    """Open a store on a disk in RAM, with a clock that stands still."""
    return quiver.open(
        "memory",
        slots=SLOTS,
        core=0,
        disk=disk,
        clock=ManualClock(),
        worker=False,
        config=config,
    )


def bundle(number: int) -> dict[str, pa.RecordBatch]:
    events = pa.record_batch({"n": pa.array([number, None], pa.int64())})
    if number % 2:
        return {"events": events}
    return {"events": events, "notes": pa.record_batch({"s": [f"note {number}"]})}


def numbers(store: quiver.Store, subscriber: str = "reader") -> list[int]:
    """Take everything there is, check each bundle, and ack it."""
    subscription = store.subscribe(subscriber)
    found = []
    while (handle := subscription.poll()) is not None:
        with handle:
            number = handle["events"].column("n")[0].as_py()
            expected = bundle(number)
            assert {name: batch.to_pylist() for name, batch in handle.items()} == {
                name: batch.to_pylist() for name, batch in expected.items()
            }
            found.append(number)
    return found


def writer(path: Path) -> Callable[..., str]:
    """Give what writes a store of ``logs`` and ``metrics``: each list of bundles a segment."""

    def write(*segments: list[Mapping[str, Any]], core: int = 0) -> str:
        with quiver.open(path, slots=["logs", "metrics"], core=core, worker=False) as store:
            for bundles in segments:
                for bundle in bundles:
                    store.append(bundle)
                store.finalize()
        return str(path)

    return write
