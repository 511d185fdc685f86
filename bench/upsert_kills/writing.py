"""The writer, as a process: it looks up, writes runs, appends and tends, until it is killed.

``appended EPOCH LIFE FENCE`` in the log says who appended what. A life that was killed before it
could say so is named by the manifest, which the next one reads: ``found EPOCH LIFE FENCE``.
"""

from __future__ import annotations

import random
import time
from itertools import pairwise
from typing import Final

from bench.kills.log import Log
from bench.upsert_kills.setup import LIMITS, PLAN, SOURCE, SPLIT, Setup, commands, definition
from quiver.errors import FencedError, QuiverError
from quiver.ship.objects import Bucket
from quiver.upsert.persist import Collection, FileRef, Snapshot, Source, State, Writer, write_run
from quiver.upsert.rows import differences, prepare, reduce, rows_of_buckets
from quiver.upsert.tending import Tender

__all__ = ["open_collection", "runs_of", "tender_of", "write"]

_PAUSE: Final = 0.03
_TROUBLE_PAUSE: Final = 0.1
_FENCED_PAUSE: Final = 0.2
_TENDS: Final = 0.6


def write(setup: Setup, life: int, stop_before: int = 0) -> None:
    """Append until killed. Who is fenced takes over again: two writers do so in turn."""
    log = Log(setup.log("writer"))
    store = setup.store("writer", stop_before)
    while True:
        try:
            _write(setup, store, life, log=log)
        except FencedError as error:
            log.say("fenced", life, error)
            time.sleep(_FENCED_PAUSE)
        except QuiverError as error:
            log.say("error", type(error).__name__, error)
            time.sleep(_TROUBLE_PAUSE)


def open_collection(store: Bucket) -> Collection:
    """Open the collection; the first one makes it."""
    return Collection.open(store, definition(), create=True)


def tender_of(setup: Setup, writer: Writer) -> Tender:
    """Give who tends, with a grace of seconds."""
    grace = f"{setup.grace}s"
    return Tender(writer, LIMITS, grace=grace, sweep_interval=f"{setup.grace / 2}s")


def _write(setup: Setup, store: Bucket, life: int, *, log: Log) -> None:
    writer = open_collection(store).writer()
    tender = tender_of(setup, writer)
    snapshot = writer.snapshot()
    before = snapshot.sources.get(SOURCE)
    if before is not None:
        log.say("found", snapshot.latest, *before.query.split())
        if (before.batch, before.splits[SPLIT]) != (snapshot.latest, snapshot.upper):
            log.say("wrong", f"epoch {snapshot.latest} has the source at {before}")
    rng = random.Random(f"{life} {writer.fence}")
    while True:
        epoch = snapshot.upper
        source = Source(f"{life} {writer.fence}", epoch, {SPLIT: epoch + 1})
        refs = runs_of(store, snapshot, life)
        appended = writer.append(refs, epoch, sources={SOURCE: source})
        if appended.was_persisted:
            log.say("wrong", f"epoch {epoch} was in before")
        log.say("appended", epoch, life, writer.fence)
        if rng.random() < _TENDS:
            done = tender.tend()
            log.say("tended", done.folded, done.merged, done.dropped, done.deleted)
        snapshot = writer.snapshot()
        time.sleep(_PAUSE)


def runs_of(store: Bucket, snapshot: Snapshot, life: int) -> list[FileRef | None]:
    """Write what the next epoch changes, of each bucket, by what the collection has now."""
    epoch = snapshot.upper
    every = reduce(prepare(commands(life, epoch), PLAN, snapshot.definition))
    order, edges = rows_of_buckets(every.hashes, snapshot.buckets)
    refs = []
    for bucket, (start, end) in enumerate(pairwise(edges)):
        some = every.take(order[start:end])
        if len(some):
            looked = State(store, snapshot, bucket).lookup(some.hashes, some.keys)
            diffs = differences(some, looked, epoch)
            refs.append(write_run(store, snapshot, diffs, bucket=bucket))
    return refs
