"""A batch in one step: each task reads all of its rows, and keeps those of its buckets.

To hash the keys of a million rows takes 40 ms; a shuffle takes longer to begin. So a batch that is
not too large is read by all tasks, and nothing goes from one to another. Of a larger one each task
reads a share, as it does of any stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.ship.objects import Bucket
from quiver.source.stores import Span
from quiver.spark.upsert.applying import Applied, applied
from quiver.spark.upsert.preparing import Preparing
from quiver.spark.upsert.straight import Straight
from quiver.spark.upsert.wire import PROGRESS, READ, encode_progress, read_count, result
from quiver.spark.worker import settle
from quiver.upsert.persist import Snapshot
from quiver.upsert.rows import Commands, buckets_of, reduce, settled

__all__ = ["Packing", "Sharing"]

Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packing:
    """The first step of a batch whose rows are read straight, for ``mapInArrow``."""

    straight: Straight
    prepare: Preparing
    shares: Sequence[Sequence[Span]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take numbers of shares, give rows of ``wire.WIRE``."""
        settle()
        for number in _numbers(batches):
            ends = self.prepare.ends()
            tables = self.straight.tables(self.shares[number], ends)
            read = _Counted(tables)
            yield from self.prepare.packed(read, ends)
            yield read_count(read.rows)


@dataclass(frozen=True)
class Sharing:
    """Both steps of a batch, for ``mapInArrow``, or for the driver itself."""

    straight: Straight
    prepare: Preparing
    spans: Sequence[Span]
    store: Bucket
    snapshot: Snapshot
    """With the definition that rows are written under."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take numbers of tasks, give rows of ``wire.RESULT``."""
        settle()
        for number in _numbers(batches):
            yield from self.share(number)

    def share(self, number: int, *, threads: int = 1) -> Iterator[pa.RecordBatch]:
        """Do what one task does; the first one says how far all of them came, and reads for all."""
        ends = self.prepare.ends()
        read = _Counted(self.straight.tables(self.spans, ends, cuts=False))
        commands, rows = self._own(read, number)
        if commands is not None:
            one = partial(self._apply, settled(commands))
            with ThreadPoolExecutor(threads) as pool:
                run = map if threads == 1 else pool.map
                for bucket, done in run(one, _by_bucket(commands, rows, self.snapshot.buckets)):
                    yield result(bucket, done.encode())
        if number:
            return
        if ends is not None and ends.next:
            yield result(PROGRESS, encode_progress(ends.next))
        yield result(READ, str(read.rows).encode())

    def _own(
        self, tables: Iterable[tuple[int, pa.Table]], number: int
    ) -> tuple[Commands | None, Places]:
        """Give commands, and which of them are of the buckets of one task.

        Of a large bundle they are views; only where there are several pieces they are copied.
        """
        buckets, parts = self.snapshot.buckets, self.prepare.parts
        whole: list[tuple[Commands, Places]] = []
        taken: list[Commands] = []
        for _, table in tables:
            taken += [commands.take(rows) for commands, rows in whole]
            commands = self.prepare.commands(table)
            owners = buckets_of(commands.hashes, buckets) % parts
            whole = [(commands, np.flatnonzero(owners == number))]
        if not taken:
            return whole[0] if whole else (None, np.arange(0))
        taken += [commands.take(rows) for commands, rows in whole]
        commands = Commands.concat(taken)
        return commands, np.arange(len(commands))

    def _apply(self, commands: Commands, work: tuple[int, Places]) -> tuple[int, Applied]:
        bucket, rows = work
        own = reduce(commands, rows)
        return bucket, applied(self.store, self.snapshot, own, bucket=bucket)


class _Counted:
    """Tables on their way, and how many rows were read for them."""

    def __init__(self, tables: Iterable[tuple[int, pa.Table]]) -> None:
        self._tables = tables
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        for read, table in self._tables:
            self.rows += read
            yield read, table


def _by_bucket(commands: Commands, rows: Places, buckets: int) -> list[tuple[int, Places]]:
    """Give for each bucket of which there are commands the places of these, in order."""
    owners = buckets_of(commands.hashes[rows], buckets)
    order = np.argsort(owners, kind="stable")
    owners, rows = owners[order], rows[order]
    edges = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    return [(int(owners[start]), rows[start:end]) for start, end in pairwise(edges) if end > start]


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        numbers: Any = batch.column(0)
        yield from numbers.to_pylist()
