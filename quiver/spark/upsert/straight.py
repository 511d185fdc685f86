"""Rows of a store read by who works on them: none of them goes through Spark.

A batch of ``readStream.format("quiver")`` is what lies between two offsets, and whoever sees the
store can read that. So where a query takes columns of such a stream as they are, or asks of them
what ``formulas`` has, Spark keeps the offsets and commits them, and tasks map the segments. What
they read is what Spark would have handed them, under the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from quiver.casts import conform
from quiver.errors import QuiverError
from quiver.scan import Scan
from quiver.source.stores import Span
from quiver.spark import options as o
from quiver.spark.batch import split
from quiver.spark.queue.address import is_queue
from quiver.spark.schema import to_spark_all, to_spark_schema
from quiver.spark.stream_query import StreamQuery, stream_query, stream_schema, with_metadata
from quiver.spark.stream_read import read_bundles, read_share
from quiver.spark.tasks import METADATA, Place
from quiver.spark.upsert.formulas import Formula, columns_of
from quiver.spark.upsert.places import ORDER, QUIVER, with_order
from quiver.spark.upsert.preparing import Reading, gathered
from quiver.spark.upsert.relation import Relation
from quiver.spark.upsert.splits import Ends, place_in

__all__ = ["Covered", "Look", "Straight", "straight_of"]


class Covered(Protocol):
    """What a batch of a query has of its only source, as Spark's offsets."""

    @property
    def start(self) -> Mapping[str, Any]:
        """Where it begins."""
        ...

    @property
    def end(self) -> Mapping[str, Any]:
        """Where it ends."""
        ...

    def tell(self, rows: int) -> None:
        """Have Spark show how many rows were read."""
        ...


Look: TypeAlias = Callable[[str, int], Covered | None]
"""Says what a batch has, by the id of its query and its number; None if that cannot be told."""


@dataclass(frozen=True)
class Straight:
    """How the rows of a batch are read without Spark; goes to the workers."""

    query: StreamQuery
    reading: Reading
    columns: tuple[Formula, ...]
    """What each one of ``reading`` is, in terms of the stream's."""

    def tables(
        self, spans: Sequence[Span], ends: Ends | None, *, cuts: bool = True
    ) -> Iterator[tuple[int, pa.Table]]:
        """Give the rows of some spans that are not in yet, and how many were read for them.

        Without ``cuts`` large bundles are left whole, so that nobody has to copy them.
        """
        if self._is_by_bundle:
            for batches in gathered(self._bundles(spans, ends, cuts=cuts)):
                table = pa.Table.from_batches(batches)
                yield table.num_rows, table
            return
        for batches in gathered(read_share(self.query, spans)):
            table = self._table(pa.Table.from_batches(batches))
            left = table if ends is None else ends.sift(table)
            yield table.num_rows, with_order(left) if self.reading.has_place else left

    def _table(self, rows: pa.Table) -> pa.Table:
        columns = [column.of(rows) for column in self.columns]
        return self.reading.typed(pa.Table.from_arrays(columns, names=self.reading.types.names))

    @property
    def _is_by_bundle(self) -> bool:
        """Whether of a row's place nothing is needed but what is the same for all of its bundle."""
        inside = columns_of(list(self._plain.values()))
        is_plain = bool(inside) and not inside & set(METADATA.names)
        return self.reading.splits in (None, QUIVER) and is_plain

    @property
    def _plain(self) -> dict[str, Formula]:
        """The columns that are read, and what of the stream they are."""
        named = dict(zip(self.reading.types.names, self.columns, strict=True))
        plan = self.reading.plan
        order = () if self.reading.has_place else plan.order_by
        gone = () if plan.delete_when is None else (plan.delete_when,)
        return {name: named[name] for name in (*plan.key, *(plan.value or ()), *order, *gone)}

    def _bundles(
        self, spans: Sequence[Span], ends: Ends | None, *, cuts: bool
    ) -> Iterator[pa.RecordBatch]:
        plain = self._plain
        inside = sorted(columns_of(list(plain.values())))
        stored, target = (
            pa.schema([whole.field(name) for name in inside])
            for whole in (self.query.stored, self.query.target)
        )
        finish = to_spark_all(target)
        types = pa.schema([self.reading.types.field(name) for name in plain])
        held = _Held()
        for place, batch in read_bundles(self.query, spans, inside):
            at = place_in(place.segment_seq, place.bundle_index)
            of = place.store_id, place.core
            if ends is not None and batch.num_rows and not ends.admit(of, at, batch.num_rows):
                continue
            first = 0
            for part in split(batch) if cuts else [batch]:
                rows = finish(conform(part, stored))
                columns = [column.of(rows) for column in plain.values()]
                made = pa.RecordBatch.from_arrays(columns, names=types.names)
                made = made if made.schema.equals(types) else made.cast(types)
                if self.reading.has_place:
                    made = _ordered(made, (held.time(place), at, first))
                first += part.num_rows
                yield made


class _Held:
    """Times of bundles that never go back within a core."""

    def __init__(self) -> None:
        self._times: dict[int, int] = {}

    def time(self, place: Place) -> int:
        """Give the time of a bundle, or the greatest before it."""
        found = max(place.ingestion_ns or 0, self._times.get(place.core, 0))
        self._times[place.core] = found
        return found


def _ordered(rows: pa.RecordBatch, place: tuple[int, int, int]) -> pa.RecordBatch:
    """Add what orders commands: when and where their bundle was appended, and the row in it."""
    time, bundle, first = place
    count = rows.num_rows
    added = (
        np.full(count, time, np.int64),
        np.full(count, bundle, np.int64),
        np.arange(first, first + count, dtype=np.int64),
    )
    for name, column in zip(ORDER, added, strict=True):
        rows = rows.append_column(name, pa.array(column))
    return rows


def straight_of(relation: Relation, reading: Reading) -> Straight | None:
    """Say how rows of a stream are read straight; None if they must come through Spark.

    That is so of a queue, whose entries are fetched once, and where it cannot be told whether the
    columns were named by the user or found in the store.
    """
    with suppress(QuiverError):  # Whatever is wrong Spark's own source says.
        given = o.Options(relation.options)
        path = given.get(o.PATH, "")
        if not path or is_queue(path):
            return None
        columns = given.get(o.COLUMNS, ())
        scan = Scan(path, slot=given.get(o.SLOT, ""), columns=columns or None)
        known = with_metadata(given, stream_schema(given, scan))
        unit = given.get(o.TIMESTAMP_UNIT, "us")
        if not columns and to_spark_schema(known, nanoseconds=unit) != relation.schema:
            return None
        query = stream_query(given, scan, relation.schema, is_inferred=not columns)
        return Straight(query, reading, relation.columns)
    return None
