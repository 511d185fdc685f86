"""Bundles with a time of their own, and what a cursor gave of them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

import quiver

__all__ = ["drain", "fill", "note", "row"]


def row(number: int) -> dict[str, pa.RecordBatch]:
    """One event that happened at second ``number``."""
    at = pa.array([number * 10**9], pa.timestamp("ns"))
    return {"events": pa.record_batch({"n": pa.array([number]), "at": at})}


def note(number: int) -> dict[str, pa.RecordBatch]:
    return {"notes": pa.record_batch({"s": [str(number)]})}


def fill(store: quiver.Store, blocks: Iterable[Iterable[int]], *, last: bool = True) -> None:
    """Append bundles of these times, a segment of each list; the last stays in the log unless."""
    lists = [list(times) for times in blocks]
    for place, times in enumerate(lists):
        for time in times:
            store.append(row(time), time=time, wait=False)
        store.flush()
        if last or place < len(lists) - 1:
            store.finalize()


def drain(cursor: quiver.Cursor) -> list[tuple[int, int]]:
    """Take what there is and give times and partitions; each row says its time again."""
    found = []
    while (message := cursor.poll()) is not None:
        if "events" in message.bundle:
            (number,) = message.bundle["events"].column("n").to_pylist()
            assert message.event_ns == (number * 10**9, number * 10**9)
        found.append((message.time_ns, message.partition))
    return found
