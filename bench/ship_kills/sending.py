"""The sending ends: a writer of each core of a store, its shipper, and a producer of records.

A record has the life of its producer, the call it was sent by, its number, and what follows from
the number. ``acked LIFE CALL FIRST COUNT SEQUENCE`` in the log says that a handle said so; a call
that failed is made again under another number of the call, and one that nobody knows of is not.
"""

from __future__ import annotations

import random
import time
from collections import deque
from typing import Final

import pyarrow as pa

import quiver
from bench.kills.log import Log
from bench.ship_kills.setup import CORES, Setup, content
from quiver.disk import LocalDisk
from quiver.errors import QuiverError
from quiver.ship.objects import UnclearError
from quiver.ship.producer import Producer, WriteHandle
from quiver.ship.shipper import LeftOut, Shipment, ShipOptions, Shipper

__all__ = ["RAW", "produce", "ship", "write", "write_rest"]

RAW: Final = b"raw"
"""Metadata of what is no segment."""
_CONFIG: Final = {"segment": {"target_size": "16KiB", "max_open_duration": "150ms"}}
_APPEND_PAUSE: Final = 0.02
_CALL_PAUSE: Final = 0.008
_WAITING_MAX: Final = 12
_TROUBLE_PAUSE: Final = 0.05
_RECORDS_MAX: Final = 4


def open_store(setup: Setup, core: int) -> quiver.Store:
    """Open one core of the store; the first one makes it."""
    return quiver.open(setup.store, slots=["events"], core=core, config=_CONFIG)


def write(setup: Setup, core: int, life: int) -> None:
    """Append bundles until killed; each holds its number."""
    log = Log(setup.log(f"writer-{core}"))
    rng = random.Random(life)
    with open_store(setup, core) as store:
        number = store.info().next_wal_seq
        while True:
            bundle = {"events": pa.record_batch({"n": [number] * rng.randrange(1, 200)})}
            if store.append(bundle) != number:
                raise SystemExit(f"bundle {number} became another one")
            log.say("durable", number)
            number += 1
            time.sleep(_APPEND_PAUSE)


def write_rest(setup: Setup) -> dict[int, int]:
    """Make segments of all there is; gives the number of bundles of each core."""
    found = {}
    for core in range(CORES):
        with open_store(setup, core) as store:
            store.finalize()
            found[core] = store.info().next_wal_seq
    return found


def ship(setup: Setup, life: int, *, follow: bool = True) -> None:
    """Ship the store until killed, or all there is."""
    log = Log(setup.log("shipper"))

    def told(what: object) -> None:
        match what:
            case Shipment():
                log.say("shipped", life, what.sequence, what.bundle_count)
            case LeftOut():
                log.say("wrong", "left out", what)
            case _:
                log.say("trouble", what)

    options = ShipOptions(batch_bytes=48 << 10, uploads=2)
    while True:
        disk = LocalDisk(setup.store)
        try:
            shipper = Shipper(disk, setup.queue("shipper"), "ship", options=options, watch=told)
            shipper.run(follow=follow)
        except QuiverError as error:
            log.say("error", type(error).__name__, error)
            time.sleep(_TROUBLE_PAUSE)
        else:
            return
        finally:
            disk.close()


class _Calls:
    """The calls of one life of a producer that are on their way."""

    def __init__(self, producer: Producer, life: int, log: Log) -> None:
        self._producer, self._life, self._log = producer, life, log
        self._waiting: deque[tuple[WriteHandle, int, int, int]] = deque()
        self._again: deque[tuple[int, int]] = deque()
        self._made = 0

    def make(self, first: int, count: int) -> None:
        """Send records under one call."""
        call, self._made = self._made, self._made + 1
        records = []
        for number in range(first, first + count):
            head = f"{self._life} {call} {number} ".encode()
            records.append(head + content(self._life, number))
        handle = self._producer.produce(records, RAW)
        self._waiting.append((handle, call, first, count))

    def settle(self, most: int) -> None:
        """Wait until no more than this are on their way, and make again what failed."""
        while len(self._waiting) > most or (self._waiting and self._waiting[0][0].done):
            handle, *call = self._waiting.popleft()
            try:
                sequence = handle.wait_durable().sequence
            except UnclearError:
                self._log.say("unclear", self._life, *call)
            except QuiverError as error:
                self._log.say("failed", self._life, *call, type(error).__name__, error)
                self._again.append((call[1], call[2]))
            else:
                self._log.say("acked", self._life, *call, sequence)
        while self._again and len(self._waiting) < _WAITING_MAX:
            self.make(*self._again.popleft())


def produce(setup: Setup, life: int) -> None:
    """Produce records until killed; their numbers begin anew in each life."""
    rng = random.Random(life)
    first = 0
    with Producer(
        setup.queue("producer"),
        flush_interval="15ms",
        flush_size="16KiB",
        late_after=setup.late,
        compression="zstd" if life % 2 else "none",
    ) as producer:
        calls = _Calls(producer, life, Log(setup.log("producer")))
        while True:
            count = rng.randrange(1, _RECORDS_MAX)
            calls.make(first, count)
            first += count
            calls.settle(_WAITING_MAX)
            time.sleep(rng.random() * _CALL_PAUSE)
