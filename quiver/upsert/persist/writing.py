"""Data files written: rows put in order, cut into batches, named by what nobody else has.

A batch is encoded when those before are written, so that of a file no more is in memory than one.
A file belongs to nobody until a manifest names it. Tasks that are done twice therefore leave
garbage and do no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from secrets import token_bytes
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from quiver.casts import conform_table
from quiver.clock import Clock, SystemClock
from quiver.errors import InputError
from quiver.ipc_build import Messages, Piece, encode_messages, file_pieces
from quiver.ship.batch import mint_ulid
from quiver.ship.objects import Bucket
from quiver.upsert.persist.format import FileRef, Kind
from quiver.upsert.persist.gathering import Gathering, by_hash
from quiver.upsert.persist.order import Places, row_order, taken
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.rows.definition import DIFF, ERROR, HASH, TIME
from quiver.upsert.rows.hashing import rest_of

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "write_base", "write_merged", "write_run"]

BATCH_ROWS: Final = 1 << 20
BATCH_BYTES: Final = 16 << 20
"""About how many bytes and at most how many rows a record batch in a file has."""


def write_run(
    store: Bucket,
    snapshot: Snapshot,
    diffs: pa.Table | pa.RecordBatch,
    *,
    bucket: int,
    clock: Clock | None = None,
) -> FileRef | None:
    """Write the differences of one bucket, in any order; None if there are none.

    When this returns they are durable, and in the collection once an append names them. At one time
    the row that goes is what a key had, and the one that comes what it has from then on. Raises
    InputError for rows of another bucket, for a key that comes or goes twice in turn, and for
    values that the definition of the snapshot does not hold.
    """
    table = _conformed(diffs, snapshot.definition.diffs)
    if not table.num_rows:
        return None
    return _Writing(snapshot, bucket, table.schema).put(store, [table], clock)


def write_merged(
    store: Bucket,
    snapshot: Snapshot,
    tables: Iterable[pa.Table],
    *,
    bucket: int,
    clock: Clock | None = None,
) -> FileRef:
    """Write differences as ``write_run``, of a bucket that has some: ``merged_runs`` gives them.

    Each table has greater hashes than those before, and is in memory alone.
    """
    schema = snapshot.definition.diffs
    given = (_conformed(table, schema) for table in tables)
    return _Writing(snapshot, bucket, schema).put(store, given, clock)


def write_base(
    store: Bucket,
    snapshot: Snapshot,
    rows: Iterable[pa.RecordBatch],
    *,
    bucket: int,
    epoch: int,
    clock: Clock | None = None,
) -> FileRef:
    """Write the state of one bucket as of an epoch, one row for each key.

    ``rows_as_of`` gives such rows: no batch has a lesser hash than the one before; in a batch they
    come in any order. Nothing is folded until a manifest names it.
    """
    schema = snapshot.definition.state
    writing = _Writing(snapshot, bucket, schema, epoch=epoch)
    return writing.put(store, _tables(rows, schema), clock)


def _tables(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Put batches together until they are large; none has a hash of another one."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        waiting.append(batch)
        size += batch.nbytes
        if size < BATCH_BYTES:
            continue
        table = by_hash(_conformed(pa.Table.from_batches(waiting, schema), schema))
        hashes = _numbers(table, HASH)
        cut = int(np.searchsorted(hashes, hashes[-1]))  # The next batch may have this one too.
        waiting = taken(table, np.arange(cut, len(hashes))).to_batches()
        size = sum(each.nbytes for each in waiting)
        if cut:
            yield table.slice(0, cut)
    if waiting:
        yield _conformed(pa.Table.from_batches(waiting, schema), schema)


class _Writing:
    """One file on its way to the store, and what its reference will say of it."""

    def __init__(
        self, snapshot: Snapshot, bucket: int, schema: pa.Schema, *, epoch: int | None = None
    ) -> None:
        """Begin a base as of an epoch, or a run."""
        snapshot.base(bucket)
        self._bucket, self._buckets, self._schema = bucket, snapshot.buckets, schema
        self._kind: Kind = "run" if epoch is None else "base"
        self._epochs = [] if epoch is None else [epoch]
        self._rows = self._errors = self._byte_count = self._crc = 0
        self._above = -1

    def put(self, store: Bucket, tables: Iterable[pa.Table], clock: Clock | None) -> FileRef:
        """Write tables of ascending hashes."""
        minted = mint_ulid((clock or SystemClock()).wall_ns(), token_bytes)
        name = f"{self._kind}s/{minted}.arrow"
        store.write(name, self._pieces(tables))
        counts = self._rows, self._errors, self._byte_count, self._crc
        epochs = min(self._epochs), max(self._epochs)
        return FileRef(self._kind, self._bucket, name, *counts, *epochs)

    def _pieces(self, tables: Iterable[pa.Table]) -> Iterator[Piece]:
        for piece in file_pieces(self._schema, self._messages(tables)):
            self._byte_count += len(piece)
            self._crc = crc32c(piece, self._crc)
            yield piece

    def _messages(self, tables: Iterable[pa.Table]) -> Iterator[Messages]:
        for table in tables:
            self._rows += table.num_rows
            self._errors += table.num_rows - table.column(ERROR).null_count
            times, diffs = self._differences(table)
            for batch in _in_order(table, self._bucket, self._buckets, times=times, diffs=diffs):
                yield encode_messages([batch], compression="none", body_bytes=batch.nbytes)
            self._see_above(_numbers(table, HASH))

    def _differences(self, table: pa.Table) -> tuple[Any, Any]:
        """Look at times and diffs of a run."""
        if self._kind == "base":
            return None, None
        times, diffs = _numbers(table, TIME), _numbers(table, DIFF)
        if not np.all(np.abs(diffs) == 1):
            raise InputError("a difference is neither +1 nor -1")
        self._epochs += [int(times.min()), int(times.max())]
        if min(self._epochs) < 1:
            raise InputError("a difference is of epoch 0", hint="the first one is 1")
        return times, diffs

    def _see_above(self, hashes: Any) -> None:  # noqa: ANN401
        if not len(hashes):
            return
        if int(hashes.min()) <= self._above:
            raise InputError("rows of a file do not come by hash", hint="sort them first")
        self._above = int(hashes.max())


def _conformed(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Bring rows under the schema of a file."""
    missing = next((name for name in schema.names if name not in rows.schema.names), None)
    if missing is not None:
        raise InputError(f"rows of a collection lack the column {missing!r}")
    return conform_table(rows, schema)


