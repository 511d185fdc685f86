"""What is found right about a data file before anything of it is believed.

Its size and checksum are those of the manifest and Arrow has validated all of it; here are columns
and rows. What a look-up then does without asking again: rows are in order, those of one key lie
together by time, and no key has two rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.disk import let_go
from quiver.errors import DamagedEntry, InputError
from quiver.promote import union_schema
from quiver.schemas import same_schema, same_type
from quiver.upsert.persist.format import FileRef
from quiver.upsert.persist.order import Hashes, taken
from quiver.upsert.rows import (
    DIFF,
    ERROR,
    HASH,
    KEY,
    TIME,
    VALUE,
    Definition,
    key_bytes,
    same_keys,
)
from quiver.upsert.rows.hashing import key_hashes, rest_of

__all__ = ["Part", "check_columns", "check_rows", "forget_pages", "part_of"]

HASHES_SEEN: Final = 64
"""In so many rows of a batch the hash is held against the key."""


@dataclass(frozen=True, slots=True)
class Part:
    """One record batch of a file, with what is looked at in all of its rows."""

    rows: pa.RecordBatch
    hashes: Hashes
    times: npt.NDArray[np.uint64] | None
    """None in a base."""
    diffs: npt.NDArray[np.int64] | None
    mapped: memoryview | None = None
    """The whole map that it lies in, if that is large."""


def forget_pages(parts: Iterable[Part]) -> None:
    """Have what was read of large maps no longer be memory of this process."""
    maps = {id(part.mapped): part.mapped for part in parts if part.mapped is not None}
    for mapped in maps.values():
        let_go(mapped)


def part_of(batch: pa.RecordBatch, mapped: memoryview | None = None) -> Part:
    """View the columns of a batch whose columns were checked; raises DamagedEntry for nulls."""

    def numbers(name: str) -> Any:  # noqa: ANN401
        column: Any = batch.column(name)
        if column.null_count:
            raise DamagedEntry(f"the column {name} of a file has nulls")
        return column.to_numpy()

    if batch.column(KEY).null_count:
        raise DamagedEntry(f"the column {KEY} of a file has nulls")
    is_run = TIME in batch.schema.names
    times, diffs = (numbers(TIME), numbers(DIFF)) if is_run else (None, None)
    return Part(batch, numbers(HASH), times, diffs, mapped)


def check_columns(schema: pa.Schema, definition: Definition, ref: FileRef) -> None:
    """See that a file has our columns, the key of the collection and a value that fits into its."""
    wanted = definition.diffs if ref.kind == "run" else definition.state
    if schema.names != wanted.names:
        raise DamagedEntry("a file has other columns", expected=wanted.names, found=schema.names)
    for name in wanted.names:
        kind, found = wanted.field(name).type, schema.field(name).type
        if not (_fits(found, definition.value) if name == VALUE else same_type(found, kind)):
            raise DamagedEntry(
                f"the column {name} of a file is of another type", expected=kind, found=found
            )


def _fits(kind: Any, value: pa.Schema) -> bool:  # noqa: ANN401
    """Whether rows of a type can be read under the schema of the value."""
    if not pa.types.is_struct(kind):
        return False
    try:
        both = union_schema([value, pa.schema(list(kind))])
    except InputError:
        return False
    return same_schema(both, value)


def check_rows(parts: Sequence[Part], buckets: int, ref: FileRef) -> None:
    """See that rows are as many as they should be, of one bucket and of its epochs, in order."""
    for what, expected, found in (
        ("rows", ref.rows, sum(part.rows.num_rows for part in parts)),
        ("errors", ref.errors, sum(_errors(part) for part in parts)),
    ):
        if found != expected:
            raise DamagedEntry(
                f"a file has another number of {what}", expected=expected, found=found
            )
    for part in parts:
        if not len(part.hashes):
            raise DamagedEntry("a batch of a file has no rows")
        if np.any(rest_of(part.hashes, buckets) != ref.bucket):
            raise DamagedEntry("a file has rows of another bucket", expected=ref.bucket)
        _check_epochs(part, ref)
        _check_order(part)
        _check_hashes(part)
    for one, other in pairwise(parts):
        _check_order(_seam(one, other))


def _errors(part: Part) -> int:
    return part.rows.num_rows - part.rows.column(ERROR).null_count


def _check_epochs(part: Part, ref: FileRef) -> None:
    if part.times is None or part.diffs is None:
        return
    first, last = int(part.times.min()), int(part.times.max())
    if first < ref.first or last > ref.last:
        raise DamagedEntry(
            "a file has rows of other epochs",
            expected=f"{ref.first} to {ref.last}",
            found=f"{first} to {last}",
        )
    if np.any(np.abs(part.diffs) != 1):
        raise DamagedEntry("a difference of a file is neither +1 nor -1")


def _check_hashes(part: Part) -> None:
    """See in some rows that the hash is that of the key: who wrote the file hashed as we do.

    A byte that changed since the checksum tells; what is left is a writer that hashes otherwise,
    and that shows in any row.
    """
    last = len(part.hashes) - 1
    rows = np.unique(np.linspace(0, last, min(HASHES_SEEN, last + 1)).astype(np.int64))
    found = key_hashes(key_bytes(taken(part.rows.column(KEY), rows)))
    wrong = rows[found != part.hashes[rows]]
    if len(wrong):
        raise DamagedEntry(
            "the hash of a row of a file is not that of its key", found=f"row {wrong[0]:,}"
        )


def _check_order(part: Part) -> None:
    """See that rows are by hash, key, time and diff, and that none is there twice."""
    hashes = part.hashes
    if np.any(hashes[1:] < hashes[:-1]):
        raise DamagedEntry("the rows of a file are not in order")
    at = np.flatnonzero(hashes[1:] == hashes[:-1])
    if not len(at):
        return
    column: Any = part.rows.column(KEY)
    one, other = taken(column, at), taken(column, at + 1)
    same = same_keys(one, other)
    if part.times is None or part.diffs is None:
        later = np.zeros(len(at), np.bool_)
    else:
        before, behind = part.times[at], part.times[at + 1]
        # In turn one goes and one comes; at one time it goes first.
        later = (behind > before) | ((behind == before) & (part.diffs[at] < 0))
        later &= part.diffs[at + 1] != part.diffs[at]
    if np.any(same & ~later):
        row = int(at[same & ~later][0])
        raise DamagedEntry("a key has two rows at once", found=f"rows {row:,} and {row + 1:,}")
    apart = pa.array(~same)
    less: Any = pc.less(key_bytes(one.filter(apart)), key_bytes(other.filter(apart)))
    if not np.all(less.to_numpy(zero_copy_only=False)):
        raise DamagedEntry("the rows of a file are not in order")


def _seam(one: Part, other: Part) -> Part:
    """Give the last row of a batch and the first of the next."""
    rows: Any = pa.Table.from_batches(
        [one.rows.slice(one.rows.num_rows - 1), other.rows.slice(0, 1)]
    )
    return part_of(rows.combine_chunks().to_batches()[0])
