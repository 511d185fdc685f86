"""A collection beside a dictionary that says what it has to hold as of each epoch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from quiver.clock import Clock
from quiver.upsert.persist import (
    Collection,
    Snapshot,
    State,
    Writer,
    changes,
    rows_as_of,
    write_run,
)
from quiver.upsert.rows import DIFF, ERROR, HASH, KEY, TIME, VALUE, Definition
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes

__all__ = ["DEFINITION", "Modelled", "diffs_of", "keys_of", "read_state"]

DEFINITION = Definition(
    pa.schema([("id", pa.int64())]), pa.schema([("n", pa.int64()), ("text", pa.string())]), 2
)

State_ = dict[int, int]
Difference = tuple[int, int, int, int]
"""Epoch, key, value, +1 or -1."""


class Modelled:
    """Appends random changes, and knows the state as of every epoch."""

    def __init__(self, writer: Writer, seed: int = 1, *, keys: int = 40) -> None:
        self.writer = writer
        self.states: list[State_] = [{}]
        self.differences: list[Difference] = []
        self._rng = random.Random(seed)
        self._keys = keys

    def at(self, writer: Writer) -> Modelled:
        """Give the same for what another writer found."""
        found = Modelled(writer, keys=self._keys)
        found.states, found.differences = self.states, self.differences
        return found

    def append(self, count: int = 8) -> int:
        """Change so many keys at most in one epoch; gives it."""
        rng = self._rng
        epoch = len(self.states)
        before, after = self.states[-1], dict(self.states[-1])
        for key in sorted({rng.randrange(self._keys) for _ in range(count)}):
            if key in after and rng.random() < 0.3:
                del after[key]
            else:
                after[key] = epoch * 1000 + rng.randrange(1000)
        found = [
            (epoch, key, state[key], diff)
            for key in sorted(before.keys() | after.keys())
            for state, diff in ((before, -1), (after, 1))
            if key in state and before.get(key) != after.get(key)
        ]
        self._write(found, epoch)
        self.states.append(after)
        self.differences += found
        return epoch

    def _write(self, found: list[Difference], epoch: int) -> None:
        snapshot = self.writer.snapshot()
        table = diffs_of(found, snapshot.definition)
        refs = []
        for bucket in range(snapshot.buckets):
            at = [
                i for i, h in enumerate(table[HASH].to_pylist()) if h % snapshot.buckets == bucket
            ]
            some = table.take(pa.array(at, pa.int64()))
            refs.append(write_run(self.writer.store, snapshot, some, bucket=bucket))
        self.writer.append(refs, epoch)

    def check(self, snapshot: Snapshot, *, step: int = 1) -> None:
        """See that a snapshot reads as the dictionary says, in every way, at each epoch or some."""
        store = self.writer.store
        for epoch in {*range(snapshot.since, snapshot.upper, step), snapshot.latest}:
            assert read_state(store, snapshot, epoch) == self.states[epoch], epoch
        after = snapshot.since
        wanted = Counter(each for each in self.differences if after < each[0] < snapshot.upper)
        assert Counter(read_changes(store, snapshot, after)) == wanted
        assert looked_up(store, snapshot, self._keys) == self.states[snapshot.latest]


def diffs_of(found: list[Difference], definition: Definition) -> pa.Table:
    """Write differences as rows of a run."""
    keys = keys_of([key for _, key, _, _ in found])
    values = [{"n": value, "text": f"v{value}"} for _, _, value, _ in found]
    schema = definition.diffs
    columns: dict[str, Any] = {
        HASH: pa.array(key_hashes(key_bytes(keys))),
        KEY: keys,
        VALUE: pa.array(values, schema.field(VALUE).type),
        ERROR: pa.nulls(len(found), pa.string()),
        TIME: pa.array([epoch for epoch, *_ in found], pa.uint64()),
        DIFF: pa.array([diff for *_, diff in found], pa.int64()),
    }
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def keys_of(numbers: list[int]) -> pa.StructArray:
    """Give keys as they are asked for."""
    return pa.array([{"id": number} for number in numbers], pa.struct([("id", pa.int64())]))


def read_state(store: Any, snapshot: Snapshot, epoch: int) -> State_:
    """Read all buckets as of an epoch; no key is there twice."""
    rows = [
        row
        for bucket in range(snapshot.buckets)
        for batch in rows_as_of(store, snapshot, bucket, epoch=epoch)
        for row in batch.to_pylist()
    ]
    found = {row[KEY]["id"]: row[VALUE]["n"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def read_changes(store: Any, snapshot: Snapshot, after: int) -> Iterator[Difference]:
    """Read all that changed behind an epoch."""
    for bucket in range(snapshot.buckets):
        for batch in changes(store, snapshot, bucket, after=after):
            for row in batch.to_pylist():
                yield row[TIME], row[KEY]["id"], row[VALUE]["n"], row[DIFF]


def looked_up(store: Any, snapshot: Snapshot, keys: int) -> State_:
    """Look all keys up."""
    asked = keys_of(list(range(keys)))
    hashes = key_hashes(key_bytes(asked))
    found: State_ = {}
    for bucket in range(snapshot.buckets):
        own = [i for i in range(keys) if int(hashes[i]) % snapshot.buckets == bucket]
        looked = State(store, snapshot, bucket).lookup(hashes[own], keys_of(own))
        rows = looked.rows.to_pylist()
        found |= {
            key: rows[at][VALUE]["n"] for key, at in zip(own, looked.index, strict=True) if at >= 0
        }
    return found


def begun(store: Any, seed: int = 1, *, clock: Clock | None = None) -> Modelled:
    """Make a collection in a store, and open it for writing."""
    return Modelled(Collection.open(store, DEFINITION, create=True, clock=clock).writer(), seed)
