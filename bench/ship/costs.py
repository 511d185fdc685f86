"""What a queue costs in requests and dollars, counted while the real code runs.

``python -m bench.ship.costs`` writes ``quiver/ship/COSTS.md``; a test holds the page against what
is counted. Producer and consumer run in time that passes by itself, on a store in memory. All
sizes are a 64th of what the page says, the pieces of a large put with them: counts are the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from bench.kit import ROOT
from bench.ship.counting import PIECE, CountingBucket
from quiver.metrics import SHIP_CATALOGUE, Metrics
from quiver.ship.batch import BLOCK_BYTES_MAX
from quiver.ship.consumer import Consumer
from quiver.ship.objects import MemoryBucket, probe
from quiver.ship.producer.gathering import Call, Gathering
from quiver.ship.producer.sender import Sender
from quiver.ship.queue import NewEntry, Queue
from quiver.ship.sweeper import Sweeper
from quiver.testing import ManualClock
from quiver.units import MILLISECOND, SECOND

__all__ = ["PAGE", "Cost", "counted", "written"]

PAGE: Final = ROOT / "quiver" / "ship" / "COSTS.md"

PRICES: Final = {"PUT": 0.005 / 1000, "LIST": 0.005 / 1000, "GET": 0.0004 / 1000, "DELETE": 0.0}
"""Dollars for each request: S3 Standard's list price in us-east-1, as assumed on the page."""
STORED: Final = 0.023
"""Dollars for a GB and month."""

_SMALLER: Final = 64
_MB: Final = 10**6
_GB: Final = 10**9
_MONTH: Final = 30 * 86_400
_BATCHES: Final = 100
"""Of each run, counted from the middle of one hundred to that of the next: with one dequeue."""
_WARM: Final = 50
_CALL: Final = 100_000
_POLL: Final = 1.0
_AT_ONCE: Final = 16

SIZES: Final = (1, 8, 64)
INTERVALS: Final = (0.1, 1.0, 10.0)
RATES: Final = (1, 50)


class Cost(NamedTuple):
    """What one producer and one consumer did."""

    rate: int
    """Megabytes a second."""
    size: int
    """Mebibytes of a batch at most."""
    interval: float
    batches: float
    """For each GB, as the others."""
    producer_put: float
    producer_get: float
    consumer_put: float
    consumer_get: float

    @property
    def dollars(self) -> float:
        """For each GB."""
        puts, gets = self.producer_put + self.consumer_put, self.producer_get + self.consumer_get
        return puts * PRICES["PUT"] + gets * PRICES["GET"]


