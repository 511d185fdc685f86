"""What a streaming query asks of a store: everything that its processes have to agree on."""

from __future__ import annotations

import base64
import os
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from quiver.checkpoint import CheckpointFolder, Note, read_notes
from quiver.disk import LocalDisk
from quiver.engine.start import Start
from quiver.errors import ConfigError, InputError, MissingError
from quiver.manifest import StoreManifest
from quiver.promote import union_schema
from quiver.scan import Scan
from quiver.source.stores import Limits
from quiver.spark import options as o
from quiver.spark.options import Options
from quiver.spark.reader import choose
from quiver.spark.schema import arrow_schema
from quiver.spark.span import Marks
from quiver.spark.tasks import METADATA

__all__ = ["StreamQuery", "stream_query", "stream_schema"]

_PARTITION_BYTES_MAX: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """One streaming source. ``stored`` has the columns that are read, in the store's own types.

    ``is_fixed``: the columns were named, so that others are no change.
    """

    path: str
    store_id: str
    slot: str
    slot_id: int
    stored: pa.Schema
    target: pa.Schema
    start: Start | Marks
    limits: Limits
    bytes_max: int
    count_min: int
    is_fixed: bool
    ignores_change: bool
    fails_on_loss: bool
    metadata: bool = False
    """Whether ``stored`` has columns that no file has: those of ``includeMetadata``."""
    subscriber: str = ""
    checkpoint: str = ""
    sink: str = ""

    @property
    def in_files(self) -> pa.Schema:
        """The columns that are read, without those that no file has."""
        if not self.metadata:
            return self.stored
        return pa.schema([field for field in self.stored if field.name not in METADATA.names])

    @property
    def note(self) -> Note:
        """What ``quiver spark-ack`` has to know."""
        schema: Any = self.in_files.remove_metadata()
        text = base64.b64encode(schema.serialize().to_pybytes()).decode()
        return Note(self.path, self.store_id, self.slot, self.subscriber, self.sink, text)


def stream_query(
    given: Options, scan: Scan, asked: StructType, *, is_inferred: bool
) -> StreamQuery:
    """Read the options of a stream; raises ConfigError or InputError that names what is wrong."""
    given.check_use("stream")
    subscriber = given.get(o.SUBSCRIBER, "")
    checkpoint = given.get(o.CHECKPOINT_LOCATION, "")
    if subscriber and not checkpoint:
        raise ConfigError(
            "subscriber: needs the option checkpointLocation as well",
            hint="say what the writer of the query is told: acks are made from what it has there",
        )
    for option in (o.CHECKPOINT_LOCATION, o.SINK):
        if given.get(option, "") and not subscriber:
            raise ConfigError(
                f"{option.name}: has no meaning without the option subscriber",
                hint="without a subscriber nothing is acked",
            )
    with closing(LocalDisk(scan.path)) as disk:
        manifest = StoreManifest.read(disk)
    slot = manifest.slots[str(scan.slot)]
    return StreamQuery(
        scan.path,
        manifest.store_id,
        slot.name,
        slot.slot_id,
        stored=_stored(given, scan, asked),
        target=arrow_schema(asked),
        start=_start(given),
        limits=Limits(given.get(o.MAX_SEGMENTS, 0) or None, given.get(o.MAX_BYTES, 0) or None),
        bytes_max=given.get(o.MAX_PARTITION_BYTES, _PARTITION_BYTES_MAX),
        count_min=given.get(o.MIN_PARTITIONS, os.cpu_count() or 1),
        is_fixed=not is_inferred or bool(given.get(o.COLUMNS, ())),
        ignores_change=given.get(o.SCHEMA_CHANGE, "fail") == "ignore",
        fails_on_loss=given.get(o.FAIL_ON_DATA_LOSS, True),
        metadata=given.get(o.INCLUDE_METADATA, False),
        subscriber=subscriber,
        checkpoint=checkpoint,
        sink=given.get(o.SINK, ""),
    )


def _start(given: Options) -> Start | Marks:
    """Read where a query without a checkpoint starts: one of three options says it."""
    since_ns = given.find(o.STARTING_TIME)
    found: dict[str, Start | Marks | None] = {
        o.STARTING_OFFSETS.name: given.find(o.STARTING_OFFSETS),
        o.STARTING_SEGMENT.name: given.find(o.STARTING_SEGMENT),
        o.STARTING_TIME.name: None if since_ns is None else _time(since_ns),
    }
    said = {name: value for name, value in found.items() if value is not None}
    if len(said) > 1:
        first, second, *_ = said
        raise ConfigError(f"{first}: {second} is given too", hint="say one of them")
    return next(iter(said.values()), "earliest")


def _time(since_ns: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_ns // 1000)


def _stored(given: Options, scan: Scan, asked: StructType) -> pa.Schema:
    """Find the store's types of the columns that are asked for; without any, Spark's own."""
    try:
        known = with_metadata(given, stream_schema(given, scan))
    except MissingError:
        fields = arrow_schema(asked)
        if given.get(o.INCLUDE_METADATA, False):
            own = {field.name: field for field in METADATA}
            fields = pa.schema([own.get(field.name, field) for field in fields])
        return _nullable(fields)
    return _nullable(choose(known, asked, given.get(o.TIMESTAMP_UNIT, "us")))


def with_metadata(given: Options, known: pa.Schema) -> pa.Schema:
    """Add the columns of ``includeMetadata`` if it is said; InputError if one is there already."""
    if not given.get(o.INCLUDE_METADATA, False):
        return known
    for name in METADATA.names:
        if name in known.names:
            raise InputError(
                f"column {name!r} would be there twice",
                hint="leave includeMetadata away, or the column out with the option columns",
            )
    return pa.schema([*known, *METADATA])


def stream_schema(given: Options, scan: Scan) -> pa.Schema:
    """Give the schema of a slot: that of its segments, and what the query read of it before.

    For once all is acked no segment is left to tell when the query is started again. Raises
    MissingError if nothing tells.
    """
    schemas = list(_remembered(given, scan))
    if any(part.schema is not None for part in scan.parts):
        schemas.append(scan.schema)
    if not schemas:
        return scan.schema  # Which says why there is none.
    try:
        return union_schema(schemas)
    except InputError as error:
        raise InputError(
            f"the query read other types before it was started again: {error.message}",
            hint="begin anew with an empty checkpoint, or leave the column out",
        ) from error


def _remembered(given: Options, scan: Scan) -> list[pa.Schema]:
    checkpoint, name = given.get(o.CHECKPOINT_LOCATION, ""), given.get(o.SUBSCRIBER, "")
    if not checkpoint or not name:
        return []
    with closing(LocalDisk(scan.path)) as disk:
        store_id = StoreManifest.read(disk).store_id
    folder = CheckpointFolder(checkpoint)
    try:
        whose = (name, store_id, scan.slot)
        notes = [n for n in read_notes(folder) if (n.subscriber, n.store_id, n.slot) == whose]
    finally:
        folder.close()
    found = []
    for note in notes:
        if note.schema:
            arrow: Any = pa.ipc
            schema = arrow.read_schema(pa.py_buffer(base64.b64decode(note.schema)))
            asked = schema.names if scan.columns is None else scan.columns
            found.append(pa.schema([field for field in schema if field.name in asked]))
    return found


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Let each column be null: segments that come may lack it."""
    return pa.schema([field.with_nullable(nullable=True) for field in schema])
