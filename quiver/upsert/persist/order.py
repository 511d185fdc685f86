"""The order of rows in files: by hash, then key, then time, then diff. By numpy, for many rows.

Keys are looked at only where hashes are equal, which two rows of one key always have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.casts.picking import rows_at
from quiver.upsert.rows.hashing import places_by_hash

__all__ = [
    "Alike",
    "Bools",
    "Hashes",
    "KeysAt",
    "Places",
    "expand",
    "row_order",
    "same_as_next",
    "taken",
]

Hashes: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
KeysAt: TypeAlias = Callable[[Places], Any]
"""Gives the bytes of the keys of some rows."""
Alike: TypeAlias = Callable[[Places, Places], Bools]
"""Says of two rows each whether their keys are the same."""

_SLOTS: Final = ("hash", "key", "time", "diff", "at")


def row_order(
    hashes: Hashes,
    *,
    keys: KeysAt,
    alike: Alike | None = None,
    times: npt.NDArray[np.uint64] | None = None,
    diffs: npt.NDArray[np.int64] | None = None,
) -> Places:
    """Give the places of rows in their order; those that have all in common stay as they stood.

    ``alike`` says sooner than by the bytes of keys where they are the same.
    """
    count = len(hashes)
    more = [array for array in (diffs, times) if array is not None]
    if _is_in_order([hashes, *reversed(more)]):
        order = np.arange(count, dtype=np.int64)
    elif more:
        order = np.lexsort((*more, hashes)).astype(np.int64, copy=False)
    else:
        order = places_by_hash(hashes)
    _part_keys(order, hashes, keys=keys, alike=alike, times=times, diffs=diffs)
    return order


def _is_in_order(columns: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether rows ascend by the first column, where that is equal by the next, and so on."""
    rows: slice | Places = slice(None)
    for column in columns:
        here, behind = column[:-1][rows], column[1:][rows]
        if bool(np.any(behind < here)):
            return False
        equal = np.flatnonzero(behind == here)
        rows = equal if isinstance(rows, slice) else rows[equal]
    return True


def _part_keys(
    order: Places,
    hashes: Hashes,
    *,
    keys: KeysAt,
    alike: Alike | None,
    times: npt.NDArray[np.uint64] | None,
    diffs: npt.NDArray[np.int64] | None,
) -> None:
    """Sort rows of different keys with one hash by key as well, in place."""
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    at = np.flatnonzero(same)
    if not len(at) or (alike is not None and bool(np.all(alike(order[at], order[at + 1])))):
        return
    shared = _touching(same)
    rows = order[shared]
    bytes_of = keys(rows)
    met = hashes[rows]
    groups = np.concatenate([[0], np.cumsum(met[1:] != met[:-1])])
    differ = (met[1:] == met[:-1]) & ~_equal_to_next(bytes_of)
    if not differ.any():
        return
    mixed = np.isin(groups, np.unique(groups[1:][differ]))
    some = shared[mixed]
    rows = order[some]
    table = pa.table(
        [
            pa.array(hashes[rows]),
            bytes_of.filter(pa.array(mixed)),
            pa.array(np.zeros(len(rows), np.uint64) if times is None else times[rows]),
            pa.array(np.zeros(len(rows), np.int64) if diffs is None else diffs[rows]),
            pa.array(np.arange(len(rows))),
        ],
        names=list(_SLOTS),
    )
    places = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in _SLOTS])
    order[some] = rows[places.to_numpy()]


def _touching(same: Bools) -> Places:
    """Give the places of what equals its neighbour on either side."""
    either = np.zeros(len(same) + 1, np.bool_)
    either[1:] |= same
    either[:-1] |= same
    return np.flatnonzero(either)


def _equal_to_next(keys: Any) -> Bools:  # noqa: ANN401
    equal: Any = pc.equal(keys.slice(0, max(len(keys) - 1, 0)), keys.slice(min(len(keys), 1)))
    found: Bools = equal.to_numpy(zero_copy_only=False)
    return found


def same_as_next(hashes: Hashes, rows: Places, keys: Any) -> Bools:  # noqa: ANN401
    """Say of rows in their order, but the last, whether the next has the same key.

    ``hashes`` are those of ``rows``, ``keys`` their bytes. Rows that do not touch never have.
    """
    near = (rows[1:] == rows[:-1] + 1) & (hashes[1:] == hashes[:-1])
    if near.any():
        near &= _equal_to_next(keys)
    return near


def taken(rows: Any, places: Places) -> Any:  # noqa: ANN401
    """Give the rows at some places, of an array, a batch or a table."""
    return rows_at(rows, places)


def expand(starts: Places, ends: Places) -> Places:
    """Give all places in half-open ranges, one range behind the other."""
    counts = ends - starts
    if bool(np.all(counts == 1)):
        return starts
    total = int(counts.sum())
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return np.arange(total, dtype=np.int64) + shift
