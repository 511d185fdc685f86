"""Acks through the handles of a store, its tick, and a consumer in another process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import quiver
from bench.acks.measure import Bench, clocked
from bench.segment.finalizes import bundles_for
from bench.segment.openings import make_store
from bench.wal import shapes

__all__ = ["consumers", "handles", "ticks"]

BUNDLES: Final = 100_000
OF_SEGMENT: Final = 10_000
RUN: Final = 1000
SUBSCRIBERS: Final = 100
SEGMENTS: Final = 10_000
WARM_SEGMENTS: Final = 8
SEGMENT_BYTES: Final = 32 << 20

Source = Any
"""A subscription or a consumer."""


def _filled(folder: Path, count: int) -> None:
    """Make a store of so many bundles of one row."""
    table = pa.table({"n": [1]})
    config = {"wal": {"durability": "segment"}, "segment": {"max_open_duration": "1h"}}
    with quiver.open(folder, slots=["events"], config=config, worker=False) as store:
        for number in range(1, count + 1):
            store.append({"events": table})
            if number % OF_SEGMENT == 0:
                store.finalize()


def handles(bench: Bench) -> None:
    """Ack what was delivered: one by one, and as runs; each round for a new subscriber."""
    count = bench.count(BUNDLES)
    folder = bench.folder / "handles"
    _filled(folder, count)
    singles, delivered, runs = [], [], []
    with quiver.open(folder, worker=False) as store:
        store.subscribe("slow")  # So that nothing is deleted.
        for number in range(bench.rounds):
            subscription = store.subscribe(f"singles{number}", prefetch=RUN)
            given: list[Any] = []
            delivered.append(clocked(lambda s=subscription, g=given: g.extend(_all(s.poll))))
            singles.append(clocked(lambda g=given: _ack_and_sync(store, g)))
            subscription = store.subscribe(f"runs{number}")
            given = list(_all(lambda s=subscription: s.poll_run(RUN)))
            runs.append(clocked(lambda g=given: _ack_and_sync(store, g)))
    bench.add("ack of one bundle, synced by a tick at the end", singles, count, at_most=10)
    bench.add("ack of one bundle of a run of 1,000, likewise", runs, count, at_most=1)
    bench.add("delivery of one bundle, claimed 1,000 at a time", delivered, count)
    shutil.rmtree(folder)


def _all(poll: Callable[[], Any]) -> list[Any]:
    return list(iter(poll, None))


def _ack_and_sync(store: Any, given: list[Any]) -> None:
    for handle in given:
        handle.ack()
    store.maintain()


def ticks(bench: Bench) -> None:
    """Tick a store of many segments with many subscribers, none of which has acked anything."""
    folder = bench.folder / "ticks"
    count = bench.count(SEGMENTS)
    make_store(folder, count)
    with quiver.open(folder, worker=False) as store:
        for number in range(SUBSCRIBERS):
            store.subscribe(f"s{number}")
        took = [clocked(store.maintain) for _ in range(bench.rounds * 4)]
        subscription = store.subscribe("s0")
        acked = []
        for _ in range(bench.rounds * 4):
            for _ in range(10):
                subscription.poll().ack()
            acked.append(clocked(store.maintain))
    what = f"tick with {SUBSCRIBERS} subscribers and {count:,} segments"
    bench.add(what, took, 1, at_most=10_000)
    bench.add(f"{what}, 10 acks to sync", acked, 1)
    shutil.rmtree(folder)


def consumers(bench: Bench) -> None:
    """Drain a warm store as a consumer beside it, by a scan of the same."""
    folder = bench.folder / "consumers"
    # Of segments that are much smaller than usual, what comes once would be most of it.
    size = int(SEGMENT_BYTES * min(3 * bench.scale, 1))
    config = {
        "wal": {"durability": "segment"},
        "segment": {"target_size": 1 << 40, "max_open_duration": "1h"},
    }
    with quiver.open(folder, slots=shapes.SLOTS, config=config, worker=False) as store:
        for _ in range(WARM_SEGMENTS):
            for bundle in bundles_for(1000, size):
                store.append(bundle)
            store.finalize()
    scanned, drained = [], []
    for number in range(bench.rounds + 1):
        scanned.append(clocked(lambda: _scan(folder)))
        drained.append(clocked(lambda n=number: _drain(folder, f"c{n}")))
    ratios = sorted(a / b for a, b in zip(scanned[1:], drained[1:], strict=True))
    bench.note(
        {
            "measure": "a new scan of a warm store by a consumer that drains and acks it",
            "count": WARM_SEGMENTS,
            "ratio": ratios[len(ratios) // 2],
            "least": ratios[0],
            "most": ratios[-1],
            "bound": "at least",
            "wanted": 0.8,
            "reached": ratios[len(ratios) // 2] >= 0.8,
        }
    )
    shutil.rmtree(folder)


def _scan(folder: Path) -> None:
    for slot in shapes.SLOTS:
        quiver.scan(folder, slot=slot).to_table()


def _drain(folder: Path, name: str) -> None:
    with quiver.subscribe(folder, name) as consumer:
        while (run := consumer.poll_run(RUN)) is not None:
            for slot in run.slots:
                run.table(slot)
            run.ack()
