"""The directory: one row for each stream, and in its schema's metadata what the store is.

Columns of version 1, none with nulls: ``stream_id`` ``slot_id`` ``schema_fingerprint``
``byte_offset`` ``byte_length`` ``row_count`` ``chunk_count``. Ours behind them are optional.
Metadata values are text, because other readers refuse bytes that are no UTF-8 there.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, InputError, VersionError
from quiver.ipc import ARROW_FAULTS, check_schema, encode_file
from quiver.segment.format import CHUNKS_MAX, Footer
from quiver.segment.mould import SEQ_KEY, Mould, Moulds, Values
from quiver.segment.tables import (
    NANOSECONDS,
    Column,
    StreamEntry,
    find_column,
    need_column,
    read_table,
    take_times,
)
from quiver.slots import SLOTS_MAX, Slot, SlotTable

__all__ = ["Description", "decode_directory", "encode_columns", "encode_directory"]

_FORMAT: Final = b"1"
_FINGERPRINT: Final = pa.binary(32)
_NULL_COUNTS: Final = pa.list_(pa.uint64())

_CORE: Final = (
    ("stream_id", pa.uint32()),
    ("slot_id", pa.uint16()),
    ("schema_fingerprint", _FINGERPRINT),
    ("byte_offset", pa.uint64()),
    ("byte_length", pa.uint64()),
    ("row_count", pa.uint64()),
    ("chunk_count", pa.uint32()),
)
_EXTRAS: Final = (
    ("payload_type", pa.string()),
    ("crc32c", pa.uint32()),
    ("ingestion_ts_min", NANOSECONDS),
    ("ingestion_ts_max", NANOSECONDS),
    ("event_ts_min", NANOSECONDS),
    ("event_ts_max", NANOSECONDS),
    ("null_counts", _NULL_COUNTS),
    ("omitted_columns", pa.binary()),
    ("declared_schema", pa.binary()),
)
_METADATA_FAULTS: Final = (
    InputError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
_MOULDS: Final = Moulds()
_NULLABLE: Final = {"event_ts_min", "event_ts_max", "omitted_columns", "declared_schema"}
_SCHEMA: Final = pa.schema(
    [pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in (*_CORE, *_EXTRAS)]
)


@dataclass(frozen=True, slots=True)
class Description:
    """What the directory's metadata says about the store; empty in other writers' files.

    ``schemas`` holds each slot's representative schema as it was written; ``schema`` reads one.
    ``lost`` gives slots of bundles, by bundle index, that damage took from an earlier file of this
    segment: the bundle is not what was appended. ``compression`` is for information: each message
    says itself how its body is compressed.
    """

    store_id: str | None = None
    core: int | None = None
    segment_seq: int | None = None
    slots: SlotTable | None = None
    schemas: Mapping[int, bytes] | None = None
    lost: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    compression: str = "none"

    def schema(self, slot_id: int, limits: LimitsConfig) -> pa.Schema | None:
        """Read the representative schema of a slot; None if the file has none for it."""
        text = (self.schemas or {}).get(slot_id)
        if text is None:
            return None
        try:
            return _read_schema(text, limits)
        except (binascii.Error, *ARROW_FAULTS) as error:
            raise DamagedEntry(
                f"the schema of slot {slot_id} in a directory cannot be read: {error}"
            ) from error


@functools.lru_cache(maxsize=64)
def _read_schema(text: bytes, limits: LimitsConfig) -> pa.Schema:
    """Read a schema; most segments of a store have the same ones."""
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    check_schema(schema, limits)
    return schema


def encode_directory(
    streams: Sequence[StreamEntry], about: Description, schemas: Mapping[int, pa.Schema]
) -> pa.Buffer:
    """Write the directory; ``schemas`` are the representative ones by slot id."""
    columns = ([getattr(stream, each.name) for stream in streams] for each in fields(StreamEntry))
    arrays = [
        pa.array(values, type=field.type) for values, field in zip(columns, _SCHEMA, strict=True)
    ]
    return encode_columns(arrays, about, schemas)


def encode_columns(
    columns: Sequence[Column], about: Description, schemas: Mapping[int, pa.Schema]
) -> pa.Buffer:
    """Do the same of what entries say, as an array for each of their fields, in order.

    Each is of its column's type, or can be cast to it.
    """
    schema = _SCHEMA.with_metadata(_encode_description(about, schemas))
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return encode_file(schema, [pa.RecordBatch.from_arrays(arrays, schema=schema)])


def decode_directory(
    data: pa.Buffer, footer: Footer, *, end: int
) -> tuple[tuple[StreamEntry, ...], Description]:
    """Read the directory and check each stream against the file; ``end`` is where the footer is.

    Raises DamagedEntry for impossible or repeated ids, streams outside the file or on top of
    each other or of a table, and VersionError if our columns are of a newer kind.
    """
    known = _MOULDS.cast(data)
    if known is not None and len(known[0][0]) == footer.stream_count:
        columns, segment_seq, about = known
        about = replace(about, segment_seq=segment_seq)
    else:
        columns, about = _decode_table(data, footer.stream_count)
    streams = tuple(_entry(row) for row in zip(*columns, strict=True))
    _check_ids(streams)
    _check_regions(streams, footer, end)
    return streams, about


def _decode_table(data: pa.Buffer, count: int) -> tuple[Values, Description]:
    """Read a directory of a shape that is not known yet, and remember its shape."""
    batch = read_table(data, count, schema=_SCHEMA)
    arrays = [need_column(batch, name, kind) for name, kind in _CORE]
    arrays += [
        take_times(batch, name) if kind == NANOSECONDS else find_column(batch, name, kind)
        for name, kind in _EXTRAS
    ]
    columns: Values = [[None] * count if a is None else a.to_pylist() for a in arrays]
    about = _decode_description(batch.schema.metadata or {})
    mould = Mould.of(data, arrays, columns)
    if mould is not None:
        _MOULDS.keep(mould, data.size, about)
    return columns, about


def _entry(row: tuple[Any, ...]) -> StreamEntry:
    *start, null_counts, omitted_columns, declared = row
    counts = None if null_counts is None else tuple(null_counts)
    values = [*start, counts, omitted_columns, declared]
    return StreamEntry(*values)


def _check_ids(streams: Sequence[StreamEntry]) -> None:
    seen: set[int] = set()
    for stream in streams:
        if stream.stream_id in seen:
            raise DamagedEntry(f"stream {stream.stream_id} is in the directory twice")
        seen.add(stream.stream_id)
        if stream.slot_id >= SLOTS_MAX:
            raise DamagedEntry(
                f"stream {stream.stream_id} is of an impossible slot",
                expected=f"below {SLOTS_MAX}",
                found=stream.slot_id,
            )
        if stream.chunk_count > CHUNKS_MAX:
            raise DamagedEntry(
                f"stream {stream.stream_id} has too many chunks",
                expected=f"at most {CHUNKS_MAX}",
                found=stream.chunk_count,
            )


def _check_regions(streams: Sequence[StreamEntry], footer: Footer, end: int) -> None:
    """Streams and tables lie inside the file and apart. Where streams start is their own affair."""
    regions = [(s.byte_offset, s.byte_length, f"stream {s.stream_id}") for s in streams]
    regions.append((footer.directory_offset, footer.directory_length, "the directory"))
    regions.append((footer.manifest_offset, footer.manifest_length, "the manifest"))
    behind, before = 0, "the file"
    for start, length, what in sorted(regions):
        if length == 0 or start + length > end:
            raise DamagedEntry(
                f"{what} lies outside its file",
                expected=f"within 0..{end}",
                found=f"{start}..{start + length}",
            )
        if start < behind:
            raise DamagedEntry(
                f"{what} overlaps {before}", expected=f"at or after {behind}", found=start
            )
        behind, before = start + length, what


def _encode_description(
    about: Description, schemas: Mapping[int, pa.Schema]
) -> dict[bytes | str, bytes | str]:
    slots = [
        {
            "id": slot.slot_id,
            "name": slot.name,
            "payload_type_id": slot.payload_type_id,
            "event_time": slot.event_time,
        }
        for slot in about.slots or ()
    ]
    metadata: dict[bytes | str, bytes | str] = {
        b"quiver.format": _FORMAT,
        b"quiver.store_id": (about.store_id or "").encode(),
        b"quiver.core": b"%d" % (about.core or 0),
        SEQ_KEY: b"%d" % (about.segment_seq or 0),
        b"quiver.slots": json.dumps(slots, separators=(",", ":")).encode(),
    }
    if about.compression != "none":
        metadata[b"quiver.compression"] = about.compression.encode()
    if about.lost:
        lost = {str(index): list(slots) for index, slots in sorted(about.lost.items())}
        metadata[b"quiver.lost"] = json.dumps(lost, separators=(",", ":")).encode()
    for slot_id, schema in sorted(schemas.items()):
        text = base64.b64encode(schema.serialize().to_pybytes())
        metadata[b"quiver.schema.%d" % slot_id] = text
    return metadata


def _decode_description(metadata: Mapping[bytes, bytes]) -> Description:
    version = metadata.get(b"quiver.format")
    if version is None:
        return Description()
    if version != _FORMAT:
        raise VersionError(
            f"a segment's tables are of format {version!r}, only {_FORMAT!r} is known",
            hint="read it with the release of Quiver that wrote it, or a later one",
        )
    try:
        return Description(
            store_id=metadata[b"quiver.store_id"].decode(),
            core=int(metadata[b"quiver.core"]),
            segment_seq=int(metadata[SEQ_KEY]),
            slots=SlotTable(_slot(value) for value in json.loads(metadata[b"quiver.slots"])),
            schemas={
                slot_id: metadata[key]
                for slot_id in range(SLOTS_MAX)
                if (key := b"quiver.schema.%d" % slot_id) in metadata
            },
            lost={
                int(index): tuple(int(slot_id) for slot_id in slots)
                for index, slots in json.loads(metadata.get(b"quiver.lost", b"{}")).items()
            },
            compression=metadata.get(b"quiver.compression", b"none").decode(),
        )
    except _METADATA_FAULTS as error:
        raise DamagedEntry(f"a directory's metadata cannot be read: {error}") from error


def _slot(value: dict[str, Any]) -> Slot:
    event_time = value["event_time"]
    if not isinstance(event_time, str):
        raise InputError(f"the event time of a slot is {event_time!r}, which is no column name")
    return Slot(value["id"], value["name"], value["payload_type_id"], event_time)
