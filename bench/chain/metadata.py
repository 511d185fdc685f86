"""A partition of ten thousand blocks, a terabyte if each is full: what a seek and a roll cost."""

from __future__ import annotations

import random
import time
from typing import Final

import numpy as np

from bench.chain.writing import joined
from bench.kit import Bench, p99
from quiver.chain import Metadata, Partition
from quiver.chain.metadata import open_metadata
from quiver.chain.record import Claim, Following, Record, claimed, committed
from quiver.chain.sealing import Sealed
from quiver.clock import SystemClock

__all__ = ["metadata"]

_CHAIN: Final = ("node-a", "node-b", "node-c")
_BLOCK_BYTES: Final = 100_000_000
_FEW, _MANY = 100, 10_000
_SPAN: Final = 10
_AT_ONCE: Final = 100
_ROLLS: Final = 100
_SEEKS: Final = 1_000
_GOAL_MS: Final = 5.0


def metadata(bench: Bench) -> None:
    """Compare rolls of a small partition and a large one in turn; seek in the large one."""
    place = open_metadata(str(bench.folder / "metadata"))
    many = max(int(_MANY * bench.scale), 2 * _FEW)
    small = _filled(Partition(place, "small", clock=SystemClock()), _FEW)
    large = _filled(Partition(place, "large", clock=SystemClock()), many)
    rolls = max(int(_ROLLS * bench.scale), 5)
    found = bench.interleave(
        small=lambda: [_roll(small) for _ in range(rolls)],
        large=lambda: [_roll(large) for _ in range(rolls)],
    )
    middle = {side: [float(np.median(each)) for each in all_] for side, all_ in found.items()}
    bench.add(
        f"a roll, claim and commit: with {many:,} blocks by {_FEW:,}",
        middle["large"],
        middle["small"],
        wanted=("at most", 1.25),
        ms=float(np.median(middle["large"])) * 1e3,
        ms_with_few=float(np.median(middle["small"])) * 1e3,
    )
    count = max(int(_SEEKS * bench.scale), 10)
    took = [_seeks(place, many * _SPAN, count) for _ in range(bench.rounds)]
    bench.more["seeks"] = [each * 1e3 for each in joined(took)]
    bench.add(
        f"a seek by time from nothing among {many:,} blocks, {many * _BLOCK_BYTES / 1e12:g} TB, "
        "p99: by 5 ms",
        [p99(each) * 1e3 for each in took],
        [_GOAL_MS] * len(took),
        wanted=("at most", 1.0),
        ms_p50=float(np.median(joined(took))) * 1e3,
        ms_p99=p99(joined(took)) * 1e3,
    )


def _filled(partition: Partition, count: int) -> Partition:
    """Give it so many blocks, many with each change."""

    def grown(record: Record) -> Record:
        for _ in range(_AT_ONCE):
            record = _rolled(record)
        return record

    partition.create(3)
    partition.change(_begun)
    for _ in range(count // _AT_ONCE):
        partition.change(grown)
    return partition


def _begun(record: Record) -> Record:
    record = claimed(record, "loader")
    return committed(record, _claim(record), None, following=Following("loader", _CHAIN))


def _rolled(record: Record) -> Record:
    record = claimed(record, "loader")
    return _committed(record)


def _committed(record: Record) -> Record:
    start = max(record.end, -1) + 1
    sealed = Sealed(_BLOCK_BYTES, record.last_seq + 10, start, start + _SPAN - 1, _CHAIN)
    return committed(record, _claim(record), sealed, following=Following("loader", _CHAIN))


def _claim(record: Record) -> Claim:
    return Claim(record.epoch, record.sealing_by)


def _roll(partition: Partition) -> float:
    begun = time.perf_counter()
    partition.change(lambda record: claimed(record, "loader"))
    partition.change(_committed)
    return time.perf_counter() - begun


def _seeks(place: Metadata, end: int, count: int) -> list[float]:
    """Read the record and find a block by its time, as who knows nothing yet does."""
    chosen = random.Random(7)
    found = []
    for _ in range(count):
        wanted = chosen.randrange(end)
        begun = time.perf_counter()
        partition = Partition(place, "large", clock=SystemClock())
        blocks = partition.find(partition.read(), wanted)
        found.append(time.perf_counter() - begun)
        if not blocks or blocks[0].number != wanted // _SPAN:
            raise SystemExit(f"time {wanted} was found in {blocks}")
    return found
