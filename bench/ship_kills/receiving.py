"""The receiving end: batches into SQLite, rows and the sequence in one transaction.

No table has a key: what comes twice is there twice.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final

from bench.kills.log import Log
from bench.ship_kills.sending import RAW
from bench.ship_kills.setup import Setup
from quiver.errors import DamagedEntry, FencedError, QuiverError
from quiver.segment import open_bytes
from quiver.ship.consumer import Batch, Consumer, Delivered
from quiver.ship.shipper import decode_payload

__all__ = ["consume", "open_sink"]

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS batches (sequence INTEGER, location TEXT);
CREATE TABLE IF NOT EXISTS records (sequence INTEGER, life INTEGER, call INTEGER, number INTEGER,
                                    content BLOB);
CREATE TABLE IF NOT EXISTS segments (sequence INTEGER, core INTEGER, number INTEGER);
CREATE TABLE IF NOT EXISTS bundles (sequence INTEGER, core INTEGER, number INTEGER);
CREATE TABLE IF NOT EXISTS progress (sequence INTEGER);
"""
_IDLE_PAUSE: Final = 0.01
_TROUBLE_PAUSE: Final = 0.1
_FETCHERS: Final = 3
_AT_ONCE: Final = 6
_KNOWN: Final = 1000


def open_sink(path: str) -> sqlite3.Connection:
    """Open the database; transactions are begun by whoever wants one."""
    database = sqlite3.connect(path, isolation_level=None, timeout=60)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")  # A kill takes nothing from the system's cache.
    database.executescript(_TABLES)
    return database


def consume(setup: Setup, life: int, *, until_empty: bool = False) -> None:
    """Take what comes until killed, or all there is."""
    log = Log(setup.log("consumer"))
    with closing(open_sink(setup.sink)) as database:
        while True:
            try:
                _consume(setup, database, life=life, until_empty=until_empty)
            except QuiverError as error:
                log.say("error", type(error).__name__, error)
                time.sleep(_TROUBLE_PAUSE)
            else:
                return


def _consume(setup: Setup, database: sqlite3.Connection, *, life: int, until_empty: bool) -> None:
    last = _last_of(database)
    every = random.Random(life).randrange(1, 8)
    with (
        Consumer.open(
            setup.queue("consumer"),
            last,
            delivered=_delivered(database),
            dequeue_every=every,
            sweep_interval=None,
        ) as consumer,
        ThreadPoolExecutor(_FETCHERS) as pool,
    ):
        while True:
            try:
                batches = _next(consumer, pool, at_once=_AT_ONCE if life % 2 else 1)
            except DamagedEntry as error:
                if _last_of(database) == last:
                    raise
                # It began behind a sequence that was not the last one any more.
                raise FencedError("another has written", epoch=consumer.epoch) from error
            if batches:
                last = _keep(database, consumer, batches, last=last)
            elif until_empty:
                consumer.flush()
                return
            else:
                time.sleep(_IDLE_PAUSE)


def _delivered(database: sqlite3.Connection) -> list[Delivered]:
    """Say what was taken lately: an entry whose sender got no answer may come again behind it."""
    rows = database.execute(
        "SELECT sequence, location FROM batches ORDER BY rowid DESC LIMIT ?", [_KNOWN]
    )
    return [Delivered(sequence, location, ()) for sequence, location in reversed(rows.fetchall())]


def _next(consumer: Consumer, pool: ThreadPoolExecutor, *, at_once: int) -> Sequence[Batch]:
    """Give the next batches, some of them at once if several fetch."""
    if at_once == 1:
        batch = consumer.next_batch()
        return [batch] if batch is not None else []
    return list(pool.map(consumer.fetcher().fetch, consumer.next_descriptors(at_once)))


def _keep(
    database: sqlite3.Connection, consumer: Consumer, batches: Sequence[Batch], *, last: int | None
) -> int:
    """Write rows and sequence in one transaction, and ack behind it; gives the sequence.

    Raises FencedError if somebody has written since: who was asleep may wake up when another one
    has taken over, and learns of it in here or never.
    """
    newest = batches[-1].sequence
    database.execute("BEGIN IMMEDIATE")
    if _last_of(database) != last:
        database.execute("ROLLBACK")
        raise FencedError("another has written", epoch=consumer.epoch)
    for batch in batches:
        _insert(database, batch)
    database.execute("INSERT INTO progress VALUES (?)", [newest])
    database.execute("COMMIT")
    consumer.ack_through(newest) if len(batches) > 1 else consumer.ack(newest)
    return newest


def _last_of(database: sqlite3.Connection) -> int | None:
    """Read the sequence of the last transaction."""
    found: int | None = database.execute("SELECT max(sequence) FROM progress").fetchone()[0]
    return found


def _insert(database: sqlite3.Connection, batch: Batch) -> None:
    """Write what is in one batch."""
    sequence = batch.sequence
    database.execute("INSERT INTO batches VALUES (?, ?)", [sequence, batch.location])
    for index, call in enumerate(batch.calls):
        for record in batch.of_call(index):
            data = bytes(record)
            if call.metadata == RAW:
                life, number, which, content = data.split(b" ", 3)
                row = [sequence, int(life), int(number), int(which), content]
                database.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
                continue
            segment = decode_payload(call.metadata)
            row = [sequence, segment.core, segment.segment_seq]
            database.execute("INSERT INTO segments VALUES (?, ?, ?)", row)
            reader = open_bytes(data, place=batch.location)
            reader.verify()
            for place in range(reader.bundle_count):
                number = reader.bundle(place)[0].column("n")[0].as_py()
                row = [sequence, segment.core, number]
                database.execute("INSERT INTO bundles VALUES (?, ?, ?)", row)
