"""Keys and values of any type that a collection takes come back as they went in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from persist_kit import Rig
from pyarrow import types as kinds

from quiver.casts import conform
from quiver.casts.picking import rows_at
from quiver.ipc import child_types
from quiver.testing.drawn_types import types
from quiver.testing.drawn_values import arrays
from quiver.upsert.persist import (
    WholeState,
    checking,
    close_all,
    reading,
    rows_as_of,
    write_run,
    writing,
)
from quiver.upsert.persist.ranges import ranges
from quiver.upsert.rows import (
    KEY,
    VALUE,
    Definition,
    exact_bytes,
    key_bytes,
    key_hashes,
    plain_schema,
)
from quiver.upsert.tending import Limits, tend


@pytest.fixture(autouse=True, scope="module")
def _any_hash() -> Iterator[None]:
    """Keys are hashed otherwise here, so that many share a hash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "HASHES_SEEN", 0)
        yield


def is_taken(kind: Any) -> bool:
    """Whether a collection has rows of a type: it has none of unions."""
    return not kinds.is_union(kind) and all(map(is_taken, child_types(kind)))


def has_names_once(kind: Any) -> bool:
    children = [kind.field(n) for n in range(kind.num_fields)] if kinds.is_struct(kind) else []
    names = [child.name for child in children]
    return len(set(names)) == len(names) and all(map(has_names_once, child_types(kind)))


def as_kept(kind: Any) -> Any:
    return plain_schema(pa.schema([("a", kind)])).field("a").type


KINDS = types().filter(is_taken).filter(has_names_once).map(as_kept)


def no_more_than(count: int) -> Any:
    """Hash as nobody should: with so many numbers, so that keys share them."""
    return lambda names: np.array([sum(name) % count for name in names.to_pylist()], np.uint64)


def diffs(
    definition: Definition, rows: pa.RecordBatch, epoch: int, *, diff: int, hashes: Any = key_hashes
) -> pa.Table:
    """Write rows that come or go; of rows with one key the first."""
    keys, values = (
        pa.StructArray.from_arrays(
            [rows.column(name)], fields=list(definition.state.field(column).type)
        )
        for name, column in (("k", KEY), ("v", VALUE))
    )
    names = key_bytes(keys).to_pylist()
    first = pa.array([n for n, name in enumerate(names) if names.index(name) == n], pa.int64())
    keys, values = rows_at(keys, first), rows_at(values, first)
    count = len(first)
    return pa.table(
        [
            pa.array(hashes(key_bytes(keys))),
            keys,
            values,
            pa.nulls(count, pa.string()),
            pa.array([epoch] * count, pa.uint64()),
            pa.array([diff] * count, pa.int64()),
        ],
        schema=definition.diffs,
    )


def apply(rig: Rig, table: pa.Table) -> None:
    snapshot = rig.snapshot
    of = table["hash"].to_numpy() % np.uint64(snapshot.buckets)
    runs = [
        write_run(rig.store, snapshot, table.filter(pa.array(of == bucket)), bucket=bucket)
        for bucket in range(snapshot.buckets)
    ]
    rig.writer.append(runs, snapshot.upper)


