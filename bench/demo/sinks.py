"""The two subscribers: one takes bundle by bundle, the other reads whole segments with Spark.

Both keep the same order: what they took is durable on their side first, and acked after that. A
crash between the two would deliver again, never lose.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import quiver
from quiver.subscriber import BundleHandle

__all__ = ["Delivered", "read_back", "take_with_parquet", "take_with_spark"]

_BATCH_BUNDLES = 512
_SPARK_CONFIG = {
    # Arrow reads Spark's own default, INT96, as nanoseconds without a zone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass
class Delivered:
    """What one subscriber was given."""

    bundles: Counter[int] = field(default_factory=Counter)
    """How often each wal_seq came."""

    @property
    def repeated(self) -> int:
        """How many deliveries were not the first of their bundle."""
        return self.bundles.total() - len(self.bundles)

    def ack(self, handles: Sequence[BundleHandle]) -> None:
        """Ack bundles that are safe on this side."""
        for handle in handles:
            self.bundles[handle.wal_seq if handle.wal_seq is not None else -1] += 1
            handle.ack()


def take_with_parquet(
    store: quiver.Store, folder: str, *, on_bundles: Callable[[int], object]
) -> Delivered:
    """Take all bundles as subscriber ``parquet``; one file per slot for each 512 of them."""
    delivered = Delivered()
    subscription = store.subscribe("parquet")
    while handles := _poll(subscription, _BATCH_BUNDLES):
        parts: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for handle in handles:
            for slot, batch in handle.items():
                parts[slot].append(batch)
        for slot, batches in parts.items():
            # Named by where it starts: if it is delivered again it takes the same place.
            name = f"part-{handles[0].wal_seq:08}.parquet"
            _write_parquet(pa.Table.from_batches(batches), os.path.join(folder, slot, name))
        delivered.ack(handles)
        on_bundles(len(handles))
    return delivered


def _poll(subscription: quiver.engine.Subscription, most: int) -> list[BundleHandle]:
    handles: list[BundleHandle] = []
    while len(handles) < most and (handle := subscription.poll()) is not None:
        handles.append(handle)
    return handles


def _write_parquet(table: pa.Table, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.tmp", "wb") as file:
        pq.write_table(table, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.tmp", path)
    _sync(os.path.dirname(path))


def take_with_spark(
    store: quiver.Store,
    folder: str,
    *,
    log: str,
    on_step: Callable[[str], object],
) -> Delivered:
    """Copy each slot with a Spark job; then, as subscriber ``spark``, ack what it has read.

    ``on_step`` is told what comes next: the start, each slot, the acks.
    """
    read = {segment.segment_seq for segment in quiver.scan(store.path, slot="flights").segments}
    with _stderr_to(log):
        from quiver.spark import session

        on_step("starting Java")
        spark = session("quiver demo", config=_SPARK_CONFIG)
        try:
            for slot in store.slots:
                on_step(f"copying {slot.name}")
                frame = spark.read.format("quiver").option("slot", slot.name).load(store.path)
                frame.write.parquet(os.path.join(folder, slot.name))
        finally:
            spark.stop()
    on_step("acking")
    for place, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(place, name))
        _sync(place)
    delivered = Delivered()
    subscription = store.subscribe("spark")
    while handles := _poll(subscription, _BATCH_BUNDLES):
        if any(handle.segment_seq not in read for handle in handles):
            raise SystemExit("a segment came that Spark has not read")
        delivered.ack(handles)
    return delivered


def read_back(folder: str, slot: str) -> pa.Table:
    """Read what a subscriber wrote for one slot."""
    return ds.dataset(os.path.join(folder, slot), format="parquet").to_table()


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _stderr_to(path: str) -> Iterator[None]:
    """Send what Java writes to the terminal to a file; Python's own errors come out as ever."""
    kept = os.dup(2)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(descriptor)
