"""What a payload says of what is in a segment, so that nobody has to fetch it to plan a read."""

from __future__ import annotations

from typing import Final, NamedTuple

import blake3
import pyarrow as pa

from quiver.schemas import strip_metadata
from quiver.segment import SegmentReader
from quiver.ship.shipper.format import ANY_TIME

__all__ = ["Facts", "facts_of", "schema_number"]

_NUMBER_BYTES: Final = 8


class Facts(NamedTuple):
    """The last fields of a ``ShippedSegment``, in their order."""

    slots: int
    record_bytes: int
    first_ns: int
    last_ns: int
    schemas: tuple[int, ...]


def facts_of(reader: SegmentReader, *, record_bytes: int) -> Facts:
    """Look at the tables of a segment that is a record of so many bytes; raises DamageError."""
    ids = sorted({stream.slot_id for stream in reader.streams})
    times = reader.manifest.ingestion_ns()
    first_ns, last_ns = ANY_TIME
    if times is not None and len(times):
        first_ns, last_ns = int(times.min()), int(times.max())
    slots = sum(1 << slot_id for slot_id in ids)
    schemas = tuple(_number(reader, slot_id) for slot_id in ids)
    return Facts(slots, record_bytes, first_ns, last_ns, schemas)


def schema_number(name: str, schema: pa.Schema) -> int:
    """Give the number that stands for a slot's name and schema, whatever its metadata says."""
    message = strip_metadata(schema).serialize().to_pybytes()
    digest = blake3.blake3(name.encode() + b"\0" + message).digest(_NUMBER_BYTES)
    return int.from_bytes(digest, "little") or 1


def _number(reader: SegmentReader, slot_id: int) -> int:
    """Give the number of a slot; 0 if its streams have no schema in common."""
    schema = reader.representative_schema(slot_id)
    if schema is None or reader.slots is None:
        return 0
    return schema_number(reader.slots[slot_id].name, schema)
