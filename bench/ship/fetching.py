"""A consumer whose batches four threads fetch, against four threads that get the same objects."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from bench.kit import Bench
from bench.ship.places import Place, opened
from bench.ship.shipping import WANTED, Spent, clear, cpu_ms, spent
from quiver.ship.batch import encode_batch, mint_name
from quiver.ship.consumer import Consumer, Descriptor
from quiver.ship.objects import root_key
from quiver.ship.queue import Batch, Item, NewEntry, Queue

__all__ = ["fetching"]

FETCHERS: Final = 4
BATCH_BYTES: Final = 8 << 20
BATCHES: Final = 32
RECORD_BYTES: Final = 1 << 20
RECORDS: Final = BATCH_BYTES // RECORD_BYTES
AHEAD: Final = 16
"""Descriptors that are asked for at once, and acked together."""


class _Sides:
    """One queue's batches, read by both sides again and again."""

    def __init__(self, place: Place, count: int) -> None:
        self._place = place
        self.bucket = opened(place, place.fresh())
        self.entries: list[NewEntry] = []
        self.keys: list[str] = []
        self.size = 0
        for _ in range(count):
            records = [secrets.token_bytes(RECORD_BYTES) for _ in range(RECORDS)]
            encoded = encode_batch(records)
            key = mint_name(time.time_ns(), secrets.token_bytes)
            self.bucket.put(key, encoded.parts)
            batch = Batch(encoded.byte_count, encoded.crc32c)
            name = root_key(self.bucket, key)
            self.entries.append(NewEntry(name, [Item(0, 1, b"")], batch))
            self.keys.append(name if self.bucket.base else f"{self._folder()}/{key}")
            self.size += encoded.byte_count

    def _folder(self) -> str:
        return self.bucket.place.rpartition("/")[2]

    def ours(self) -> Spent:
        """Read and ack all of a queue that names the batches, from its opening to its close."""
        queue = Queue(self.bucket)
        queue.append(*self.entries)
        got = []

        def act() -> None:
            with (
                Consumer.open(queue, sweep_interval=None) as consumer,
                ThreadPoolExecutor(FETCHERS) as pool,
            ):
                got.extend(_read(consumer, pool))

        took = spent(act)
        assert sum(got) == len(self.entries) * RECORDS
        return took

    def plain(self) -> Spent:
        """Get the same objects."""
        got = []

        def get(key: str) -> int:
            return len(self._place.get(key))

        def act() -> None:
            with ThreadPoolExecutor(FETCHERS) as pool:
                got.extend(pool.map(get, self.keys))

        took = spent(act)
        assert sum(got) == self.size
        return took


def _read(consumer: Consumer, pool: ThreadPoolExecutor) -> Iterator[int]:
    """Fetch some batches while those before are waited for, and acked."""
    fetch = consumer.fetcher().fetch
    under: deque[tuple[int, list[Future[int]]]] = deque()

    def count(descriptor: Descriptor) -> int:
        """Use a batch where it is fetched, as the other side does, and let it go."""
        return len(fetch(descriptor).records)

    while True:
        some = consumer.next_descriptors(AHEAD)
        if some:
            under.append((some[-1].sequence, [pool.submit(count, each) for each in some]))
        if not under:
            return
        if len(under) > 1 or not some:
            sequence, futures = under.popleft()
            yield sum(future.result() for future in futures)
            consumer.ack_through(sequence)


def fetching(bench: Bench, place: Place) -> None:
    """Measure both sides in turn."""
    sides = _Sides(place, max(int(BATCHES * bench.scale), 2 * AHEAD))
    found = bench.interleave(ours=sides.ours, plain=sides.plain)
    ours, plain = ([took.seconds for took in found[name]] for name in ("ours", "plain"))
    bench.add(
        f"{place.name}: a consumer with {FETCHERS} fetchers: as many plain gets, by it",
        plain,
        ours,
        wanted=WANTED,
        megabytes=sides.size / 1e6,
        objects=len(sides.keys),
        ours_MB_a_second=sides.size / 1e6 / sorted(ours)[len(ours) // 2],
        ours_cpu_ms_for_each_MB=cpu_ms(found["ours"], sides.size),
        plain_cpu_ms_for_each_MB=cpu_ms(found["plain"], sides.size),
    )
    clear(sides.bucket)
