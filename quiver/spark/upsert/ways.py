"""The ways of a batch into runs: by rows that Spark moves, or straight from the segments.

==========  ====================================================================================
way         of which batches
==========  ====================================================================================
``driver``  straight, and small: a job of Spark takes longer to begin than they take; or Spark's
            workers are on the driver's machine, and have no other cores than its threads
``tasks``   straight, and not too large: each task reads all, and keeps what is of its buckets
``shares``  straight, and large: each task reads a share, and packs it for the shuffle
``rows``    all others: of other sources, or where Spark has computed something
==========  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quiver.clock import SystemClock
from quiver.errors import QuiverError
from quiver.ipc import child_types
from quiver.scan.snapshot import open_segment
from quiver.ship.objects import Bucket, FolderBucket
from quiver.source.stores import Span
from quiver.spark.stream_driver import StreamDriver
from quiver.spark.stream_plan import EXACT_MAX, Weighed, share_out
from quiver.spark.stream_query import StreamQuery
from quiver.spark.stream_read import check_query
from quiver.spark.tasks import open_store
from quiver.spark.upsert.applying import Applied, Applying
from quiver.spark.upsert.preparing import Preparing
from quiver.spark.upsert.sharing import Packing, Sharing
from quiver.spark.upsert.straight import Covered, Look, Straight
from quiver.spark.upsert.wire import PROGRESS, READ, RESULT_DDL, WIRE_DDL, read_progress, step
from quiver.upsert.persist import Snapshot

__all__ = ["Found", "Work"]

DRIVER_BYTES: Final = 16 << 20
"""At most so much of a store is read by the driver itself, for one batch."""
LOCAL_TIMES: Final = 8
"""So many times as much where all tasks of Spark would run on the driver's own cores."""
LOCAL_CORES: Final = 4
"""On more of them several processes may be faster than the threads of one."""
DRIVER_BUCKETS: Final = 64
"""And into at most so many buckets: for each it writes a file."""
TASKS_BYTES: Final = 128 << 20
"""At most so much is read by every task."""
_GROWS: Final = 16
"""What is compressed, or has words in dictionaries, counts so many times."""
TASKS_MAX: Final = 8
"""By at most so many of them: all but one do it in vain."""


@dataclass(frozen=True)
class Found:
    """What became of a batch; its runs belong to nobody yet."""

    way: str
    buckets: Sequence[Applied]
    ends: Mapping[str, int]
    rows: int
    """How many were read; 0 where Spark counted them."""

    @classmethod
    def of(cls, way: str, rows: Iterable[Any]) -> Found:
        """Read rows of ``wire.RESULT``."""
        buckets, ends, read = list[Applied](), dict[str, int](), 0
        for bucket, data in rows:
            if bucket == READ:
                read += int(bytes(data))
            elif bucket != PROGRESS:
                buckets.append(Applied.decode(bytes(data)))
            else:
                for split, place in read_progress(bytes(data)).items():
                    ends[split] = max(place, ends.get(split, 0))
        return cls(way, buckets, ends, read)


class _Given(NamedTuple):
    """What a batch has, found without Spark's help."""

    covered: Covered
    weighed: Sequence[Weighed]
    may_grow: bool
    """Whether values may take much more room than they take in the files."""

    @property
    def spans(self) -> list[Span]:
        return [one.span for one in self.weighed]

    @property
    def byte_count(self) -> int:
        return sum(one.byte_count for one in self.weighed)


@dataclass(frozen=True)
class Work:
    """What is done with a batch, whichever way it goes."""

    store: Bucket
    prepare: Preparing
    snapshot: Snapshot
    """With the definition that rows are written under."""
    straight: Straight | None = None
    look: Look = lambda *_: None

    def done(self, frame: DataFrame, batch: tuple[str, int]) -> Found:
        """Have a batch, which is a query and a number, made into runs."""
        spark = frame.sparkSession
        given = None if self.straight is None else self._given(self.straight, batch)
        if self.straight is None or given is None:
            return Found.of("rows", self._shuffled(frame.mapInArrow(step(self.prepare), WIRE_DDL)))
        found = self._straight(self.straight, given, spark)
        given.covered.tell(found.rows)
        return found

    def _given(self, straight: Straight, batch: tuple[str, int]) -> _Given | None:
        """Find what a batch has in the store; None if that is for Spark's own source to tell."""
        covered = self.look(*batch)
        if covered is None:
            return None
        query = straight.query
        try:
            check_query(query.checkpoint, batch[0])
            plain = replace(query, subscriber="", checkpoint="", sink="", start="earliest")
            with closing(StreamDriver(plain, clock=SystemClock())) as driver:
                weighed = driver.weighed(covered.start, covered.end)
            grows = any(map(_has_words, query.stored.types)) or _is_compressed(query, weighed)
            return _Given(covered, weighed, grows)
        except QuiverError:  # Whatever is wrong it says, in the words that are known.
            return None

    def _straight(self, straight: Straight, given: _Given, spark: SparkSession) -> Found:
        size, buckets = given.byte_count * (_GROWS if given.may_grow else 1), self.snapshot.buckets
        cores = max(1, spark.sparkContext.defaultParallelism)
        here = isinstance(self.store, FolderBucket) and buckets <= DRIVER_BUCKETS
        is_local = cores <= LOCAL_CORES and str(spark.sparkContext.master).startswith("local")
        if here and size <= DRIVER_BYTES * (LOCAL_TIMES if is_local else 1):
            rows = self._sharing(straight, given, 1).share(0, threads=min(buckets, cores))
            return Found.of("driver", chain.from_iterable(map(_pairs, rows)))
        if size <= TASKS_BYTES:
            parts = min(buckets, cores, TASKS_MAX)
            numbers = spark.range(0, parts, 1, parts)
            sharing = step(self._sharing(straight, given, parts))
            return Found.of("tasks", numbers.mapInArrow(sharing, RESULT_DDL).collect())
        query = straight.query
        shares = share_out(given.weighed, bytes_max=query.bytes_max, count_min=query.count_min)
        numbers = spark.range(0, len(shares), 1, len(shares))
        packing = step(Packing(straight, self.prepare, shares))
        return Found.of("shares", self._shuffled(numbers.mapInArrow(packing, WIRE_DDL)))

    def _sharing(self, straight: Straight, given: _Given, parts: int) -> Sharing:
        prepare = replace(self.prepare, parts=parts)
        return Sharing(straight, prepare, given.spans, self.store, self.snapshot)

    def _shuffled(self, packed: DataFrame) -> list[Any]:
        ordered = packed.repartitionById(self.prepare.parts, "part").sortWithinPartitions("bucket")
        apply = Applying(self.store, self.snapshot)
        return ordered.mapInArrow(step(apply), RESULT_DDL).collect()


def _pairs(rows: pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _is_compressed(query: StreamQuery, weighed: Sequence[Weighed]) -> bool:
    """Whether any of what is to be read is; of very much it makes no difference."""
    if len(weighed) > EXACT_MAX:
        return True
    with closing(open_store(query.path, query.store_id)) as disk:
        for one in weighed:
            with open_segment(disk, one.span.segment) as reader:
                if reader.compression != "none":
                    return True
    return False


def _has_words(kind: pa.DataType) -> bool:
    coded = isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType)
    return coded or any(map(_has_words, child_types(kind)))
