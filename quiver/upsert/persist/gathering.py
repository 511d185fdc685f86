"""Rows of a table in another order, however large it is.

Most tables are laid out as one batch, and rows taken from that. But Arrow counts the bytes of a
column of text in 31 bits: of what is larger, rows are taken batch by batch, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.upsert.persist.order import Bools, Places, taken
from quiver.upsert.rows.definition import HASH, KEY
from quiver.upsert.rows.hashing import places_by_hash
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.rows.sameness import same_keys

__all__ = ["WHOLE_BYTES_MAX", "Gathering", "by_hash"]

WHOLE_BYTES_MAX: Final = 1 << 30
"""A table that is larger is not laid out as one batch."""


def by_hash(table: pa.Table) -> pa.Table:
    """Lay a table out as one batch unless that would be too large, by hash."""
    hashes = table.column(HASH).to_numpy()
    if np.any(hashes[1:] < hashes[:-1]):
        return taken(table, places_by_hash(hashes))
    return table.combine_chunks() if table.nbytes <= WHOLE_BYTES_MAX else table


class Gathering:
    """The rows of a table, to be taken."""

    def __init__(self, table: pa.Table) -> None:
        whole = table.combine_chunks() if table.nbytes <= WHOLE_BYTES_MAX else table
        self._batches = [batch for batch in whole.to_batches() if batch.num_rows]
        counts = [batch.num_rows for batch in self._batches]
        self._starts = np.cumsum([0, *counts]).astype(np.int64)

    def keys(self, places: Places) -> Any:  # noqa: ANN401
        """Give the bytes of the keys of some rows."""
        found = [
            (at, key_bytes(taken(self._batches[number].column(KEY), rows)))
            for number, at, rows in self._parted(places)
        ]
        if len(found) == 1:
            return found[0][1]
        if not found:
            return pa.array([], pa.large_binary())
        back = np.argsort(np.concatenate([at for at, _ in found]), kind="stable")
        return taken(pa.concat_arrays([keys for _, keys in found]), back)

    def alike(self, ours: Places, theirs: Places) -> Bools:
        """Say of two rows each whether their keys are the same."""
        if len(self._batches) == 1:
            column: Any = self._batches[0].column(KEY)
            return same_keys(taken(column, ours), taken(column, theirs))
        equal: Any = pc.equal(self.keys(ours), self.keys(theirs))
        found: Bools = equal.to_numpy(zero_copy_only=False)
        return found

    def take(self, places: Places) -> Iterator[pa.RecordBatch]:
        """Give some rows, as one batch unless that would be too large."""
        if len(self._batches) == 1:
            yield self._from_one(places)
            return
        found = [
            (at, taken(self._batches[number], rows)) for number, at, rows in self._parted(places)
        ]
        if len(places) > 1 and sum(rows.nbytes for _, rows in found) > WHOLE_BYTES_MAX:
            del found
            middle = len(places) // 2
            yield from self.take(places[:middle])
            yield from self.take(places[middle:])
        elif found:
            back = np.argsort(np.concatenate([at for at, _ in found]), kind="stable")
            joined: Any = pa.Table.from_batches([rows for _, rows in found]).combine_chunks()
            yield taken(joined.to_batches()[0], back)

    def _from_one(self, places: Places) -> pa.RecordBatch:
        """Give rows of the only batch, without a copy where they stand side by side."""
        (only,) = self._batches
        if bool(np.all(places[1:] == places[:-1] + 1)):
            return only.slice(int(places[0]), len(places))
        rows: pa.RecordBatch = taken(only, places)
        return rows

    def _parted(self, places: Places) -> Iterator[tuple[int, Places, Places]]:
        """Give for each batch which of the places are in it, and where in it they are."""
        if len(self._batches) == 1:
            yield 0, np.arange(len(places), dtype=np.int64), places
            return
        of = np.searchsorted(self._starts, places, "right") - 1
        for number in np.unique(of).tolist():
            at = np.flatnonzero(of == number)
            yield number, at, places[at] - self._starts[number]
