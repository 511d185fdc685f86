"""A collection beside a dictionary that does the same in the plainest way."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from quiver.ship.objects import Bucket, MemoryBucket
from quiver.testing import ManualClock
from quiver.upsert.persist import (
    Collection,
    FileRef,
    Snapshot,
    State,
    Writer,
    changes,
    rows_as_of,
    write_base,
    write_run,
)
from quiver.upsert.rows import DIFF, KEY, TIME, VALUE, Definition
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes

__all__ = ["DEFINITION", "Rig", "as_dict", "diffs_of", "error", "hashes_of"]

DEFINITION = Definition(
    pa.schema([pa.field("id", pa.int64())]),
    pa.schema([pa.field("text", pa.string()), pa.field("n", pa.int32())]),
    4,
)

Value = Any
Change = tuple[Any, Value | None, Value | None]
"""A key, what it had, what it has from now on; None is nothing, an exception an error row."""


def hashes_of(keys: pa.StructArray) -> Any:
    return key_hashes(key_bytes(keys))


def keys_of(definition: Definition, keys: Iterable[Any]) -> Any:
    names = definition.key.names
    rows = [
        dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True)) for key in keys
    ]
    return pa.array(rows, definition.state.field(KEY).type)


def diffs_of(
    definition: Definition, changes: Iterable[Change], epoch: int, *, hashes: Any = hashes_of
) -> pa.Table:
    """Write changes as differences: a -1 for what there was, a +1 for what there is."""
    flat = [
        (key, value, diff)
        for key, old, new in changes
        for value, diff in ((old, -1), (new, 1))
        if value is not None
    ]
    keys = keys_of(definition, [key for key, _, _ in flat])
    goods = [None if isinstance(value, Exception) else value for _, value, _ in flat]
    errors = [str(value) if isinstance(value, Exception) else None for _, value, _ in flat]
    return pa.table(
        [
            pa.array(hashes(keys), pa.uint64()),
            keys,
            pa.array(goods, definition.state.field(VALUE).type),
            pa.array(errors, pa.string()),
            pa.array([epoch] * len(flat), pa.uint64()),
            pa.array([diff for _, _, diff in flat], pa.int64()),
        ],
        schema=definition.diffs,
    )


def error(text: str) -> Exception:
    """Make an error row's value; two of one text are equal."""
    return _ErrorRow(text)


class _ErrorRow(Exception):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ErrorRow) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


