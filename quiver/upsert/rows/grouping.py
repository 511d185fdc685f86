"""Which rows have the same key: by hash, and where hashes meet, by the bytes of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.upsert.rows.columns import Mask, Places, taken
from quiver.upsert.rows.hashing import places_by_hash
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.rows.sameness import same_keys

__all__ = ["Groups", "group"]

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


def group(hashes: _Hashes, keys: pa.StructArray, rows: Places | None = None) -> Groups:
    """Find the rows that share a key, of all or of some; those of one key come in any order."""
    places = places_by_hash(hashes) if rows is None else rows[places_by_hash(hashes[rows])]
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
