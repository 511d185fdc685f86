"""Acks appended one by one, as a consumer gives them, and as runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bench.acks.measure import Bench, clocked, opened
from quiver.acks import Ack, Record
from quiver.acks.format import FRAME_SIZE

__all__ = ["appends"]

AT_NS: Final = 1_700_000_000_000_000_000
SINGLES: Final = 500_000
RUN: Final = 1000
BATCH: Final = 100


def appends(bench: Bench) -> None:
    """Measure how long an append takes, without a sync, which comes once for many."""
    count = bench.count(SINGLES)
    singles = [[Ack(1, n // 1000, n % 1000, 1, AT_NS + n)] for n in range(count)]
    batches = [
        [ack for (ack,) in singles[start : start + BATCH]] for start in range(0, count, BATCH)
    ]
    runs = [[Ack(1, n, 0, RUN, AT_NS + n)] for n in range(count)]

    def made(folder: Path) -> float:
        log = opened(folder)

        def act() -> None:
            for n in range(count):
                log.append([Ack(1, n // 1000, n % 1000, 1, AT_NS + n)])

        took = clocked(act)
        log.close()
        return took

    alone, batched, by_run, with_ack, raw = bench.interleave(
        lambda folder: _append(folder, singles),
        lambda folder: _append(folder, batches),
        lambda folder: _append(folder, runs),
        made,
        lambda folder: _raw(folder, count),
    )
    bench.add("append of one ack", alone, count, at_most=4)
    bench.add("the same with making the ack", with_ack, count)
    bench.add("a bare pwrite of 64 bytes", raw, count)
    bench.add(f"one ack of an append of {BATCH}", batched, count)
    bench.add(f"one bundle of an append of a run of {RUN:,}", by_run, count * RUN)


def _append(folder: Path, appended: list[list[Record]]) -> float:
    log = opened(folder)

    def act() -> None:
        for records in appended:
            log.append(records)

    took = clocked(act)
    log.close()
    return took


def _raw(folder: Path, count: int) -> float:
    descriptor = os.open(folder / "raw", os.O_RDWR | os.O_CREAT)
    frame = bytes(FRAME_SIZE)

    def act() -> None:
        for n in range(count):
            os.pwrite(descriptor, frame, n * FRAME_SIZE)

    took = clocked(act)
    os.close(descriptor)
    return took
