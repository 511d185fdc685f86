"""What keys have in the persisted collection: the newest run that knows a key, or the base.

A look-up costs what the keys that are asked for cost, times the number of files: of a file it reads
the hashes that a binary search meets, and the rows that have one of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.casts import conform_table
from quiver.errors import InputError
from quiver.schemas import same_type
from quiver.ship.objects import Bucket
from quiver.upsert.persist.checking import Part
from quiver.upsert.persist.definitions import no_rows
from quiver.upsert.persist.opened import open_file
from quiver.upsert.persist.order import Bools, Hashes, Places, expand, same_as_next, taken
from quiver.upsert.persist.snapshot import Snapshot
from quiver.upsert.rows.definition import BASE_COLUMNS, KEY
from quiver.upsert.rows.hashing import places_by_hash, rest_of
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.rows.looked import Looked
from quiver.upsert.rows.sameness import same_keys

__all__ = ["State", "WholeState"]

_STEPS: Final = 3
"""A key has a row in a base, and one or two in a run: after so many it is looked for by halves."""


class State:
    """The current state of one bucket; files are opened by the first look-up that needs them."""

    def __init__(self, store: Bucket, snapshot: Snapshot, bucket: int) -> None:
        self._store, self._snapshot, self._bucket = store, snapshot, bucket
        self._runs, self._base = snapshot.runs(bucket), snapshot.base(bucket)

    @property
    def upper(self) -> int:
        """It is the state as of the epoch before this one."""
        return self._snapshot.upper

    def lookup(self, hashes: Hashes, keys: pa.StructArray) -> Looked:
        """Find the row that each key has now. Keys may repeat. Raises DamageError, MissingError."""
        if len(hashes) and bool(np.any(rest_of(hashes, self._snapshot.buckets) != self._bucket)):
            raise InputError(f"a key that is looked up is not of bucket {self._bucket}")
        search = _Search(hashes, keys, self._snapshot)
        folded = -1 if self._base is None else self._base.last
        newest = [ref for ref in reversed(self._runs) if ref.last > folded]
        for ref in [*newest, *([] if self._base is None else [self._base])]:
            if search.is_done:
                break
            for part in reversed(open_file(self._store, self._snapshot, ref)):
                search.look_into(part)
        return search.result()


class WholeState:
    """The current state of all buckets."""

    def __init__(self, store: Bucket, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._states = [State(store, snapshot, bucket) for bucket in range(snapshot.buckets)]

    @property
    def upper(self) -> int:
        """It is the state as of the epoch before this one."""
        return self._snapshot.upper

    def lookup(self, hashes: Hashes, keys: pa.StructArray) -> Looked:
        """Find the row that each key has now. Keys may repeat. Raises DamageError, MissingError."""
        index = np.full(len(hashes), -1, np.int64)
        of = (hashes % np.uint64(self._snapshot.buckets)).astype(np.int64)
        order = np.argsort(of, kind="stable")
        edges = np.searchsorted(of[order], np.arange(self._snapshot.buckets + 1))
        found = [pa.Table.from_batches([no_rows(self._snapshot.definition.state)])]
        count = 0
        for bucket in np.unique(of):
            rows = order[edges[bucket] : edges[bucket + 1]]
            some: Any = taken(keys, rows)
            looked = self._states[int(bucket)].lookup(hashes[rows], some)
            index[rows] = np.where(looked.index >= 0, looked.index + count, -1)
            found.append(looked.rows)
            count += looked.rows.num_rows
        return Looked(pa.concat_tables(found), index)


class _Search:
    """Keys on their way through files, newest first: who has met his key drops out."""

    def __init__(self, hashes: Hashes, keys: Any, snapshot: Snapshot) -> None:  # noqa: ANN401
        self._index = np.full(len(hashes), -1, np.int64)
        self._todo: Places = np.arange(len(hashes), dtype=np.int64)
        self._hashes, self._keys = hashes, keys
        if np.any(hashes[1:] < hashes[:-1]):
            self._todo = places_by_hash(hashes)
            self._hashes, self._keys = hashes[self._todo], taken(keys, self._todo)
        self._schema = snapshot.definition.state
        self._found = [pa.Table.from_batches([no_rows(self._schema)])]
        self._count = 0

    @property
    def is_done(self) -> bool:
        """Whether every key has been met."""
        return not len(self._todo)

    def look_into(self, part: Part) -> None:
        """Meet the keys that are in a batch; an older one must come later."""
        first = int(np.searchsorted(self._hashes, part.hashes[0], "left"))
        behind = int(np.searchsorted(self._hashes, part.hashes[-1], "right"))
        hashes = self._hashes[first:behind]
        starts = np.searchsorted(part.hashes, hashes, "left")
        hits = np.flatnonzero(part.hashes[starts] == hashes)
        if not len(hits):
            return
        asked, starts = hits + first, starts[hits]
        ends = _ends(part.hashes, starts)
        fresh = np.ones(len(asked), np.bool_)
        fresh[1:] = starts[1:] != starts[:-1]  # Keys that share a hash share its rows.
        rows = ends - 1
        met = self._same(part, asked, rows) & fresh & np.append(fresh[1:], values=True)
        if not met.all():
            others = ~met
            again = self._among(part, asked[others], (starts[others], ends[others]))
            rows[others] = again
            met[others] = again >= 0
        self._take(part, rows[met], asked[met])

    def _same(self, part: Part, asked: Places, rows: Places) -> Bools:
        """Say which keys are those of a row each: mostly that of the last row with their hash."""
        keys: Any = part.rows.column(KEY)
        if not same_type(keys.type, self._keys.type):
            return np.zeros(len(asked), np.bool_)
        whole = len(asked) == len(self._keys)
        return same_keys(self._keys if whole else taken(self._keys, asked), taken(keys, rows))

    def _among(self, part: Part, asked: Places, ranges: tuple[Places, Places]) -> Places:
        """Find the last row of each key among all rows with its hash; -1 if it has none."""
        starts, ends = ranges
        fresh = np.ones(len(asked), np.bool_)
        fresh[1:] = starts[1:] != starts[:-1]
        rows = expand(starts[fresh], ends[fresh])
        keys: Any = key_bytes(taken(part.rows.column(KEY), rows))
        last = np.ones(len(rows), np.bool_)
        last[:-1] = ~same_as_next(part.hashes[rows], rows, keys)
        rows, keys = rows[last], keys.filter(pa.array(last))
        met: Any = pc.index_in(key_bytes(taken(self._keys, asked)), keys)
        which = met.fill_null(0).to_numpy().astype(np.int64)
        return np.where(met.is_valid().to_numpy(zero_copy_only=False), rows[which], -1)

    def _take(self, part: Part, rows: Places, asked: Places) -> None:
        """Note what keys have: a row, or nothing if the last that was said of them is a -1."""
        lives = np.ones(len(rows), np.bool_) if part.diffs is None else part.diffs[rows] == 1
        kept = rows[lives]
        if len(kept):
            found = taken(part.rows.select(list(BASE_COLUMNS)), kept)
            self._found.append(conform_table(found, self._schema))
            at = self._count + np.arange(len(kept), dtype=np.int64)
            self._index[self._todo[asked[lives]]] = at
            self._count += len(kept)
        if len(asked) == len(self._todo):
            self._todo, self._hashes = self._todo[:0], self._hashes[:0]
            return
        left = np.ones(len(self._todo), np.bool_)
        left[asked] = False
        self._todo, self._hashes = self._todo[left], self._hashes[left]
        self._keys = self._keys.filter(pa.array(left))

    def result(self) -> Looked:
        """Give what was found."""
        return Looked(pa.concat_tables(self._found), self._index)


def _ends(hashes: Hashes, starts: Places) -> Places:
    """Give where the hash of each row, which has it first, ends; mostly a row or two on."""
    last, own = len(hashes) - 1, hashes[starts]
    ends = starts + 1
    for _ in range(_STEPS):
        more = (ends <= last) & (hashes[np.minimum(ends, last)] == own)
        if not more.any():
            return ends
        ends += more
    return np.searchsorted(hashes, own, "right")