class _Rig:
    """One queue in memory, and both ends of it, counted apart."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        store, numbers = MemoryBucket("ingest", clock=self.clock), itertools.count()
        self.entropy = lambda count: next(numbers).to_bytes(count, "big")
        self.ends = [CountingBucket(store, piece=PIECE // _SMALLER) for _ in range(2)]
        self.queues = [Queue(end, clock=self.clock, entropy=self.entropy) for end in self.ends]

    def consumer(self) -> Consumer:
        return Consumer.open(self.queues[1], sweep_interval=None, clock=self.clock)

    def reset(self) -> None:
        for end in self.ends:
            end.counts.clear()


def counted(rate: int, size: int, interval: float) -> Cost:
    """Produce at a rate, consume each second, and count what so many batches need."""
    traffic = _Traffic(rate, size, interval)
    traffic.go(_WARM)
    traffic.rig.reset()
    produced = traffic.go(_BATCHES)
    each = _GB / _SMALLER / produced
    made, used = (end.counts for end in traffic.rig.ends)
    return Cost(
        rate,
        size,
        interval,
        _BATCHES * each,
        made["PUT"] * each,
        made["GET"] * each,
        used["PUT"] * each,
        used["GET"] * each,
    )


class _Traffic:
    """One producer and one consumer, in time that passes by itself."""

    def __init__(self, rate: int, size: int, interval: float) -> None:
        self.rig = rig = _Rig()
        self._sender = Sender(
            rig.queues[0],
            compression="none",
            late_ns=300 * SECOND,
            clock=rig.clock,
            entropy=rig.entropy,
            metrics=Metrics(SHIP_CATALOGUE),
        )
        self._gathering = Gathering(
            flush_size=(size << 20) // _SMALLER,
            interval_ns=round(interval * SECOND),
            block_max=BLOCK_BYTES_MAX,
        )
        self._record = memoryview(bytes(_CALL // _SMALLER))
        self._step = _CALL / (rate * _MB)
        self._consumer = rig.consumer()

    def go(self, batches: int) -> int:
        """Send so many, and consume them; gives how many bytes they have."""
        clock = self.rig.clock
        sent = produced = 0
        polled = 0.0
        while sent < batches:
            size = len(self._record)
            call = Call((self._record,), b"", clock.wall_ns() // MILLISECOND, size)
            self._gathering.add(call, clock.monotonic_ns())
            clock.step(self._step)
            while (load := self._gathering.take(clock.monotonic_ns())) is not None:
                self._sender.send(load)
                sent, produced = sent + 1, produced + load.size
            polled += self._step
            if polled >= _POLL or sent == batches:
                polled = 0.0
                self._take_all()
        return produced

    def _take_all(self) -> None:
        while (batch := self._consumer.next_batch()) is not None:
            self._consumer.ack(batch.sequence)


class Each(NamedTuple):
    """What one thing that is done now and then asks of the store."""

    what: str
    counts: Counter[str]
    each_seconds: float | None = None
    """How often it is done, if it is done all the time."""

    @property
    def dollars(self) -> float:
        return sum(PRICES[name] * count for name, count in self.counts.items())


def singles() -> Iterator[Each]:
    """Do each thing once, and count."""
    rig = _Rig()
    queue, other = rig.queues
    made, used = rig.ends

    def entries(count: int) -> list[NewEntry]:
        return [NewEntry(f"ingest/{rig.entropy(8).hex()}.batch") for _ in range(count)]

    def count(what: str, end: CountingBucket, each: float | None = None) -> Each:
        found = Each(what, Counter(end.counts), each)
        rig.reset()
        return found

    probe(made, known=False)
    yield count("a store is tried, each time a queue is opened by its address", made)
    queue.append(*entries(1))
    yield count("first append of a producer", made)
    queue.append(*entries(1))
    yield count("append, nobody between", made)
    other.append(*entries(1))
    rig.reset()
    queue.append(*entries(1))
    yield count("append, somebody came between", made)
    rig.queues[1] = Queue(used, clock=rig.clock, entropy=rig.entropy)
    consumer = rig.consumer()
    yield count("a consumer opens", used)
    handed = consumer.next_descriptors(_AT_ONCE)
    yield count(f"look for up to {_AT_ONCE} descriptors", used)
    consumer.ack_through(handed[-1].sequence)
    yield count("ack through all of them", used)
    for seconds in (0.1, 1.0, 10.0):
        consumer.next_batch()
        yield count(f"look in vain, each {seconds:g} s", used, seconds)
    Sweeper(other, grace_ns=600 * SECOND, clock=rig.clock).sweep()
    yield count("a sweep of up to 1,000 objects, each 5 min", used, 300.0)
    consumer.close()


def written() -> str:
    """Write the page."""
    lines = [_HEAD]
    for rate in RATES:
        lines += [
            f"\n## One producer at {rate} MB a second\n",
            _COLUMNS,
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for size, interval in itertools.product(SIZES, INTERVALS):
            cost = counted(rate, size, interval)
            month = cost.dollars * rate * _MB * _MONTH / _GB
            lines.append(
                f"| {size} MiB | {interval:g} s | {cost.batches:,.0f} | {cost.producer_put:,.0f} "
                f"| {cost.producer_get:,.0f} | {cost.consumer_put:,.0f} | {cost.consumer_get:,.0f} "
                f"| {cost.dollars:.5f} | {month:,.2f} |"
            )
    lines += [
        "\n## Each by itself\n",
        "| what | PUT | GET | LIST | dollars for a million | dollars in 30 days |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for each in singles():
        found = each.counts
        month = "" if each.each_seconds is None else _MONTH / each.each_seconds * each.dollars
        lines.append(
            f"| {each.what} | {found['PUT']} | {found['GET']} | {found['LIST']} "
            f"| {each.dollars * 1e6:,.2f} | {f'{month:,.2f}' if month else ''} |"
        )
    return "\n".join([*lines, _TAIL])


_COLUMNS = (
    "| batch at most | flush interval | batches | producer's PUT | GET | consumer's PUT | GET "
    "| dollars a GB | dollars in 30 days |"
)

_HEAD = f"""\
# What a queue costs

Written by `python -m bench.ship.costs`, which runs the real code on a bucket that counts, and held
against it by a test. Nothing here was asked of a provider: prices are an **assumption**, S3
Standard's list price in us-east-1 as of 2026-11-23, ${PRICES["PUT"] * 1000:g} for 1,000 PUT or
LIST, ${PRICES["GET"] * 1000:g} for 1,000 GET, DELETE free, nothing for transfer inside a region.
Look yours up. A request that is refused, because somebody came first, costs what one that is taken
does; so does one that says that nothing has changed.

Numbers of the first tables are for each GB (10^9 bytes) that goes through. A batch is sent when it
is full or when its interval is over, whichever comes first. A put of more than {PIECE >> 20} MiB
goes up in pieces, each a request, between one that begins and one that ends it. The consumer looks
each {_POLL:g} s, reads all there is with `next_batch`, and acks each, which is a change of the
manifest for each hundred; that change makes the producer's next append one that is refused once.
The producer's own GET are for that, and to see now and then whether somebody asks to go first.\
"""

_TAIL = f"""
Looks in vain go on for as long as the consumer runs, whether there is data or not: at an interval
of 100 ms they cost more than all else of a queue that moves little. With descriptors there is one
look for up to as many batches as you ask for, where `next_batch` has one for each.

What waits is stored: ${STORED:g} for a GB in a month, ${STORED / 720:.6f} for a GB in an hour.
Each of N producers that append together pays for its own refusals:
[bench/SHIP.md](../../bench/SHIP.md) has how many there are when eight do nothing else.
"""

if __name__ == "__main__":
    PAGE.write_text(written())
    print(PAGE.read_text())
