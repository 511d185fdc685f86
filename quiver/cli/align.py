"""Bundles from the rows of several files: by position, or by the values of a key column.

::

    logs    k   1 1 2 3          --by k     bundle 1: logs 2 rows, traces 1 row
    traces  k   1 3 3            ------>    bundle 2: logs 1 row
                                            bundle 3: logs 1 row,  traces 2 rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts.picking import rows_at
from quiver.cli.output import count
from quiver.cli.sources import Source
from quiver.errors import InputError
from quiver.ipc import ARROW_FAULTS
from quiver.promote import common_type
from quiver.schemas import same_schema

__all__ = ["align_by_key", "align_by_position", "regroup"]

Bundle = dict[str, pa.Table]
Column = Any

_KEY_HINT: Final = "a key is a number, text, bytes, boolean, date or time without nulls"


def align_by_position(sources: Sequence[Source], rows: int) -> Iterator[Bundle]:
    """Cut each file into batches of ``rows`` rows; bundle ``i`` has the ``i``-th of each file.

    Where a file has no more rows its slot is absent.
    """
    columns = [regroup(source.batches(), rows) for source in sources]
    for tables in zip_longest(*columns):
        yield {s.slot: t for s, t in zip(sources, tables, strict=True) if t is not None}


def regroup(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Cut and join batches so that each table has ``rows`` rows, fewer where the schema changes."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for whole in batches:
        batch = whole
        if pending and not same_schema(batch.schema, pending[0].schema):
            yield pa.Table.from_batches(pending)
            pending, count = [], 0
        while batch.num_rows:
            piece = batch.slice(0, rows - count)
            pending.append(piece)
            count += piece.num_rows
            batch = batch.slice(piece.num_rows)
            if count == rows:
                yield pa.Table.from_batches(pending)
                pending, count = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def align_by_key(sources: Sequence[Source], column: str) -> Iterator[Bundle]:
    """Give one bundle for each value of a column in any file, ascending; rows keep their order.

    All files are read into memory first. Raises InputError that names the file if it lacks the
    column, if a key is null, or if the keys of two files cannot be compared.
    """
    tables = [source.table() for source in sources]
    keys = [_keys(s, table, column) for s, table in zip(sources, tables, strict=True)]
    kind = reduce(_join_types, (key.type for key in keys))
    if kind is None:
        found = ", ".join(f"{s.path}: {k.type}" for s, k in zip(sources, keys, strict=True))
        raise InputError(f"the keys in {column!r} have no common type ({found})", hint=_KEY_HINT)
    try:
        keys = [key.cast(kind) for key in keys]
        values = pc.unique(pa.chunked_array([c for key in keys for c in key.chunks], type=kind))
        values = values.take(pc.sort_indices(values))
        groups = [_group(t, k, values) for t, k in zip(tables, keys, strict=True)]
    except ARROW_FAULTS as error:
        raise InputError(f"{column!r} cannot be a key: {error}", hint=_KEY_HINT) from error
    for place in range(len(values)):
        bundle: Bundle = {}
        for source, (table, ends) in zip(sources, groups, strict=True):
            start, end = int(ends[place]), int(ends[place + 1])
            if end > start:
                bundle[source.slot] = table.slice(start, end - start)
        yield bundle


def _keys(source: Source, table: pa.Table, column: str) -> Column:
    """Find the key column of a file, its dictionaries decoded."""
    if column not in table.column_names:
        raise InputError(
            f"{source.path} has no column {column!r} to align by",
            hint=f"its columns are: {', '.join(table.column_names)}",
        )
    keys: Column = table[column]
    if kinds.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    if kinds.is_nested(keys.type):
        raise InputError(f"{source.path}: {column!r} is {keys.type}, no key", hint=_KEY_HINT)
    absent = keys.null_count
    if kinds.is_floating(keys.type):
        absent += int(np.isnan(keys.to_numpy()).sum())
    if absent:
        raise InputError(
            f"{source.path}: {count(absent, 'row')} without a value in {column!r} to align by",
            hint="leave them out, or give them a value",
        )
    return keys


def _join_types(left: Any, right: Any) -> Any:  # noqa: ANN401
    return None if left is None else common_type(left, right)


def _group(table: pa.Table, keys: Column, values: Column) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Order rows by key, stably; rows of ``values[i]`` are then at ``[ends[i], ends[i + 1])``."""
    places: Column = pc.index_in(keys, value_set=values)
    codes = places.to_numpy()
    counts = np.bincount(codes, minlength=len(values))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if (np.diff(codes) < 0).any():
        table = rows_at(table, np.argsort(codes, kind="stable"))
    return table, ends
