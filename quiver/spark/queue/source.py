"""What the data source does where a path names a queue: its snapshot, its schema, its readers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from quiver.errors import ConfigError, InputError, QuiverError
from quiver.ship.consumer import Fetcher
from quiver.ship.queue import Entry, Queue
from quiver.ship.shipper import ShippedSegment
from quiver.source.stores import Limits
from quiver.spark import options as o
from quiver.spark.options import Option, Options
from quiver.spark.queue.address import bucket_of, is_queue
from quiver.spark.queue.driver import QueueDriver
from quiver.spark.queue.entries import Sieve
from quiver.spark.queue.fetching import Fetching
from quiver.spark.queue.memory import recall
from quiver.spark.queue.query import QueueQuery, read_share
from quiver.spark.queue.raw import RAW, RawRecipe
from quiver.spark.queue.reader import QueueReader
from quiver.spark.queue.recipe import SlotRecipe
from quiver.spark.queue.shares import Share, share_out
from quiver.spark.queue.slots import Known, look_up
from quiver.spark.reader import choose
from quiver.spark.schema import arrow_schema
from quiver.spark.stream import QuiverStreamReader
from quiver.spark.tasks import METADATA
from quiver.units import MILLISECOND

__all__ = ["QueueSource", "queue_at"]

_BATCH_BYTES: Final = 256 << 20
_STREAM_BYTES: Final = 128 << 20
_POLL_NS: Final = 100 * MILLISECOND
_WITH_SLOT: Final[tuple[Option[Any], ...]] = (o.COLUMNS, o.INCLUDE_METADATA, o.SCHEMA_CHANGE)
_WITH_ACKS: Final[tuple[Option[Any], ...]] = (o.CHECKPOINT_LOCATION, o.SINK, o.SWEEP)


def queue_at(path: str, given: Options) -> QueueSource | QuiverError | None:
    """Give the queue that a path names, or why it cannot be looked at; None if it names none."""
    if not is_queue(path):
        return None
    try:
        return QueueSource(given, path)
    except QuiverError as error:
        return error.with_traceback(None)  # Frames cannot be pickled, and hold what they saw.


class QueueSource:
    """One queue as one ``load`` sees it; may be pickled, credentials included."""

    def __init__(self, given: Options, path: str) -> None:
        """Read the manifest. Raises ConfigError, RemoteError, DamageError."""
        self._given = given
        self._bucket = bucket_of(path, given)
        self._slot = given.get(o.SLOT, "")
        for option in _WITH_SLOT:
            if not self._slot and given.find(option) is not None:
                raise ConfigError(
                    f"{option.name}: has no meaning without the option slot",
                    hint="without it the records of the queue are read as they are",
                )
        view = Queue(self._bucket).read()
        self._entries = tuple(view.entries(kept=True))
        self._known: Known | None = None

    @property
    def _place(self) -> str:
        return self._bucket.place

    def schema(self) -> pa.Schema:
        """Give the columns in their own types; a batch of each schema is fetched to know them."""
        if not self._slot:
            return RAW
        return self._with_added(self._stored())

    def reader(self, asked: StructType, *, is_inferred: bool) -> QueueReader:
        """Plan the reading of the snapshot. Raises ConfigError, InputError, MissingError."""
        given = self._given
        given.check_use("queue")
        times = given.find(o.STARTING_TIME), given.find(o.ENDING_TIME)
        recipe = self._recipe(asked, is_inferred=is_inferred)
        sieve = Sieve(
            {}, place=self._place, is_wanted=self._wanted(times), has_segments=bool(self._slot)
        )
        found = []
        for entry in self._waiting():
            seen = sieve.look(entry)
            sieve.let_through(seen)
            if seen.descriptor is not None:
                found.append(seen.descriptor)
        parts = share_out(
            found,
            bytes_max=given.get(o.MAX_PARTITION_BYTES, _BATCH_BYTES),
            count_min=given.get(o.MIN_PARTITIONS, os.cpu_count() or 1),
        )
        return QueueReader(recipe, [Share(part, *times) for part in parts], place=self._place)

    def stream_reader(self, asked: StructType, *, is_inferred: bool) -> QuiverStreamReader:
        """Read as batches come. Raises ConfigError, InputError, MissingError."""
        given = self._given
        given.check_use("queue_stream")
        since_ns = given.find(o.STARTING_TIME)
        if since_ns is not None and given.find(o.STARTING_OFFSETS) is not None:
            raise ConfigError(
                f"{o.STARTING_OFFSETS.name}: {o.STARTING_TIME.name} is given too",
                hint="say one of them",
            )
        consumes = given.get(o.CONSUME, True)
        sink = given.get(o.SINK, "")
        for option in _WITH_ACKS:
            if not consumes and given.find(option) is not None:
                raise ConfigError(
                    f"{option.name}: has no meaning with consume=false", hint="nothing is acked"
                )
        recipe = self._recipe(asked, is_inferred=is_inferred)
        query = QueueQuery(
            self._bucket,
            self._slot,
            recipe,
            known=self._known,
            schema=recipe.stored if isinstance(recipe, SlotRecipe) else None,
            start="latest" if given.get(o.STARTING_OFFSETS, "") == "latest" else "earliest",
            since_ns=since_ns,
            limits=Limits(given.get(o.MAX_SEGMENTS, 0) or None, given.get(o.MAX_BYTES, 0) or None),
            bytes_max=given.get(o.MAX_PARTITION_BYTES, _STREAM_BYTES),
            count_min=given.get(o.MIN_PARTITIONS, os.cpu_count() or 1),
            consumes=consumes,
            poll_ns=given.get(o.POLL_INTERVAL, _POLL_NS),
            sweeps=given.get(o.SWEEP, True),
            fails_on_loss=given.get(o.FAIL_ON_DATA_LOSS, True),
            checkpoint=self._checkpoint,
            sink=sink,
        )
        return QuiverStreamReader(query, decide=QueueDriver, read=read_share)

    @property
    def _checkpoint(self) -> str:
        """The checkpoint if it is named and on this machine; else Spark is believed."""
        value = self._given.get(o.CHECKPOINT_LOCATION, "")
        return "" if "://" in value and not value.startswith("file:") else value

    def _recipe(self, asked: StructType, *, is_inferred: bool) -> SlotRecipe | RawRecipe:
        given, nanoseconds = self._given, self._given.get(o.TIMESTAMP_UNIT, "us")
        fetching = Fetching(self._bucket, fails_on_loss=given.get(o.FAIL_ON_DATA_LOSS, True))
        if not self._slot:
            choose(RAW, asked, "us")
            return RawRecipe(fetching, arrow_schema(asked))
        stored = None
        if is_inferred:
            stored = _nullable(choose(self.schema(), asked, nanoseconds))
        return SlotRecipe(
            fetching,
            self._slot,
            arrow_schema(asked),
            stored,
            nanoseconds=nanoseconds,
            is_fixed=not is_inferred or bool(given.get(o.COLUMNS, ())),
            ignores_change=given.get(o.SCHEMA_CHANGE, "fail") == "ignore",
            metadata=given.get(o.INCLUDE_METADATA, False),
        )

    def _waiting(self) -> list[Entry]:
        return [entry for entry in self._entries if not entry.is_acked]

    def _wanted(self, times: tuple[int | None, int | None]) -> Callable[[ShippedSegment], bool]:
        known, (since_ns, until_ns) = self._known, times

        def is_wanted(segment: ShippedSegment) -> bool:
            if since_ns is not None and segment.last_ns < since_ns:
                return False
            if until_ns is not None and segment.first_ns >= until_ns:
                return False
            return known is None or known.may_have(segment)

        return is_wanted

    def _stored(self) -> pa.Schema:
        """Find the slot's columns: in what is there, and in what the query had before."""
        given, columns = self._given, self._given.get(o.COLUMNS, ())
        if self._known is None:
            self._known = look_up(
                self._entries,
                self._slot,
                fetcher=Fetcher(self._bucket),
                place=self._place,
                columns=columns,
                fails_on_loss=given.get(o.FAIL_ON_DATA_LOSS, True),
            )
        known = self._known
        if self._checkpoint:
            found = recall(self._checkpoint, queue=self._place, slot=self._slot)
            if found is not None:
                fields = [field for field in found if field.name not in METADATA.names]
                known.before = pa.schema(fields)
        try:
            return known.schema(self._place, columns)
        except InputError as error:
            if known.before is None:
                raise
            raise InputError(
                f"{error.message} (of what the query read before it was started again, as well)",
                hint="begin anew with an empty checkpoint, or leave the column out",
            ) from error

    def _with_added(self, known: pa.Schema) -> pa.Schema:
        """Add the columns of ``includeMetadata`` if it is said; InputError if one is there."""
        if not self._given.get(o.INCLUDE_METADATA, False):
            return known
        for name in METADATA.names:
            if name in known.names:
                raise InputError(
                    f"column {name!r} would be there twice",
                    hint="leave includeMetadata away, or the column out with the option columns",
                )
        return pa.schema([*known, *METADATA])


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(nullable=True) for field in schema])
