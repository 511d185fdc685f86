"""A collection that is written epoch by epoch beside a model of it, and views without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from quiver.ship.objects import Bucket
from quiver.spark import QuiverViewDataSource
from quiver.testing import ManualClock
from quiver.upsert.persist import Collection, Snapshot, close_all, rows_as_of, write_base, write_run
from quiver.upsert.rows import Definition
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes

KEY = pa.schema([("id", pa.int64())])
VALUE = pa.schema([("name", pa.string()), ("size", pa.uint32())])
STEP_MS = 1000
"""How long after its predecessor an epoch is made; epoch 0 is made at 0."""

State = dict[Any, Any]
"""By key: a tuple is a value, a text an error."""


class Board:
    """A collection, and what it should hold as of each epoch."""

    def __init__(
        self,
        store: Bucket,
        *,
        key: pa.Schema = KEY,
        value: pa.Schema = VALUE,
        buckets: int = 4,
    ) -> None:
        self.store, self.clock = store, ManualClock(wall_ns=0)
        self._definition = Definition(key, value, buckets)
        self.collection = Collection.open(store, self._definition, create=True, clock=self.clock)
        self.writer = self.collection.writer()
        self.states: list[State] = [{}]

    @property
    def snapshot(self) -> Snapshot:
        """Read the manifest."""
        return self.collection.snapshot()

    def put(self, changes: Mapping[Any, Any], *, value: pa.Schema | None = None) -> int:
        """Append an epoch of these changes: a value, an error, or None; gives its number."""
        if value is not None:
            self._definition = replace(self._definition, value=value)
        self.clock.step(STEP_MS / 1000)
        epoch, before = len(self.states), self.states[-1]
        rows = [
            (*row, epoch, diff)
            for key, new in changes.items()
            for row, diff in (((key, before.get(key)), -1), ((key, new), 1))
            if row[1] is not None and before.get(key) != new
        ]
        known = self.snapshot
        if value is not None:
            known = known.widened(value)
        table = self._table(rows)
        of = np.array(_hashes(table), np.uint64) % np.uint64(known.buckets)
        shares = [(bucket, table.filter(pa.array(of == bucket))) for bucket in range(known.buckets)]
        refs = [write_run(self.store, known, rows, bucket=bucket) for bucket, rows in shares]
        self.writer.append(refs, epoch, value=value)
        after = {**before, **changes}
        self.states.append({key: new for key, new in after.items() if new is not None})
        return epoch

    def fold(self, epoch: int | None = None) -> None:
        """Write bases as of an epoch, in the place of those that were; runs stay."""
        at = self.snapshot
        epoch = at.latest if epoch is None else epoch
        bases = [
            write_base(
                self.store,
                at,
                rows_as_of(self.store, at, bucket, epoch=epoch),
                bucket=bucket,
                epoch=epoch,
            )
            for bucket in range(at.buckets)
        ]
        runs = [ref for ref in at.files if ref.kind == "run"]
        files = sorted([*bases, *runs], key=lambda ref: (ref.bucket, ref.kind == "run", ref.first))
        self.writer.change(lambda found: replace(found.manifest, files=tuple(files)))

    def forget(self, since: int) -> None:
        """Fold all, raise ``since``, and delete the runs that nobody needs."""
        self.fold()
        found = self.snapshot
        gone = [ref for ref in found.files if ref.kind == "run" and ref.last <= since]
        files = tuple(ref for ref in found.files if ref not in gone)
        times = found.manifest.times[since - found.since :]
        self.writer.change(lambda at: replace(at.manifest, files=files, since=since, times=times))
        assert not self.store.delete([ref.name for ref in gone])
        close_all()  # Of this process; tasks are others.

    def _table(self, rows: Sequence[tuple[Any, Any, int, int]]) -> pa.Table:
        fields = self._definition
        keys = pa.array(
            [dict(zip(fields.key.names, _tuple(key), strict=True)) for key, *_ in rows],
            pa.struct(list(fields.key)),
        )
        values = [
            None if isinstance(value, str) else dict(zip(fields.value.names, value, strict=True))
            for _, value, *_ in rows
        ]
        errors = [value if isinstance(value, str) else None for _, value, *_ in rows]
        return pa.Table.from_arrays(
            [
                pa.array(key_hashes(key_bytes(keys))),
                keys,
                pa.array(values, pa.struct(list(fields.value))),
                pa.array(errors, pa.string()),
                pa.array([time for *_, time, _ in rows], pa.uint64()),
                pa.array([diff for *_, diff in rows], pa.int64()),
            ],
            schema=fields.diffs,
        )


def source(place: str, **options: str) -> QuiverViewDataSource:
    """Make the data source, as ``load`` does."""
    return QuiverViewDataSource({"path": place, **options})


def batch(place: str, schema: Any = None, **options: str) -> list[tuple[Any, ...]]:
    """Read a batch as Spark does, and sort its rows."""
    made = source(place, **options)
    return rows_of(made, schema)


def rows_of(made: QuiverViewDataSource, schema: Any = None) -> list[tuple[Any, ...]]:
    """Read what a load sees: the source, the reader and the shares are pickled."""
    asked = made.schema() if schema is None else schema
    reader = pickle.loads(pickle.dumps(made)).reader(asked)
    return _read(reader, reader.partitions())


def stream(place: str, schema: Any = None, **options: str) -> Any:
    """Make the reader of a stream, which looks at the manifest each time it is asked."""
    made = source(place, **{"changes": "true", "pollInterval": "0s", **options})
    asked = made.schema() if schema is None else schema
    return pickle.loads(pickle.dumps(made)).streamReader(asked)


def between(reader: Any, start: Any, end: Any) -> list[tuple[Any, ...]]:
    """Read a batch of a stream as tasks do: each from a pickled copy."""
    return _read(reader, reader.partitions(start, end))


def total(rows: Sequence[tuple[Any, ...]], *, through: int | None = None) -> State:
    """Add up changes of ``KEY`` and ``VALUE``; what is there more or less than once fails."""
    counts: dict[tuple[Any, ...], int] = {}
    for *row, time, diff in rows:
        if through is None or time <= through:
            counts[tuple(row)] = counts.get(tuple(row), 0) + diff
    assert set(counts.values()) <= {0, 1}
    return {row[0]: tuple(row[1:]) for row, count in counts.items() if count}


def _read(reader: Any, partitions: Sequence[Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for partition in partitions:
        copy, share = pickle.loads(pickle.dumps((reader, partition)))
        for rows in copy.read(share):
            found += [tuple(row.values()) for row in rows.to_pylist()]
    return sorted(found, key=repr)


def _hashes(table: pa.Table) -> list[int]:
    return table.column("hash").to_pylist()


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
