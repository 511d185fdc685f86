"""A bucket read: its rows as of an epoch, and what changed between two.

Nothing is summed up and no value is compared. A key that was not touched between the base and the
epoch asked for is as the base has it. Of one that was, one row decides:

==================  ==========================================================================
epoch is            the row
==================  ==========================================================================
behind the base     its last up to the epoch: +1 is what the key has, -1 that it has nothing
before the base     its first behind the epoch: -1 is what the key had, +1 that it had nothing
==================  ==========================================================================

So folding does not depend on forgetting. Rows of a key come and go in turn, and the base has those
whose next row goes, or whose last one came; whatever contradicts that is damage. That is told of
one range of hashes after the other: in memory are its hashes and places, and of its values a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.casts import conform, conform_table
from quiver.errors import DamagedEntry, InputError
from quiver.ship.objects import Bucket
from quiver.upsert.persist.checking import Part, forget_pages
from quiver.upsert.persist.format import FileRef
from quiver.upsert.persist.opened import open_file
from quiver.upsert.persist.order import Bools, Places, expand, row_order, same_as_next, taken
from quiver.upsert.persist.ranges import RANGE_ROWS, ranges
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.rows.definition import BASE_COLUMNS, KEY
from quiver.upsert.rows.hashing import places_by_hash
from quiver.upsert.rows.keys import key_bytes

__all__ = ["READ_BYTES", "READ_ROWS", "changes", "merged_runs", "rows_as_of"]

READ_ROWS: Final = 1 << 16
READ_BYTES: Final = 64 << 20
"""At most so many rows come in one batch, of about so many bytes."""


def rows_as_of(
    store: Bucket, snapshot: Snapshot, bucket: int, *, epoch: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a bucket as of an epoch, by hash; None is the latest.

    Columns as ``Definition.state`` has them. Raises InputError for an epoch that is forgotten or to
    come, at once; DamageError, MissingError, and what the store raises, as files are read.
    """
    asked = snapshot.check_epoch(snapshot.latest if epoch is None else epoch)
    base = snapshot.base(bucket)
    return _as_of(store, snapshot, snapshot.runs(bucket), base=base, epoch=asked)


