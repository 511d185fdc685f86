"""Data files written: rows put in order, cut into batches, named by what nobody else has.

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
from quiver.ipc import encode_file
from quiver.ship.batch import mint_ulid
from quiver.ship.objects import Bucket
from quiver.upsert.persist.format import FileRef, Kind
from quiver.upsert.persist.gathering import Gathering
from quiver.upsert.persist.order import Places, row_order
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.rows.definition import DIFF, ERROR, HASH, TIME

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "write_base", "write_run"]

BATCH_ROWS: Final = 1 << 20
BATCH_BYTES: Final = 256 << 20
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
    snapshot.base(bucket)
    times, diff = _numbers(table, TIME), _numbers(table, DIFF)
    if not np.all(np.abs(diff) == 1):
        raise InputError("a difference is neither +1 nor -1")
    ordered = list(_in_order(table, bucket, snapshot.buckets, times=times, diffs=diff))
    first, last = int(times.min()), int(times.max())
    if first < 1:
        raise InputError("a difference is of epoch 0", hint="the first one is 1")
    data = encode_file(table.schema, ordered)
    return _put(store, data, ("run", bucket), table=table, epochs=(first, last), clock=clock)


def write_base(
    store: Bucket,
    snapshot: Snapshot,
    rows: Iterable[pa.RecordBatch],
    *,
    bucket: int,
    epoch: int,
    clock: Clock | None = None,
) -> FileRef:
    """Write the state of one bucket as of an epoch, one row for each key, in any order.

    ``rows_as_of`` gives such rows. Nothing is folded until a manifest names it.
    """
    schema = snapshot.definition.state
    table = _conformed(pa.Table.from_batches(rows, schema), schema)
    snapshot.base(bucket)
    data = encode_file(schema, list(_in_order(table, bucket, snapshot.buckets)))
    return _put(store, data, ("base", bucket), table=table, epochs=(epoch, epoch), clock=clock)


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
    stray = np.flatnonzero(hashes % np.uint64(buckets) != bucket)
    if len(stray):
        raise InputError(
            f"row {int(stray[0]):,} is of bucket {int(hashes[stray[0]]) % buckets}, not {bucket}"
        )
    rows = Gathering(table)
    order = row_order(hashes, keys=rows.keys, times=times, diffs=diffs)
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


def _put(
    store: Bucket,
    data: pa.Buffer,
    what: tuple[Kind, int],
    *,
    table: pa.Table,
    epochs: tuple[int, int],
    clock: Clock | None,
) -> FileRef:
    kind, bucket = what
    name = f"{kind}s/{mint_ulid((clock or SystemClock()).wall_ns(), token_bytes)}.arrow"
    store.write(name, data)
    errors = table.num_rows - table.column(ERROR).null_count
    return FileRef(kind, bucket, name, table.num_rows, errors, data.size, crc32c(data), *epochs)