def _numbers(table: pa.Table, name: str) -> Any:  # noqa: ANN401
    return table.column(name).to_numpy()


def _in_order(
    table: pa.Table,
    bucket: int,
    buckets: int,
    *,
    times: Any = None,  # noqa: ANN401
    diffs: Any = None,  # noqa: ANN401
) -> Iterator[pa.RecordBatch]:
    """Give the rows in the order of a file, a batch at a time; raises InputError."""
    hashes = _numbers(table, HASH)
    stray = np.flatnonzero(rest_of(hashes, buckets) != bucket)
    if len(stray):
        raise InputError(
            f"row {int(stray[0]):,} is of bucket {int(hashes[stray[0]]) % buckets}, not {bucket}"
        )
    rows = Gathering(table)
    order = row_order(hashes, keys=rows.keys, alike=rows.alike, times=times, diffs=diffs)
    _refuse_repeats(order, hashes, rows.keys, diffs=diffs)
    size = max(table.nbytes // max(table.num_rows, 1), 1)
    step = max(min(BATCH_ROWS, BATCH_BYTES // size), 1)
    for start in range(0, len(order), step):
        yield from rows.take(order[start : start + step])


def _refuse_repeats(
    order: Places,
    hashes: Any,  # noqa: ANN401
    keys_at: Any,  # noqa: ANN401
    *,
    diffs: Any,  # noqa: ANN401
) -> None:
    """Refuse what no state can be told from: a key with two rows, or that comes twice in turn."""
    ordered = hashes[order]
    near = ordered[1:] == ordered[:-1]
    if diffs is not None:
        near &= diffs[order[1:]] == diffs[order[:-1]]
    pairs = np.flatnonzero(near)
    if not len(pairs):
        return
    equal = pc.equal(keys_at(order[pairs]), keys_at(order[pairs + 1]))
    found = equal.index(pa.scalar(value=True)).as_py()
    if found >= 0:
        rows = sorted(int(row) for row in order[pairs[found] : pairs[found] + 2])
        raise InputError(
            f"rows {rows[0]:,} and {rows[1]:,} are of one key"
            + ("" if diffs is None else ", and of one diff in turn")
        )
