"""A record of a batch, opened as the segment that its payload says it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from quiver.errors import DamagedEntry
from quiver.promote import union_schema
from quiver.schemas import strip_metadata
from quiver.segment import SegmentReader
from quiver.segment.memory import open_bytes
from quiver.ship.consumer import Batch
from quiver.ship.shipper import ShippedSegment, decode_payload

__all__ = ["open_call", "slot_id_of", "slot_schema"]


@contextmanager
def open_call(batch: Batch, index: int) -> Iterator[tuple[ShippedSegment, SegmentReader]]:
    """Open the segment of one call; DamageError if it is not the one that the payload names."""
    call = batch.calls[index]
    segment = decode_payload(call.metadata)
    place = f"{batch.location} record {call.start}"
    records = batch.of_call(index)
    if not records:
        raise DamagedEntry("a call has no record", path=place)
    with open_bytes(records[0], place=place, lazy=True) as reader:
        extension = reader.footer.extension
        found = (reader.store_id, None if extension is None else extension.segment_seq)
        if found != (segment.store_id, segment.segment_seq):
            raise DamagedEntry(
                "a record is not the segment that the queue names",
                path=place,
                expected=f"segment {segment.segment_seq} of store {segment.store_id}",
                found=f"segment {found[1]} of store {found[0]}",
            )
        yield segment, reader


def slot_id_of(reader: SegmentReader, name: str) -> int | None:
    """Give the id of a slot by the table of the segment itself; None if it has no such slot."""
    return None if reader.slots is None else reader.slots.ids.get(name)


def slot_schema(
    reader: SegmentReader, slot_id: int, *, needed: Callable[[str], bool] = lambda _: True
) -> pa.Schema | None:
    """Give the schema of a slot without metadata; None if nothing of it is there.

    Where its streams have none in common only ``needed`` columns count. Raises InputError if those
    have none.
    """
    schema = reader.representative_schema(slot_id)
    if schema is not None:
        return strip_metadata(schema)
    streams = [stream.stream_id for stream in reader.streams if stream.slot_id == slot_id]
    schemas = [strip_metadata(reader.stream_schema(stream)) for stream in streams]
    chosen = [pa.schema([f for f in schema if needed(f.name)]) for schema in schemas]
    return union_schema(chosen) if chosen else None
