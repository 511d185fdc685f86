"""A queue with segments of stores in it, and a streaming query over it without a JVM."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import quiver
from quiver.segment import SegmentReader
from quiver.ship.batch import encode_batch
from quiver.ship.objects import Bucket, root_key
from quiver.ship.queue import Batch, Item, NewEntry, Queue, Span
from quiver.ship.shipper import ShippedSegment, decode_payload, encode_payload
from quiver.ship.shipper.facts import facts_of
from quiver.spark import QuiverDataSource
from quiver.spark.queue.driver import QueueDriver
from quiver.spark.queue.fetching import Fetching
from quiver.spark.queue.query import QueueQuery
from quiver.spark.queue.recipe import SlotRecipe
from quiver.testing import ManualClock, MemoryDisk

Record = tuple[bytes, bytes]
"""A payload, and what it is of."""


def log(*numbers: int, **more: Any) -> dict[str, pa.RecordBatch]:
    """Make a bundle of rows with these numbers."""
    columns = {name: [value] * len(numbers) for name, value in more.items()}
    return {"logs": pa.record_batch({"n": list(numbers), **columns})}


class Machine:
    """A store on some machine, whose segments are taken out as records of batches."""

    def __init__(self, *slots: str) -> None:
        self.disk, self.clock = MemoryDisk(), ManualClock()
        self._slots = list(slots) or ["logs", "metrics"]
        self.store_id = ""

    def opened(self, core: int = 0) -> quiver.Store:
        """Open the store to append."""
        return quiver.open(
            "memory",
            slots=self._slots,
            core=core,
            disk=self.disk,
            clock=self.clock,
            worker=False,
        )

    def segment(self, *bundles: Mapping[str, Any], core: int = 0) -> Record:
        """Write a segment of these bundles."""
        with self.opened(core) as store:
            for bundle in bundles:
                store.append(bundle)
            store.finalize()
        return self.newest(core)

    def newest(self, core: int = 0) -> Record:
        """Give the segment that was written last."""
        names = sorted(stat.name for stat in self.disk.list_dir(f"core_{core}/segments"))
        path = f"core_{core}/segments/{names[-1]}"
        with SegmentReader.open(self.disk, path) as reader:
            data = bytes(self.disk.map(path))
            self.store_id = str(reader.store_id)
            extra = reader.footer.extension
            assert extra is not None
            segment = ShippedSegment(
                self.store_id,
                core,
                extra.segment_seq,
                extra.wal_seq_first,
                extra.wal_seq_last,
                reader.bundle_count,
                *facts_of(reader, record_bytes=len(data)),
            )
        return encode_payload(segment), data


class Depot:
    """A queue, and who fills it."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket, self.queue = bucket, Queue(bucket)
        self.machine = Machine()

    def put(
        self,
        *records: Record,
        time_ms: int = 0,
        sized: bool = True,
        spans: Sequence[Span] = (),
    ) -> str:
        """Append one entry of these calls; gives the key of its batch."""
        key = f"{secrets.token_hex(13)}.batch"
        encoded = encode_batch([data for _, data in records])
        self.bucket.put(key, encoded.parts)
        items = [Item(place, time_ms, payload) for place, (payload, _) in enumerate(records)]
        about = Batch(encoded.byte_count, encoded.crc32c) if sized else None
        self.queue.append(NewEntry(root_key(self.bucket, key), items, about, spans))
        return key

    def logs(self, *numbers: int, core: int = 0, sized: bool = True, **more: Any) -> str:
        """Append an entry of one segment of one bundle of these numbers."""
        return self.put(self.machine.segment(log(*numbers, **more), core=core), sized=sized)

    def ship(self, *bundles: Mapping[str, Any]) -> str:
        """Append an entry of one segment, with its mark, as a shipper does."""
        payload, data = self.machine.segment(*bundles)
        segment = decode_payload(payload)
        span = Span(*segment.source, segment.segment_seq, segment.segment_seq)
        return self.put((payload, data), spans=[span])

    @property
    def sequences(self) -> list[int]:
        """Give the numbers of the entries that wait."""
        return [entry.sequence for entry in Queue(self.bucket).read().entries()]


def source(place: str, **options: str) -> QuiverDataSource:
    """Make the data source, as ``load`` does."""
    return QuiverDataSource({"path": place, **options})


def batch_rows(place: str, column: str = "n", schema: Any = None, **options: str) -> list[Any]:
    """Read a batch as Spark does: the source, the reader and the shares are pickled."""
    made = source(place, **options)
    asked = made.schema() if schema is None else schema
    reader = pickle.loads(pickle.dumps(made)).reader(asked)
    return _read(reader, reader.partitions(), column)


def stream(place: str, schema: Any = None, **options: str) -> Any:
    """Make the reader of a stream, which looks at the queue each time it is asked."""
    made = source(place, **{"pollInterval": "0s", **options})
    asked = made.schema() if schema is None else schema
    return pickle.loads(pickle.dumps(made)).streamReader(asked)


def rows(reader: Any, start: Any, end: Any, column: str = "n") -> list[Any]:
    """Read a batch of a stream as tasks do: each from a pickled copy."""
    return _read(reader, reader.partitions(start, end), column)


def _read(reader: Any, partitions: Sequence[Any], column: str) -> list[Any]:
    found = []
    for partition in partitions:
        copy, share = pickle.loads(pickle.dumps((reader, partition)))
        for batch in copy.read(share):
            found += batch.column(column).to_pylist()
    return found


def query_of(bucket: Bucket, **changes: Any) -> QueueQuery:
    """Make what a stream of numbers asks of slot ``logs`` of a queue in this process."""
    fetching = Fetching(bucket, fails_on_loss=changes.get("fails_on_loss", True))
    recipe = SlotRecipe(fetching, "logs", pa.schema([("n", pa.int64())]), is_fixed=True)
    return QueueQuery(bucket, "logs", recipe, **{"sweeps": False, **changes})


def driver_of(bucket: Bucket, clock: Any = None, **changes: Any) -> QueueDriver:
    """Make the driver of such a query."""
    return QueueDriver(query_of(bucket, **changes), clock=clock or ManualClock())


def taken(driver: QueueDriver, start: Any, end: Any) -> list[Any]:
    """Read what lies between two offsets."""
    recipe = driver._query.recipe
    return [
        number
        for share in driver.partitions(start, end)
        for batch in recipe.read(share)
        for number in batch.column("n").to_pylist()
    ]
