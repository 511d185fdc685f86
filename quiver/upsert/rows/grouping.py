"""Which rows have the same key: by hash, and where hashes meet, by the bytes of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.upsert.rows.columns import Mask, Places, taken
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.rows.sameness import same_keys

__all__ = ["Groups", "Held", "group", "pairs"]

_Hashes: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows by key: places of rows, sorted by hash and then key, and where in that keys begin."""

    places: Places
    starts: Places

    @property
    def sizes(self) -> Places:
        """How many rows each key has."""
        return np.diff(self.starts, append=len(self.places))


class Held(Protocol):
    """Rows that are sorted by hash, whose keys are read only where hashes meet."""

    @property
    def hashes(self) -> _Hashes:
        """The hash of each row, ascending."""
        ...

    def keys_at(self, rows: Places) -> pa.StructArray:
        """Give the keys of some of the rows."""
        ...


def group(hashes: _Hashes, keys: pa.StructArray) -> Groups:
    """Find the rows that share a key; those of one key come in any order."""
    places = np.argsort(hashes)
    ordered = hashes[places]
    anew = np.ones(len(ordered), np.bool_)
    anew[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(anew)
    if len(starts) == len(ordered):
        return Groups(places, starts)
    shared = ~anew | ~np.append(anew[1:], True)  # Rows that are not alone under their hash.
    where = np.flatnonzero(shared)
    begins = anew[where]
    picked = taken(keys, places[where])
    differs = _differ(picked, begins)
    if differs.any():
        again, fresh = _untangle(picked, begins, differs)
        places[where] = places[where][again]
        anew[where] = fresh
        starts = np.flatnonzero(anew)
    return Groups(places, starts)


def _differ(keys: pa.StructArray, begins: Mask) -> Mask:
    """Tell which rows have another key than the row before them under the same hash."""
    same = same_keys(keys.slice(1), keys.slice(0, len(keys) - 1))
    return np.append(False, ~same) & ~begins


def _untangle(keys: pa.StructArray, begins: Mask, differs: Mask) -> tuple[Places, Mask]:
    """Sort the rows under hashes that several keys share by their bytes, and tell those anew.

    Only these are touched, so that keys which were made to meet cost no one else.
    """
    number = np.cumsum(begins) - 1
    mixed = np.flatnonzero(np.isin(number, number[differs]))
    data = key_bytes(taken(keys, mixed))
    table = pa.table({"number": number[mixed], "bytes": data})
    ascending: Any = [("number", "ascending"), ("bytes", "ascending")]
    order = pc.sort_indices(table, ascending).to_numpy().astype(np.int64)
    again = np.arange(len(keys), dtype=np.int64)
    again[mixed] = mixed[order]
    fresh = begins.copy()
    fresh[mixed] |= _differ(taken(keys, mixed[order]), begins[mixed])
    return again, fresh


def pairs(hashes: _Hashes, keys: pa.StructArray, held: Held) -> tuple[Places, Places]:
    """Give all pairs of a row that is asked for and a row that is held, with the same key.

    The first array says which row asks, ascending; the second which is held, ascending for each
    that asks. What it costs grows with the rows under the hashes asked for, not with their squares.
    """
    low = np.searchsorted(held.hashes, hashes, side="left")
    count = np.searchsorted(held.hashes, hashes, side="right") - low
    asking = np.flatnonzero(count)
    _, number, alike = np.unique(hashes[asking], return_inverse=True, return_counts=True)
    alone = alike[number] == 1
    one, other = _spread(low[asking[alone]], count[asking[alone]])
    one = asking[alone][one]
    same = same_keys(taken(keys, one), held.keys_at(other))
    one, other = one[same], other[same]
    if alone.all():
        return one, other
    crowd = asking[~alone]
    firsts = crowd[np.unique(hashes[crowd], return_index=True)[1]]
    _, there = _spread(low[firsts], count[firsts])
    more, further = _join(taken(keys, crowd), held.keys_at(there))
    one = np.concatenate([one, crowd[more]])
    other = np.concatenate([other, there[further]])
    order = np.lexsort((other, one))
    return one[order], other[order]


def _spread(low: Places, count: Places) -> tuple[Places, Places]:
    """Give for ranges of rows which range, and which row, one by one."""
    which = np.repeat(np.arange(len(low), dtype=np.int64), count)
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return which, np.arange(total, dtype=np.int64) + np.repeat(low - (ends - count), count)


def _join(asked: pa.StructArray, held: pa.StructArray) -> tuple[Places, Places]:
    """Give all pairs of equal keys, by numbers that Arrow gives to their bytes."""
    both: Any = pa.concat_arrays([key_bytes(asked), key_bytes(held)])
    numbers = both.dictionary_encode().indices.to_numpy()
    ours, theirs = numbers[: len(asked)], numbers[len(asked) :]
    order = np.argsort(theirs, kind="stable")
    low = np.searchsorted(theirs[order], ours, side="left")
    count = np.searchsorted(theirs[order], ours, side="right") - low
    one, other = _spread(low, count)
    return one, order[other]
