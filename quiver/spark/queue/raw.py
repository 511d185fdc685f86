"""The records of a queue as they are, for queues that hold something else than segments.

==================  =======================================================================
``sequence``        number of the entry
``index``           which record of its batch
``ingestion_time``  when the producer was given it
``metadata``        what the producer was given with it; null where nobody gave any
``value``           the record
==================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from quiver.ship.consumer import Batch, CallRange
from quiver.spark.batch import ROWS_MAX, merge
from quiver.spark.queue.fetching import Fetching
from quiver.spark.queue.shares import Share
from quiver.spark.schema import to_spark
from quiver.units import MILLISECOND

__all__ = ["RAW", "RawRecipe"]

_TIME: Final[Any] = pa.timestamp("ms", "UTC")
_FIELDS: Final[Any] = [
    ("sequence", pa.int64()),
    ("index", pa.int32()),
    ("ingestion_time", _TIME),
    ("metadata", pa.binary()),
    ("value", pa.binary()),
]
RAW: Final = pa.schema(_FIELDS)
_BYTES_MAX: Final = 64 << 20
"""Of records that become one batch of rows; one that is larger is alone."""


@dataclass(frozen=True)
class RawRecipe:
    """How to read records; ``target`` has some of the columns of ``RAW``, in Spark's types."""

    fetching: Fetching
    target: pa.Schema

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Read one share. Raises SourceError for a batch that is gone or damaged, RemoteError."""
        return merge(to_spark(batch, self.target) for batch in self._batches(share))

    def _batches(self, share: Share) -> Iterator[pa.RecordBatch]:
        for _, batch in self.fetching.ahead(share):
            for call, places in _calls(batch):
                time_ns = None if call is None else call.ingestion_time_ms * MILLISECOND
                if share.has(time_ns):
                    yield from (_rows(batch, call, some) for some in _portions(batch, places))


def _calls(batch: Batch) -> Iterator[tuple[CallRange | None, range]]:
    """Go through calls and the places of their records; those before the first belong to none."""
    starts = [call.start for call in batch.calls]
    ends = [*starts, len(batch.records)]
    if ends[0]:
        yield None, range(ends[0])
    for call, end in zip(batch.calls, ends[1:], strict=True):
        yield call, range(call.start, end)


def _portions(batch: Batch, places: range) -> Iterator[range]:
    """Cut records into pieces that are not too large for one batch of rows."""
    first, size = places.start, 0
    for place in places:
        record = memoryview(batch.records[place]).nbytes
        if place > first and (size + record > _BYTES_MAX or place - first == ROWS_MAX):
            yield range(first, place)
            first, size = place, 0
        size += record
    if first < places.stop:
        yield range(first, places.stop)


def _rows(batch: Batch, call: CallRange | None, places: range) -> pa.RecordBatch:
    records = batch.records[places.start : places.stop]

    def same(value: Any, kind: Any) -> Any:  # noqa: ANN401
        repeated: Any = pa.repeat
        return repeated(pa.scalar(value, kind), len(records))

    time = same(None if call is None else call.ingestion_time_ms, pa.int64())
    columns: list[Any] = [
        same(batch.sequence, pa.int64()),
        pa.array(list(places), pa.int32()),
        time.cast(_TIME),
        same(None if call is None else call.metadata, pa.binary()),
        pa.array([bytes(record) for record in records], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RAW)
