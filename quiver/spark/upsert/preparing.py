"""What a task does with the rows of a batch: commands, one for each key, packed by bucket.

Rows are gathered until they are many, since each step costs the same for few. What is left of them
is packed and handed on, unless keys repeat so much that it is worth while to wait for more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from quiver.spark.upsert.places import with_order
from quiver.spark.upsert.splits import Ends, SplitPlan
from quiver.spark.upsert.wire import pack, progress
from quiver.spark.worker import settle
from quiver.upsert.rows import Commands, Definition, Misfit, Plan, prepare, reduce

__all__ = ["Preparing", "Reading", "gathered"]

ROWS: Final = 1 << 17
BYTES: Final = 16 << 20
"""So much of the input is gathered at a time, whichever is reached first."""
HELD_BYTES: Final = 128 << 20
"""So much of what is left may wait for more."""
_WORTH_WAITING: Final = 0.7
"""More than so much of the rows left: keys do not repeat, so nothing is gained by waiting."""


@dataclass(frozen=True)
class Reading:
    """Which columns of a batch say what. Columns come by place: Spark's names may be any."""

    types: pa.Schema
    """Names and types of the columns, in order."""
    plan: Plan
    splits: SplitPlan | None = None
    has_place: bool = False
    """Whether rows are ordered by their place in Quiver: the plan has its columns as well."""

    def table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Give rows under the names and types that are known; Spark's zone may be another."""
        return self.typed(pa.Table.from_batches(batches))

    def typed(self, rows: pa.Table) -> pa.Table:
        """Do so with a table."""
        rows = rows.rename_columns(self.types.names)
        return rows if rows.schema.equals(self.types) else rows.cast(self.types)


@dataclass(frozen=True)
class Preparing:
    """The first step of a batch, for ``mapInArrow``: goes to the workers."""

    reading: Reading
    definition: Definition
    parts: int
    """Among how many partitions buckets are spread."""
    floors: Mapping[str, int] = field(default_factory=dict)
    misfit: Misfit = "fail"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give rows of ``wire.WIRE``."""
        settle()
        ends = self.ends()
        tables = (self.reading.table(rows) for rows in gathered(batches))
        yield from self.packed((self._sifted(table, ends) for table in tables), ends)

    def ends(self) -> Ends | None:
        """Give what notes how far a task comes in its splits, if rows have some."""
        splits = self.reading.splits
        return None if splits is None else Ends(splits, self.floors)

    def packed(
        self, tables: Iterable[tuple[int, pa.Table]], ends: Ends | None
    ) -> Iterator[pa.RecordBatch]:
        """Give rows of ``wire.WIRE`` of tables, each with how many rows were read for it."""
        held: list[Commands] = []
        for read, table in tables:
            left = reduce(self.commands(table))
            held.append(left)
            if len(left) > read * _WORTH_WAITING or _size(held) > HELD_BYTES:
                yield from self._packed(held)
                held = []
        yield from self._packed(held)
        if ends is not None and ends.next:
            yield progress(ends.next)

    def commands(self, rows: pa.Table) -> Commands:
        """Read commands from rows that are not in yet."""
        return prepare(rows, self.reading.plan, self.definition, misfit=self.misfit)

    def _sifted(self, table: pa.Table, ends: Ends | None) -> tuple[int, pa.Table]:
        left = table if ends is None else ends.sift(table)
        return table.num_rows, with_order(left) if self.reading.has_place else left

    def _packed(self, held: list[Commands]) -> Iterator[pa.RecordBatch]:
        if not held:
            return
        commands = held[0] if len(held) == 1 else reduce(Commands.concat(held))
        yield from pack(commands, buckets=self.definition.buckets, parts=self.parts)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Put batches together until they are many rows, since each step costs the same for few."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield waiting
            waiting, rows, size = [], 0, 0
    if rows:
        yield waiting


def _size(held: Iterable[Commands]) -> int:
    return sum(commands.nbytes for commands in held)
