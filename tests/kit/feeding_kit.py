"""A store of keyed commands on a disk in RAM, a collection in memory, and what must come of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import quiver
from quiver.ship.objects import Bucket, MemoryBucket
from quiver.testing import Killed, ManualClock, MemoryDisk
from quiver.upsert.feeding import Feeder, FeedOptions
from quiver.upsert.persist import close_all
from quiver.upsert.viewing import View

NAME = "feeder"
KEYS = 5

Row = tuple[int, int | None]
"""A key, and the number of the command, or None where the key goes."""
State = dict[int, int]


def commands(number: int, *, core: int = 0) -> list[Row]:
    """Make the rows of one bundle: each command unlike any other, one in five takes a key away."""
    rows: list[Row] = []
    for place in range(1 + number % 3):
        serial = 10 * number + place
        key = 100 * core + (serial * 7 + number) % KEYS
        rows.append((key, None if serial % 5 == 3 else serial))
    return rows


def table(rows: Sequence[Row]) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.record_batch({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())})


def states(bundles: Sequence[Sequence[Row]]) -> list[State]:
    """Give the state after each bundle, and before the first."""
    found: list[State] = [{}]
    for rows in bundles:
        now = dict(found[-1])
        for key, value in rows:
            if value is None:
                now.pop(key, None)
            else:
                now[key] = value
        found.append(now)
    return found


def held(store: Bucket, *, as_of: int | None = None) -> State:
    """Read what a collection has."""
    close_all()  # Nothing is believed because it was read before.
    rows = View(store).to_table(as_of=as_of).to_pylist()
    found = {row["k"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


def check(store: Bucket, bundles: Sequence[Sequence[Row]]) -> None:
    """Each epoch is the state after some bundle, none goes back, and the last is the last."""
    view, wanted, at = View(store), states(bundles), 0
    for epoch in range(view.since, view.latest + 1):
        found = held(store, as_of=epoch)
        while wanted[at] != found:
            at += 1
            assert at < len(wanted), f"epoch {epoch} is no state that ever was: {found}"
    assert held(store) == wanted[-1]
    check_changes(view)


def check_changes(view: View) -> None:
    """Differences add up to at most one row of each key, at every epoch."""
    counts: dict[tuple[int, int], int] = {}
    rows = view.changes().read_all().sort_by([("_time", "ascending")]).to_pylist()
    for epoch in range(view.since + 1, view.latest + 1):
        for row in rows:
            if row["_time"] == epoch:
                place = row["k"], row["v"]
                counts[place] = counts.get(place, 0) + row["_diff"]
        alive = [key for (key, _), count in counts.items() if count]
        assert len(alive) == len(set(alive))
        assert set(counts.values()) <= {0, 1}


class Feeding:
    """One store and one collection; writers and feeders come and go."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock()
        self.bucket: Bucket = MemoryBucket("collection", clock=self.clock)
        self.bundles: dict[int, list[list[Row]]] = {}
        self.told: list[Any] = []

    def open(self, core: int = 0, **config: Any) -> quiver.Store:
        options: dict[str, Any] = {"disk": self.disk, "clock": self.clock, "worker": False}
        return quiver.open("memory", slots=["users", "other"], core=core, config=config, **options)

    def fill(self, *counts: int, core: int = 0, **extra: Mapping[str, Any]) -> None:
        """Append so many bundles for each segment."""
        with self.open(core) as store:
            for count in counts:
                for _ in range(count):
                    known = self.bundles.setdefault(core, [])
                    rows = commands(len(known), core=core)
                    known.append(rows)
                    store.append({"users": table(rows), **extra})
                store.finalize()

    def subscribe(self, name: str = NAME, **options: Any) -> quiver.Consumer:
        how = {"disk": self.disk, "clock": self.clock, "worker": False, "slots": ["users"]}
        return quiver.subscribe("memory", name, **(how | options))

    def feeder(self, subscriber: Any, bucket: Bucket | None = None, **options: Any) -> Feeder:
        how = FeedOptions(**{"slot": "users", "key": ["k"], "buckets": 2} | options)
        into = bucket or self.bucket
        return Feeder(subscriber, into, how, clock=self.clock, watch=self.told.append)

    def feed(self, bucket: Bucket | None = None, *, name: str = NAME, **options: Any) -> Any:
        """Feed what there is."""
        with self.subscribe(name) as subscriber:
            return self.feeder(subscriber, bucket, **options).run()

    def check(self) -> None:
        """All is in, once and in order; of one core."""
        check(self.bucket, self.bundles[0])

    def open_bundles(self, name: str = NAME) -> int:
        """Count what is not acked."""
        with self.subscribe(name) as subscriber:
            return sum(lag.bundle_count for lag in subscriber.lags())


class Mortal:
    """A bucket whose user is killed at one of its acts, and does nothing more from then on."""

    def __init__(self, bucket: Bucket, at: int, *, behind: bool) -> None:
        self._bucket, self._at, self._behind = bucket, at, behind
        self._lock = threading.Lock()
        self.acts = 0
        self.is_dead = False

    place = property(lambda self: self._bucket.place)
    base = property(lambda self: self._bucket.base)

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._bucket, name)

        def mortal(*args: Any, **named: Any) -> Any:
            with self._lock:
                if self.is_dead:
                    raise Killed
                self.acts += 1
                dies = self.acts == self._at
                self.is_dead = dies
                if dies and not self._behind:
                    raise Killed
            found = act(*args, **named)
            if dies:
                raise Killed
            return found

        return mortal
