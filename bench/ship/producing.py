"""Small records through a producer, against plain puts of the batches that it makes of them."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Final

from bench.kit import Bench
from bench.ship.places import Place, opened
from bench.ship.shipping import Spent, clear, cpu_ms, spent
from quiver.ship.objects import own_key
from quiver.ship.producer import Producer
from quiver.ship.queue import Queue

__all__ = ["producing"]

RECORD_BYTES: Final = 1000
RECORDS: Final = 64_000
FLUSH_SIZE: Final = 8 << 20


class _Sides:
    """One place, and the batches of the last run."""

    def __init__(self, place: Place, count: int) -> None:
        self._place = place
        whole = memoryview(secrets.token_bytes(RECORD_BYTES * count))
        self.records = [
            bytes(whole[n : n + RECORD_BYTES]) for n in range(0, len(whole), RECORD_BYTES)
        ]
        self.batches: dict[int, list[bytes]] = {}

    def produce(self, each: int) -> Spent:
        """Produce so many records a call, until all of them are durable."""
        bucket = opened(self._place, self._place.fresh())
        calls = [self.records[n : n + each] for n in range(0, len(self.records), each)]

        def act() -> None:
            with Producer(Queue(bucket), flush_size=FLUSH_SIZE, flush_interval="10s") as producer:
                for call in calls:
                    producer.produce(call)

        took = spent(act)
        entries = list(Queue(bucket).read().entries())
        keys = [own_key(bucket, entry.location) for entry in entries]
        self.batches[each] = [bytes(bucket.get(key).data) for key in keys]
        clear(bucket)
        return took

    def plain(self, each: int) -> Spent:
        """Put the batches of the last run, one after the other."""
        bucket = opened(self._place, self._place.fresh())
        base = bucket.base or bucket.place.rpartition("/")[2] + "/"

        def act() -> None:
            for number, batch in enumerate(self.batches[each]):
                self._place.put(f"{base}{number}", batch)

        took = spent(act)
        clear(bucket)
        return took


def producing(bench: Bench, place: Place) -> None:
    """Measure calls of one record and of a hundred, both sides in turn."""
    sides = _Sides(place, max(int(RECORDS * bench.scale), 2000))
    found = bench.interleave(
        one=partial(sides.produce, 1),
        plain_one=partial(sides.plain, 1),
        many=partial(sides.produce, 100),
        plain_many=partial(sides.plain, 100),
    )
    for name, each in (("one", 1), ("many", 100)):
        ours, plain = found[name], found[f"plain_{name}"]
        size = sum(map(len, sides.batches[each]))
        seconds = [took.seconds for took in ours]
        bench.add(
            f"{place.name}: a producer of records of {RECORD_BYTES:,} bytes, {each} in a call: "
            "plain puts of its batches, by it",
            [took.seconds for took in plain],
            seconds,
            records=len(sides.records),
            records_a_second=len(sides.records) / sorted(seconds)[len(seconds) // 2],
            ours_cpu_ms_for_each_MB=cpu_ms(ours, size),
            plain_cpu_ms_for_each_MB=cpu_ms(plain, size),
        )
