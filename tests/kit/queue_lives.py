"""Lives of a producer and of a consumer that end by SIGKILL, as programs of their own.

::

    python queue_lives.py produce URL OPTIONS KILL_AT LOG COUNT
    python queue_lives.py consume URL OPTIONS KILL_AT DATABASE COUNT
    python queue_lives.py nurse  # each life of a line of stdin in a child; see ``Nursery``

``KILL_AT`` is the act on the bucket, or on the database, at which it ends: before an even one,
behind an odd one; 0 is never. ``LOG`` gets the number of each record that was told to be durable.
The application of the consumer is a database that takes records and sequence in one transaction.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quiver.ship.consumer import Consumer, Delivered
from quiver.ship.consumer.identity import Identity
from quiver.ship.objects import open_bucket
from quiver.ship.producer import Producer
from quiver.ship.queue import Queue, QueueOptions
from quiver.ship.shipper.format import ShippedSegment, encode_payload

STORE = bytes(range(16))


class Fate:
    """Counts acts, and ends the process at one of them."""

    def __init__(self, kill_at: int) -> None:
        self.kill_at, self.acts = kill_at, 0

    def act(self, run: Callable[[], Any]) -> Any:
        self.acts += 1
        is_last = self.acts == self.kill_at
        if is_last and self.kill_at % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = run()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class MortalBucket:
    """A bucket each of whose acts may be the last of this process."""

    def __init__(self, inner: Any, fate: Fate) -> None:
        self.inner, self.fate = inner, fate
        self.place, self.base = inner.place, inner.base

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **named: self.fate.act(
            lambda: getattr(self.inner, name)(*given, **named)
        )


def metadata(number: int) -> bytes:
    """Name a record as a shipped segment is named, so that its repeats are known."""
    return encode_payload(
        ShippedSegment(
            store_id=STORE.hex(),
            core=0,
            segment_seq=number,
            wal_seq_first=number,
            wal_seq_last=number,
            bundle_count=1,
            slots=0,
            record_bytes=4,
            first_ns=0,
            last_ns=0,
            schemas=(),
        )
    )


def produce(queue: Queue, log: Path, count: int) -> None:
    """Go on behind the last record that was told to be durable."""
    lines = log.read_text().split() if log.exists() else []
    producer = Producer(queue, flush_interval="1ms")
    with log.open("a") as file:
        for number in range(len(lines), count):
            handle = producer.produce([b"%04d" % number], metadata(number))
            handle.wait_durable(60)
            file.write(f"{number}\n")
            file.flush()
    producer.close(60)


def consume(queue: Queue, database: Path, fate: Fate, count: int) -> None:
    """Take what there is until all records are in; give up when nothing more is in the queue."""
    with sqlite3.connect(database, isolation_level=None) as base:
        base.execute("CREATE TABLE IF NOT EXISTS rows (life INTEGER, record TEXT)")
        base.execute("CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY, text TEXT)")
        found = base.execute("SELECT text FROM state").fetchone()
        stored = json.loads(found[0]) if found else {"sequence": None, "delivered": []}
        delivered = [
            Delivered(seq, place, tuple(Identity(bytes.fromhex(i[0]), *i[1:]) for i in identities))
            for seq, place, identities in stored["delivered"]
        ]
        consumer = Consumer.open(
            queue, stored["sequence"], delivered=delivered, window=64, dequeue_every=5
        )
        while (batch := consumer.next_batch()) is not None:
            told = consumer.delivered_through(batch.sequence)
            state = {
                "sequence": batch.sequence,
                "delivered": [
                    [seq, place, [[i.store_id.hex(), i.core, i.segment_seq] for i in identities]]
                    for seq, place, identities in told
                ],
            }
            base.execute("BEGIN IMMEDIATE")
            rows = [(os.getpid(), bytes(record).decode()) for record in batch.records]
            base.executemany("INSERT INTO rows VALUES (?, ?)", rows)
            base.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", [json.dumps(state)])
            fate.act(lambda: base.execute("COMMIT"))
            consumer.ack(batch.sequence)
            if base.execute("SELECT count(*) FROM rows").fetchone()[0] >= count:
                break
        consumer.close()


def live(role: str, url: str, options: dict[str, str], *, kill_at: int, place: Path, count: int):
    """Live one life in this process."""
    fate = Fate(kill_at)
    queue = Queue(
        MortalBucket(open_bucket(url, options=options), fate),
        options=QueueOptions(page_entries=8),
    )
    if role == "produce":
        produce(queue, place, count)
    else:
        consume(queue, place, fate, count)


class Nursery:
    """A process without threads that forks a child for each life: cheaper than an interpreter each.

    The process of the tests is no parent for them: a lock that a thread of another test has at the
    moment of a fork is never let go in the child.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "nurse"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def live(self, role: str, url: str, *, kill_at: int, place: Path, count: int) -> int:
        """Live one life in a child of it, and give how it ended as ``subprocess`` does."""
        self._process.stdin.write(json.dumps([role, url, kill_at, str(place), count]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def nurse() -> None:
    """Live what stdin asks for, a line each, and print how each ended."""
    for line in sys.stdin:
        role, url, kill_at, place, count = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                live(role, url, {}, kill_at=kill_at, place=Path(place), count=count)
                code = 0
            except BaseException:  # noqa: BLE001 (the child ends here, whatever it was)
                traceback.print_exc()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["nurse"]:
        nurse()
        sys.exit()
    role, url, options, kill_at, place, count = sys.argv[1:]
    known = json.loads(options)
    live(role, url, known, kill_at=int(kill_at), place=Path(place), count=int(count))