def rows_of(batches: list[pa.RecordBatch]) -> dict[bytes, bytes]:
    """Give the bytes of values by those of keys."""
    found = {}
    for batch in batches:
        keys, values = key_bytes(batch.column(KEY)), exact_bytes(batch.column(VALUE))
        found |= dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_was_written_is_read_and_looked_up(data: st.DataObject) -> None:
    kind, other, count = data.draw(KINDS), data.draw(KINDS), data.draw(st.integers(1, 8))
    schema = pa.schema([("k", kind), ("v", other)])
    given_rows = pa.record_batch(
        [data.draw(arrays(kind, count)), data.draw(arrays(other, count))], schema=schema
    )
    key, value = (pa.schema([schema.field(name)]) for name in ("k", "v"))
    rig = Rig(definition=Definition(key, value, 2))
    definition = rig.snapshot.definition
    plain = pa.schema([*definition.key, *definition.value])
    table = diffs(definition, conform(given_rows, plain), 1, diff=1)
    apply(rig, table)
    rows = table.combine_chunks().to_batches()
    gone = rows[0].num_rows // 2
    apply(rig, diffs(definition, conform(given_rows, plain), 2, diff=-1).slice(0, gone))
    rig.fold(0, data.draw(st.integers(0, 2)))
    snapshot = rig.snapshot
    for epoch, wanted in ((1, rows_of(rows)), (2, rows_of([rows[0].slice(gone)]))):
        read = [b for n in (0, 1) for b in rows_as_of(rig.store, snapshot, n, epoch=epoch)]
        assert rows_of(read) == wanted
    keys: Any = rows[0].column(KEY)
    looked = WholeState(rig.store, snapshot).lookup(rows[0].column("hash").to_numpy(), keys)
    assert [place >= 0 for place in looked.index] == [n >= gone for n in range(rows[0].num_rows)]
    taken = looked.rows.take(pa.array(looked.index[gone:])).combine_chunks().to_batches()
    assert rows_of(taken) == rows_of([rows[0].slice(gone)])


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Make ranges and batches so small that a few rows are many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "BATCH_BYTES", 64)
        patch.setattr(reading, "READ_ROWS", 2)
        patch.setattr(reading, "ranges", lambda parts, rows_max=4: ranges(parts, rows_max=4))
        yield


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_folded_and_merged_in_pieces_is_the_same(small, data: st.DataObject) -> None:
    kind, other, count = data.draw(KINDS), data.draw(KINDS), data.draw(st.integers(1, 20))
    hashes = data.draw(st.sampled_from([key_hashes, no_more_than(3)]))
    schema = pa.schema([("k", kind), ("v", other)])
    columns = [data.draw(arrays(kind, count)), data.draw(arrays(other, count))]
    given_rows = pa.record_batch(columns, schema=schema)
    key, value = (pa.schema([schema.field(name)]) for name in ("k", "v"))
    rig = Rig(definition=Definition(key, value, 1))
    definition = rig.snapshot.definition
    plain = conform(given_rows, pa.schema([*definition.key, *definition.value]))
    wanted: list[dict[bytes, bytes]] = [{}]
    for epoch in range(1, 5):
        sign = 1 if epoch % 2 else -1
        table = diffs(definition, plain, epoch, diff=sign, hashes=hashes)
        table = table if sign > 0 else table.slice(0, table.num_rows * epoch // 5)
        if epoch == 3:  # What went comes again.
            table = table.slice(0, table.num_rows * 2 // 5)
        rows = rows_of(table.combine_chunks().to_batches())
        wanted.append(
            wanted[-1] | rows
            if sign > 0
            else {k: v for k, v in wanted[-1].items() if k not in rows}
        )
        apply(rig, table)
    tend(rig.writer, Limits(live_runs_max=1, past_runs_max=1, fold_rows_min=1), clock=rig.clock)
    close_all()
    for epoch in range(rig.snapshot.since, 5):
        found = list(rows_as_of(rig.store, rig.snapshot, 0, epoch=epoch))
        assert rows_of(found) == wanted[epoch]
        assert sum(batch.num_rows for batch in found) == len(wanted[epoch])


def test_matrices_that_are_folded_and_merged_stay_with_their_keys(small, monkeypatch) -> None:
    """Arrow picks other rows of fixed-size lists in fixed-size lists (``casts.picking``)."""
    monkeypatch.setattr(writing, "BATCH_BYTES", 1 << 20)  # Ranges are parts of batches then.
    kind, count = pa.list_(pa.list_(pa.int32(), 2), 3), 40
    inner = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6 * count, dtype=np.int32)), 2)
    matrices = pa.FixedSizeListArray.from_arrays(inner, 3)
    schema = pa.schema([("k", pa.int32()), ("v", kind)])
    rows = pa.record_batch([pa.array(np.arange(count, dtype=np.int32)), matrices], schema=schema)
    key, value = (pa.schema([schema.field(name)]) for name in ("k", "v"))
    rig = Rig(definition=Definition(key, value, 1))
    definition = rig.snapshot.definition
    plain = conform(rows, pa.schema([*definition.key, *definition.value]))
    table = diffs(definition, plain, 1, diff=1)
    wanted = rows_of(table.combine_chunks().to_batches())
    for epoch in (1, 2):
        some = rows_at(plain, np.arange(epoch % 2, count, 2))
        apply(rig, diffs(definition, some, epoch, diff=1))
    tend(rig.writer, Limits(live_runs_max=1, past_runs_max=1, fold_rows_min=1), clock=rig.clock)
    close_all()
    assert rows_of(list(rows_as_of(rig.store, rig.snapshot, 0, epoch=2))) == wanted
