"""How large the files of the acks get in a store that goes on: folded into a checkpoint in time."""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa

import quiver
from bench.acks.measure import ACKS, Bench

__all__ = ["churn"]

BUNDLES: Final = 60_000
OF_SEGMENT: Final = 1000
TICK: Final = 250
"""Acks between two ticks of the store, which is what a worker does four times a second."""
MAX_SIZE: Final = 64 << 10
LABEL: Final = "acks in a store with two subscribers, of which one leaves every tenth bundle open"


def churn(bench: Bench) -> None:
    """Append, finalize, deliver and ack in a store, for two subscribers of which one skips."""
    count = bench.count(BUNDLES) // OF_SEGMENT * OF_SEGMENT or OF_SEGMENT
    folder = bench.folder / "churn"
    config = {"acks": {"max_size": MAX_SIZE}, "wal": {"durability": "interval"}}
    table = pa.table({"n": [1]})
    with quiver.open(folder, slots=["events"], config=config, worker=False) as store:
        steady, lame = store.subscribe("steady"), store.subscribe("lame")
        log, checkpoint = folder / ACKS / "ack.log", folder / ACKS / "checkpoint"
        largest = {"log": 0, "checkpoint": 0}
        held, acked, took, inode = [], 0, 0.0, log.stat().st_ino
        checkpoints = 0
        for start in range(0, count, OF_SEGMENT):
            for _ in range(OF_SEGMENT):
                store.append({"events": table})
            store.finalize()
            for number in range(start, start + OF_SEGMENT):
                mine, theirs = steady.poll(), lame.poll()
                begun = time.perf_counter()
                mine.ack()
                took += time.perf_counter() - begun
                acked += 1
                if number % 10:
                    theirs.ack()
                    acked += 1
                else:
                    held.append(theirs)
                if number % TICK == TICK - 1:
                    largest["log"] = max(largest["log"], log.stat().st_size)
                    store.maintain()
                    checkpoints += inode != (inode := log.stat().st_ino)
                    if checkpoint.exists():
                        size = checkpoint.stat().st_size
                        largest["checkpoint"] = max(largest["checkpoint"], size)
            while len(held) > OF_SEGMENT // 2:
                held.pop(0).ack()
                acked += 1
        for handle in held:
            handle.ack()
    bench.add("ack of a delivery in a store", [took], count)
    bench.note(
        {
            "measure": LABEL,
            "count": acked,
            "checkpoints": checkpoints,
            "max_size_bytes": MAX_SIZE,
            "bytes_of_the_log_at_most": largest["log"],
            "bytes_of_the_checkpoint_at_most": largest["checkpoint"],
        }
    )
