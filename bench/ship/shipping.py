"""A store's finished segments into the queue, against plain puts of the same bytes."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

import quiver
from bench.kit import Bench, warm
from bench.ship.places import Place, opened
from bench.wal.shapes import SLOTS, lot
from quiver.disk import LocalDisk
from quiver.ship.objects import Bucket, own_key
from quiver.ship.queue import Queue
from quiver.ship.shipper import Shipper

__all__ = ["WANTED", "Spent", "clear", "cpu_ms", "make_store", "shipping", "spent"]

STORE_BYTES: Final = 256 << 20
_COUNT: Final = itertools.count()
AT_ONCE: Final = 4
"""As a shipper has uploads under way."""
WANTED: Final = ("at least", 0.8)


class Spent(NamedTuple):
    """What something took by the clock, and of this process on processors."""

    seconds: float
    cpu: float


def spent(act) -> Spent:
    """Do something, after all that was written before is on the disk."""
    os.sync()
    cpu, begun = time.process_time(), time.perf_counter()
    act()
    return Spent(time.perf_counter() - begun, time.process_time() - cpu)


def make_store(folder: Path, byte_count: int) -> None:
    """Fill a store with segments of the usual size, and close it."""
    bundles = lot(1000)
    config = {"wal": {"durability": "interval"}, "segment": {"max_open_duration": "1h"}}
    written = number = 0
    with quiver.open(folder, slots=SLOTS, config=config) as store:
        while written < byte_count:
            bundle = bundles[number % len(bundles)]
            store.append(bundle, wait=False)
            written += sum(batch.nbytes for batch in bundle.values())
            number += 1
        store.finalize()


class _Sides:
    """Both sides of one place, with what is to be put."""

    def __init__(self, bench: Bench, place: Place, store: Path) -> None:
        self._bench, self._place, self._store = bench, place, store
        self.batches: list[bytes] = []
        self.appends = 0

    def unchecked(self) -> Spent:
        """Ship without the check of each byte, to see what that costs."""
        with mock.patch("quiver.ship.shipper.cargo.check_file"):
            return self.ship()

    def ship(self) -> Spent:
        """Ship all of the store as a new subscriber into a new queue; keep what was put."""
        bucket = opened(self._place, self._place.fresh())
        disk = LocalDisk(self._store)
        warm(self._bench.folder)
        try:
            shipper = Shipper(disk, Queue(bucket), f"ship{next(_COUNT)}")
            took = spent(shipper.run)
        finally:
            disk.close()
        entries = list(Queue(bucket).read().entries())
        if not self.batches:
            keys = [own_key(bucket, entry.location) for entry in entries]
            self.batches = [bytes(bucket.get(key).data) for key in keys]
        sizes = [entry.batch.byte_count for entry in entries if entry.batch]
        assert sizes == [len(batch) for batch in self.batches]
        assert shipper.tally.segment_count > 0
        self.appends = shipper.tally.append_count
        clear(bucket)
        return took

    def plain(self, at_once: int) -> Spent:
        """Put the same batches, so many at a time."""
        url = self._place.fresh()
        bucket = opened(self._place, url)
        keys = [
            f"{bucket.base or os.path.basename(url) + '/'}{n}" for n in range(len(self.batches))
        ]
        warm(self._bench.folder)
        took = spent(partial(_put_all, self._place, keys, batches=self.batches, at_once=at_once))
        clear(bucket)
        return took


def _put_all(place: Place, keys: Sequence[str], *, batches: Sequence[bytes], at_once: int) -> None:
    if at_once == 1:
        for key, batch in zip(keys, batches, strict=True):
            place.put(key, batch)
        return
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(place.put, keys, batches))


def clear(bucket: Bucket) -> None:
    """Delete all there is."""
    if bucket.place.startswith("/"):
        shutil.rmtree(bucket.place)
    else:
        assert not bucket.delete([found.key for found in bucket.list("")])


def shipping(bench: Bench, place: Place) -> None:
    """Measure both sides in turn."""
    store = bench.folder / "store"
    if not store.exists():
        make_store(store, int(STORE_BYTES * bench.scale))
    sides = _Sides(bench, place, store)
    found = bench.interleave(
        ours=sides.ship,
        one=partial(sides.plain, 1),
        four=partial(sides.plain, AT_ONCE),
        unchecked=sides.unchecked,
    )
    size = sum(map(len, sides.batches))
    ours = [took.seconds for took in found["ours"]]
    for name, said in (("one", "one after the other"), ("four", f"{AT_ONCE} at a time")):
        theirs = [took.seconds for took in found[name]]
        more = {}
        if name == "one":
            more = {
                "megabytes": size / 1e6,
                "objects": len(sides.batches),
                "appends": sides.appends,
                "ours_MB_a_second": size / 1e6 / sorted(ours)[len(ours) // 2],
                "ours_cpu_ms_for_each_MB": cpu_ms(found["ours"], size),
                "plain_cpu_ms_for_each_MB": cpu_ms(found["one"], size),
            }
        measure = f"{place.name}: shipping a store's segments: plain puts, {said}, by it"
        bench.add(measure, theirs, ours, wanted=WANTED, **more)
        trusting = [took.seconds for took in found["unchecked"]]
        bench.add(f"{measure}, unchecked", theirs, trusting)


def cpu_ms(took: Sequence[Spent], size: int) -> float:
    return sorted(each.cpu for each in took)[len(took) // 2] * 1e9 / size