def changes(
    store: Bucket, snapshot: Snapshot, bucket: int, *, after: int, through: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Give the differences of a bucket with ``after`` < time <= ``through``, None for the latest.

    Columns as ``Definition.diffs`` has them; older runs come first, in a run rows are by hash.
    What came back is not left out: a key may have several rows. Raises as ``rows_as_of``.
    """
    first = snapshot.check_epoch(after)
    last = snapshot.check_epoch(snapshot.latest if through is None else through)
    if last < first:
        raise InputError(f"changes end at epoch {last:,}, before they begin at {first:,}")
    return _changes(store, snapshot, snapshot.runs(bucket), span=(first, last))


def merged_runs(store: Bucket, snapshot: Snapshot, runs: Sequence[FileRef]) -> Iterator[pa.Table]:
    """Give all differences of some runs of a bucket, one range of hashes after the other.

    In a table they are in the order of the runs. Raises as ``rows_as_of``.
    """
    schema = snapshot.definition.diffs
    parts = [part for ref in runs for part in open_file(store, snapshot, ref)]
    size = max((part.rows.nbytes // part.rows.num_rows + 1 for part in parts), default=1)
    for some in ranges(parts, rows_max=max(min(RANGE_ROWS, READ_BYTES // size), 1)):
        yield pa.concat_tables(
            [conform_table(part.rows, schema) for part in some if len(part.hashes)]
        )
        forget_pages(parts)


def _changes(
    store: Bucket, snapshot: Snapshot, runs: Sequence[FileRef], *, span: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    schema = snapshot.definition.diffs
    for part in _parts(store, snapshot, runs, span=span):
        whole = part.rows
        rows = _within(part, span)
        everything = len(rows) == whole.num_rows
        step = _step([_Rows(part, rows)])
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            cut: Any = whole.slice(start, step) if everything else taken(whole, some)
            yield conform(cut, schema)


def _parts(
    store: Bucket, snapshot: Snapshot, runs: Sequence[FileRef], *, span: tuple[int, int]
) -> Iterator[Part]:
    """Give the batches of the runs that may have a difference behind one epoch, up to another."""
    after, through = span
    for ref in runs:
        if ref.last > after and ref.first <= through:
            yield from open_file(store, snapshot, ref)


def _within(part: Part, span: tuple[int, int]) -> Places:
    times: Any = part.times
    return np.flatnonzero((times > np.uint64(span[0])) & (times <= np.uint64(span[1])))


def _as_of(
    store: Bucket,
    snapshot: Snapshot,
    runs: Sequence[FileRef],
    *,
    base: FileRef | None,
    epoch: int,
) -> Iterator[pa.RecordBatch]:
    folded = 0 if base is None else base.last
    forward = epoch >= folded
    span = (folded, epoch) if forward else (epoch, folded)
    every = list(_parts(store, snapshot, runs, span=span))
    count = len(every)
    every += open_file(store, snapshot, base) if base is not None else ()
    named = f"{snapshot.place}/{_named(base, runs)}" if every else ""
    for some in ranges(every, rows_max=RANGE_ROWS):
        parts, kept = (
            [part for part in of if len(part.hashes)] for of in (some[:count], some[count:])
        )
        chosen = _chosen(parts, kept, span, forward=forward, named=named)
        yield from _merged(chosen, snapshot.definition.state)
        forget_pages(every)


def _chosen(
    parts: Sequence[Part],
    kept: Sequence[Part],
    span: tuple[int, int],
    *,
    forward: bool,
    named: str,
) -> list[_Rows]:
    """Choose the rows as of an epoch among those of runs and of a base."""
    touched = _touched(parts, span)
    chosen = [_Rows(part, np.arange(part.rows.num_rows, dtype=np.int64)) for part in kept]
    if len(touched.rows):
        near = same_as_next(touched.hashes, np.arange(len(touched.rows)), touched.keys)
        held = _held(touched, near, forward=forward)
        met = [_met(part, touched) for part in kept]
        if _contradicts(touched, near, (held, met)):
            raise DamagedEntry(
                "differences of a collection contradict each other or what they were made to",
                path=named,
                expected="of each key in turn a row that goes and one that comes",
                hint="a file is missing in the manifest, or counted twice",
            )
        chosen = [
            _Rows(part, np.delete(np.arange(part.rows.num_rows, dtype=np.int64), rows))
            for part, (rows, _) in zip(kept, met, strict=True)
        ]
        chosen += _by_part(parts, touched, _deciding(touched, near, forward=forward))
    return chosen


def _named(base: FileRef | None, runs: Sequence[FileRef]) -> str:
    return base.name if base is not None else runs[0].name


class _Rows(NamedTuple):
    """Rows of one batch of a file, ascending."""

    part: Part
    rows: Places


class _Touched(NamedTuple):
    """All rows of some epochs: which batch they are in and where, and what decides about them."""

    parts: Places
    rows: Places
    hashes: Any
    times: Any
    diffs: Any
    keys: Any


def _touched(parts: Sequence[Part], span: tuple[int, int]) -> _Touched:
    """Gather the rows of runs that lie in a span of epochs, in the order of files."""
    found = [(number, part, _within(part, span)) for number, part in enumerate(parts)]
    found = [each for each in found if len(each[2])]
    if not found:
        nothing = np.empty(0, np.int64)
        return _Touched(nothing, nothing, nothing, nothing, nothing, None)
    rows = np.concatenate([rows for _, _, rows in found])
    numbers = np.concatenate([np.full(len(rows), number) for number, _, rows in found])
    hashes = np.concatenate([part.hashes[rows] for _, part, rows in found])
    times = np.concatenate([_of(part.times, rows) for _, part, rows in found])
    diffs = np.concatenate([_of(part.diffs, rows) for _, part, rows in found])
    keys: Any = pa.concat_arrays(
        [key_bytes(taken(part.rows.column(KEY), rows)) for _, part, rows in found]
    )
    order = row_order(hashes, keys=lambda some: taken(keys, some), times=times, diffs=diffs)
    keys = taken(keys, order)
    return _Touched(numbers[order], rows[order], hashes[order], times[order], diffs[order], keys)


def _of(values: Any, rows: Places) -> Any:  # noqa: ANN401
    return values[rows]


def _edge(touched: _Touched, near: Bools, *, last: bool) -> Bools:
    """Mark the last row of each key, or the first."""
    edge = np.ones(len(touched.rows), np.bool_)
    if last:
        edge[:-1] = ~near
    else:
        edge[1:] = ~near
    return edge


def _deciding(touched: _Touched, near: Bools, *, forward: bool) -> Places:
    """Choose the rows that say what their key has; keys that have nothing have no row."""
    edge = _edge(touched, near, last=forward)
    return np.flatnonzero(edge & (touched.diffs == (1 if forward else -1)))


def _held(touched: _Touched, near: Bools, *, forward: bool) -> Places:
    """Choose for each key that the base must have a row that says so."""
    edge = _edge(touched, near, last=not forward)
    return np.flatnonzero(edge & (touched.diffs == (-1 if forward else 1)))


def _met(part: Part, touched: _Touched) -> tuple[Places, Any]:
    """Give the rows of a base whose keys were touched, and these keys."""
    anew = np.ones(len(touched.hashes), np.bool_)
    anew[1:] = touched.hashes[1:] != touched.hashes[:-1]
    distinct = touched.hashes[anew]
    starts = np.searchsorted(part.hashes, distinct, "left")
    ends = np.searchsorted(part.hashes, distinct, "right")
    rows = expand(starts, ends)
    keys: Any = key_bytes(taken(part.rows.column(KEY), rows))
    is_met: Any = pc.is_in(keys, touched.keys)
    return rows[is_met.to_numpy(zero_copy_only=False)], keys.filter(is_met)


def _contradicts(
    touched: _Touched, near: Bools, bases: tuple[Places, Sequence[tuple[Places, Any]]]
) -> bool:
    """Whether a key comes twice without going, or the base has what it must not, or lacks it."""
    if np.any(near & (touched.diffs[1:] == touched.diffs[:-1])):
        return True
    held, met = bases
    if sum(len(rows) for rows, _ in met) != len(held):
        return True
    wanted = taken(touched.keys, held)
    return not all(pc.all(pc.is_in(keys, wanted)).as_py() is not False for _, keys in met)


def _by_part(parts: Sequence[Part], touched: _Touched, deciding: Places) -> list[_Rows]:
    numbers, rows = touched.parts[deciding], touched.rows[deciding]
    return [_Rows(parts[number], np.sort(rows[numbers == number])) for number in np.unique(numbers)]


def _merged(chosen: Sequence[_Rows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give rows of many batches in the order of their hashes, some at a time."""
    chosen = [each for each in chosen if len(each.rows)]
    if len(chosen) == 1:
        yield from _sliced(chosen[0], schema)
        return
    if not chosen:
        return
    step = _step(chosen)
    hashes = np.concatenate([each.part.hashes[each.rows] for each in chosen])
    owners = np.concatenate([np.full(len(e.rows), n, np.int32) for n, e in enumerate(chosen)])
    rows = np.concatenate([each.rows for each in chosen])
    order = places_by_hash(hashes)
    columns = list(BASE_COLUMNS)
    for start in range(0, len(order), step):
        some = order[start : start + step]
        pieces, places = [], []
        for owner in np.unique(owners[some]):
            at = np.flatnonzero(owners[some] == owner)
            whole = chosen[int(owner)].part.rows.select(columns)
            pieces.append(conform(taken(whole, rows[some[at]]), schema))
            places.append(at)
        back = np.argsort(np.concatenate(places), kind="stable")
        joined = pa.Table.from_batches(pieces, schema).combine_chunks()
        yield from taken(joined, back).combine_chunks().to_batches()


def _sliced(only: _Rows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give rows of one batch, without a copy where all of them are wanted."""
    whole = only.part.rows.select(list(BASE_COLUMNS))
    everything = len(only.rows) == whole.num_rows
    step = _step([only])
    for start in range(0, len(only.rows), step):
        some = only.rows[start : start + step]
        cut = whole.slice(start, step) if everything else taken(whole, some)
        yield conform(cut, schema)


def _step(chosen: Sequence[_Rows]) -> int:
    """Say how many rows make a batch that is not too large."""
    size = max(each.part.rows.nbytes // each.part.rows.num_rows + 1 for each in chosen)
    return max(min(READ_ROWS, READ_BYTES // size), 1)
