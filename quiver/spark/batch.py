"""Batches of a size that Spark reads fast: from 8 thousand rows or half a MiB to 64 thousand rows.

A batch costs both sides some 45 us whatever it holds, and to join batches costs a copy: that of
400 KB takes as long. From 4 to 64 thousand rows Spark's own side is equally fast; larger ones cost
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from quiver.ipc import child_types

__all__ = ["ROWS_MAX", "ROWS_MIN", "gather", "merge", "split"]

ROWS_MAX: Final = 65_536
ROWS_MIN: Final = 8_192
_MERGED_BYTES: Final = 512 << 10
_SPLIT_BYTES: Final = 64 << 20


def split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into views of at most ``ROWS_MAX`` rows and about 64 MiB each.

    A batch without rows gives none. Wide rows are cut finer, so that strings of one piece stay far
    below the 2 GiB that Spark's string columns hold.
    """
    rows = batch.num_rows
    share = rows * _SPLIT_BYTES // max(1, batch.get_total_buffer_size())
    step = max(1, min(ROWS_MAX, share))
    return (batch.slice(first, step) for first in range(0, rows, step))


def gather(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    finish: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Join small batches of one schema and finish each; ``finish`` keeps order and has no state.

    Dictionaries are joined after that: two that are full make one that their indices are too
    narrow for. Batches without rows are left out.
    """
    if any(map(_has_words, schema.types)):
        found = merge(map(finish, batches))
    else:
        found = map(finish, merge(batches))
    return (batch for batch in found if batch.num_rows)


def _has_words(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.DictionaryType) or any(map(_has_words, child_types(kind)))


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join neighbours of one schema until they have ``ROWS_MIN`` rows or 512 KiB, in order."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and rows + batch.num_rows > ROWS_MAX:
            yield _join(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes if rows < ROWS_MIN else 0  # That takes as long as all the rest.
        if rows >= ROWS_MIN or size >= _MERGED_BYTES:
            yield _join(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    arrow: Any = pa  # Its stubs lack concat_batches.
    return batches[0] if len(batches) == 1 else arrow.concat_batches(batches)