def as_dict(batches: Iterable[pa.RecordBatch]) -> dict[Any, Value]:
    """Read rows of a state; a key that comes twice is an error."""
    found: dict[Any, Value] = {}
    for batch in batches:
        for row in batch.to_pylist():
            key = tuple(map(_frozen, row[KEY].values()))
            key = key[0] if len(key) == 1 else key
            if key in found:
                raise AssertionError(f"{key} is there twice")
            found[key] = row[VALUE] if row["error"] is None else error(row["error"])
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class Rig:
    """A collection, and for each epoch the dictionary that it should be."""

    def __init__(
        self,
        store: Bucket | None = None,
        definition: Definition = DEFINITION,
        *,
        hashes: Any = hashes_of,
    ) -> None:
        self.store = store or MemoryBucket()
        self.clock = ManualClock()
        self.hashes = hashes
        self.collection = Collection.open(self.store, definition, create=True, clock=self.clock)
        self.writer: Writer = self.collection.writer()
        self.states: dict[int, dict[Any, Value]] = {0: {}}

    @property
    def snapshot(self) -> Snapshot:
        return self.collection.snapshot()

    @property
    def now(self) -> dict[Any, Value]:
        return self.states[max(self.states)]

    def model(self, epoch: int | None = None) -> dict[Any, Value]:
        """Give what should be there, with nulls for columns that came later."""
        names = self.snapshot.definition.value.names
        found = self.now if epoch is None else self.states[epoch]
        return {
            key: value if isinstance(value, Exception) else {n: value.get(n) for n in names}
            for key, value in found.items()
        }

    def write(
        self, commands: Mapping[Any, Value | None], value: pa.Schema | None = None
    ) -> list[FileRef | None]:
        """Write the runs that commands make, by what the model has."""
        snapshot = self.snapshot
        if value is not None:
            snapshot = snapshot.widened(value)
        made = [
            (key, self.now.get(key), new)
            for key, new in commands.items()
            if not (self.now.get(key) is None and new is None)
        ]
        diffs = diffs_of(snapshot.definition, made, snapshot.upper, hashes=self.hashes)
        of = diffs.column("hash").to_numpy() % np.uint64(snapshot.buckets)
        return [
            write_run(
                self.store,
                snapshot,
                diffs.filter(pa.array(of == bucket)),
                bucket=bucket,
                clock=self.clock,
            )
            for bucket in range(snapshot.buckets)
        ]

    def apply(self, commands: Mapping[Any, Value | None], **named: Any) -> Snapshot:
        """Append an epoch of commands, and let the model do the same."""
        refs = self.write(commands, named.get("value"))
        epoch = self.snapshot.upper
        appended = self.writer.append(refs, epoch, **named)
        assert not appended.was_persisted
        after = dict(self.now)
        for key, value in commands.items():
            if value is None:
                after.pop(key, None)
            else:
                after[key] = value
        self.states[epoch] = after
        return appended.snapshot

    def fold(self, bucket: int, epoch: int | None = None) -> Snapshot:
        """Put the state of a bucket into a base; runs stay for as long as history needs them."""
        snapshot = self.snapshot
        epoch = snapshot.latest if epoch is None else epoch
        rows = rows_as_of(self.store, snapshot, bucket, epoch=epoch)
        ref = write_base(self.store, snapshot, rows, bucket=bucket, epoch=epoch, clock=self.clock)
        return self.replace([ref], [snapshot.base(bucket)])

    def merge(self, bucket: int, count: int) -> Snapshot:
        """Make one run of the oldest so many of a bucket."""
        snapshot = self.snapshot
        runs = snapshot.runs(bucket)[:count]
        if len(runs) < 2:
            return snapshot
        part = replace(snapshot, manifest=replace(snapshot.manifest, files=runs))
        first, last = runs[0].first, runs[-1].last
        rows = pa.Table.from_batches(
            changes(self.store, part, bucket, after=max(first - 1, snapshot.since), through=last),
            snapshot.definition.diffs,
        )
        ref = write_run(self.store, snapshot, rows, bucket=bucket, clock=self.clock)
        return self.replace([ref], runs)

    def replace(self, new: Iterable[FileRef | None], old: Iterable[FileRef | None]) -> Snapshot:
        gone = {ref.name for ref in old if ref is not None}

        def make(snapshot: Snapshot) -> Any:
            files = [ref for ref in snapshot.files if ref.name not in gone]
            files += [ref for ref in new if ref is not None]
            files.sort(key=lambda ref: (ref.bucket, ref.kind == "run", ref.first))
            return replace(snapshot.manifest, files=tuple(files))

        return self.writer.change(make)

    def state(self, epoch: int | None = None, snapshot: Snapshot | None = None) -> dict[Any, Value]:
        snapshot = snapshot or self.snapshot
        found: dict[Any, Value] = {}
        for bucket in range(snapshot.buckets):
            rows = as_dict(rows_as_of(self.store, snapshot, bucket, epoch=epoch))
            assert not set(rows) & set(found)
            found.update(rows)
        return found

    def look(self, keys: Iterable[Any], snapshot: Snapshot | None = None) -> dict[Any, Value]:
        """Look up keys, bucket by bucket."""
        snapshot = snapshot or self.snapshot
        keys = list(keys)
        array = keys_of(snapshot.definition, keys)
        hashes = self.hashes(array)
        found: dict[Any, Value] = {}
        for bucket in range(snapshot.buckets):
            rows = np.flatnonzero(hashes % np.uint64(snapshot.buckets) == bucket)
            looked = State(self.store, snapshot, bucket).lookup(
                hashes[rows], array.take(pa.array(rows))
            )
            for row, place in zip(rows, looked.index, strict=True):
                if place >= 0:
                    got = as_dict([looked.rows.slice(place, 1).combine_chunks().to_batches()[0]])
                    assert list(got) == [keys[row]]
                    found.update(got)
        return found

    def check(self, lot: random.Random) -> None:
        """Compare everything that can be read with the model, keys in any order."""
        self.check_all(lot=lot)

    def check_all(
        self, snapshot: Snapshot | None = None, *, lot: random.Random | None = None
    ) -> None:
        """Compare everything that can be read with the model."""
        snapshot, lot = snapshot or self.snapshot, lot or random.Random(0)
        for epoch in range(snapshot.since, snapshot.upper):
            assert self.state(epoch, snapshot) == self.model(epoch), f"as of {epoch}"
        known = {key for state in self.states.values() for key in state}
        keys = [*known, *(lot.randrange(1 << 40) for _ in range(3))]
        lot.shuffle(keys)
        assert self.look(keys, snapshot) == self.model()
        self.check_changes(snapshot)

    def check_changes(self, snapshot: Snapshot) -> None:
        """Add changes up, from each epoch on, and compare with what they should lead to."""
        for after in range(snapshot.since, snapshot.upper):
            rows = [
                row
                for bucket in range(snapshot.buckets)
                for batch in changes(self.store, snapshot, bucket, after=after)
                for row in batch.to_pylist()
            ]
            rows.sort(key=lambda row: (row[TIME], row[DIFF]))
            state = self.model(after)
            for row in rows:
                assert after < row[TIME] <= snapshot.latest
                (key,) = as_dict([pa.RecordBatch.from_pylist([row], snapshot.definition.diffs)])
                if row[DIFF] == -1:
                    state.pop(key)
                else:
                    assert key not in state
                    state[key] = row[VALUE] if row["error"] is None else error(row["error"])
            assert state == self.model()
