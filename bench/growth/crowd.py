"""What subscribers cost, and what they cost each other: from one to a hundred."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import quiver
from bench.growth.probes import Samples, repeated, traced_bytes
from bench.kit import Bench, warm
from bench.wal import shapes

__all__ = ["Crowd", "crowds"]

COUNTS: Final = (1, 10, 30, 100)
ROWS: Final = 100
SEGMENTS: Final = 10
OF_SEGMENT: Final = 100
_INTERVAL: Final = {"wal": {"durability": "interval"}, "segment": {"max_open_duration": "1h"}}


class Crowd(NamedTuple):
    """What was found with so many subscribers."""

    subscribers: int
    memory: int
    samples: Samples


def crowds(bench: Bench) -> list[Crowd]:
    """Have ever more subscribers take and ack the same bundles."""
    found = []
    bundles = [shapes.standard(ROWS, seed) for seed in range(8)]
    for count in COUNTS:
        folder = bench.folder / f"crowd-{count}"
        try:
            found.append(_crowd(folder, count, bundles))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{count} subscribers", flush=True)
    return found


def _crowd(folder: Path, count: int, bundles: list[Any]) -> Crowd:
    samples: Samples = {"append": [], "claim": [], "ack": []}
    warm(folder.parent)
    with quiver.open(folder, slots=shapes.SLOTS, config=_INTERVAL, worker=False) as store:
        everybody = [store.subscribe(f"number-{n}", slots=[shapes.SLOTS[-1]]) for n in range(count)]
        store.subscribe("stopped")  # For its sake nothing is deleted.
        for _ in range(SEGMENTS):
            begun = time.thread_time()
            for number in range(OF_SEGMENT):
                store.append(bundles[number % len(bundles)])
            samples["append"].append((time.thread_time() - begun) / OF_SEGMENT)
            store.finalize()
        _take_all(everybody, samples)
        samples["tick"] = repeated(store.maintain)
        samples["stats"] = repeated(store.stats)
    memory = traced_bytes(lambda: quiver.open(folder, worker=False))
    samples["open"] = repeated(lambda: quiver.open(folder, worker=False).close(), 5)
    return Crowd(count, memory, samples)


def _take_all(everybody: list[Any], samples: Samples) -> None:
    """Let everybody take a segment, then the next one; seconds of the thread for one bundle."""
    for _ in range(SEGMENTS):
        begun = time.thread_time()
        given = [subscription.poll() for subscription in everybody for _ in range(OF_SEGMENT)]
        claimed = time.thread_time()
        for handle in given:
            handle.ack()
        acked = time.thread_time()
        samples["claim"].append((claimed - begun) / len(given))
        samples["ack"].append((acked - claimed) / len(given))
