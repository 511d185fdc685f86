"""One file of a store, taken apart item by item; what is damaged is an item too.

=============  =====================  =======================================================
kind of file   known by               items
=============  =====================  =======================================================
``wal``        first bytes            header, then bundles, other entries, damage, the tail
``sidecar``    first bytes            the place
``segment``    its end                footer, streams, bundles
``acks``       first bytes            header, then records and damage in order of offset
``checkpoint`` first bytes            header, then subscribers
``inbox``      first bytes            one
``progress``   first bytes            each of its two copies
``manifest``   JSON with a store id   the fields
=============  =====================  =======================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from quiver.acks import Ack, Record
from quiver.acks.checkpoint import CHECKPOINT_MAGIC
from quiver.acks.copies import CHECKPOINT_FILE_BYTES_MAX, read_copies
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE, Frame, decode_frame, decode_record
from quiver.acks.format import MAGIC as ACKS_MAGIC
from quiver.acks.inbox import INBOX_BYTES_MAX, INBOX_MAGIC, decode_inbox
from quiver.acks.opening import LOG_BYTES_MAX
from quiver.acks.replay import read_log
from quiver.cli.output import format_time
from quiver.cli.progress import ProgressItem, note_fields, noted_items, progress_items
from quiver.config import HARD_LIMITS
from quiver.disk import Disk, File
from quiver.errors import DamagedEntry, DamageError, InputError
from quiver.progress.format import MAGIC as PROGRESS_MAGIC
from quiver.segment import SegmentReader
from quiver.segment.format import MAGIC as SEGMENT_MAGIC
from quiver.segment.format import TRAILER_BYTES, decode_footer, decode_trailer
from quiver.wal import own_generation, rotated_generation
from quiver.wal.format import (
    BUNDLE,
    CHECKPOINT,
    HEAD,
    HEADER,
    HEADER_BYTES,
    LENGTH,
    NOTE_LENGTH,
    decode_bundle,
    decode_checkpoint,
)
from quiver.wal.format import MAGIC as WAL_MAGIC
from quiver.wal.reader import BadRegion, Entry, walk
from quiver.wal.sidecar import SIDECAR, SIDECAR_MAGIC, decode_sidecar

__all__ = ["KINDS", "Item", "dissect", "recognize"]

_MANIFEST_BYTES_MAX: Final = 1 << 20
_ARROW_MAGIC: Final = b"ARROW1"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a file, at ``[offset, offset + byte_count)``; ``kind`` says what."""

    kind: str
    offset: int
    byte_count: int
    fields: dict[str, Any] = field(default_factory=dict)


Items = Iterator[Item]


def recognize(disk: Disk, path: str) -> str:
    """Tell what kind of file this is from its bytes; raises InputError if it is none of ours."""
    with closing(disk.open(path)) as file:
        head, file_bytes = file.read(0, 64), file.size()
        end = file.read(max(0, file_bytes - TRAILER_BYTES), TRAILER_BYTES)
    for magic, kind in _MAGICS.items():
        if head.startswith(magic):
            return kind
    if SEGMENT_MAGIC in end:
        return "segment"
    if head.lstrip().startswith(b"{"):
        return "manifest"
    place = disk.locate(path)
    if not head:
        raise InputError(f"{place} is empty", hint="a store leaves no empty file behind")
    hint = f"if it is one with a damaged beginning or end, say which: --as {'|'.join(KINDS)}"
    if head.startswith(_ARROW_MAGIC):
        hint = "if it is a segment whose end is gone: --as segment"
    raise InputError(f"{place} is no file of a Quiver store", hint=hint)


def dissect(disk: Disk, path: str, kind: str) -> Items:
    """Go through the items of a file that is taken to be of one of ``KINDS``."""
    try:
        yield from _DISSECTORS[kind](disk, path)
    except DamageError as error:
        yield _damage(error)


def _damage(error: DamageError, end: int | None = None, *, kind: str = "damage") -> Item:
    return Item(
        kind,
        error.offset,
        0 if end is None else end - error.offset,
        {
            "message": error.message,
            "expected": None if error.expected is None else str(error.expected),
            "found": None if error.found is None else str(error.found),
        },
    )


# WAL -------------------------------------------------------------------------------------------


def _wal(disk: Disk, path: str) -> Items:
    with closing(disk.open(path)) as file:
        yield _wal_header(file)
        items = walk(
            file,
            HEADER_BYTES,
            entry_bytes_max=HARD_LIMITS.entry_bytes,
            is_active=rotated_generation(path) is None,
        )
        for item in items:
            if isinstance(item, Entry):
                if item.damage is not None:
                    yield _damage(item.damage, item.offset)
                yield _wal_entry(item)
                if (note := item.frame.note) is not None:
                    at = item.offset + LENGTH.size + HEAD.size + NOTE_LENGTH.size
                    yield Item("progress", at, len(note), note_fields(note))
            elif isinstance(item, BadRegion):
                yield _damage(item.error, item.end)
            elif item.error is not None:
                yield _damage(item.error, item.end, kind="torn" if item.is_torn else "damage")
            elif item.end < file.size():
                yield Item("older", item.end, file.size() - item.end)


def _wal_header(file: File) -> Item:
    data = file.read(0, HEADER_BYTES)
    if len(data) < HEADER_BYTES or not data.startswith(WAL_MAGIC):
        return _damage(DamagedEntry("the header is damaged", offset=0, found=data.hex()), len(data))
    _, version, _, digest = HEADER.unpack(data)
    known: dict[str, Any] = {"version": version, "layout_digest": digest.hex()}
    if (own := own_generation(file)) is not None:
        known["generation"] = own
    return Item("header", 0, len(data), known)


def _wal_entry(item: Entry) -> Item:
    frame = item.frame
    fields: dict[str, Any] = {
        "wal_seq": frame.wal_seq,
        "ingestion_time": format_time(frame.ingestion_ns),
    }
    if frame.entry_type == CHECKPOINT:
        return _wal_checkpoint(item)
    if frame.entry_type != BUNDLE:
        fields["entry_type"] = frame.entry_type
        return Item("entry", item.offset, item.end - item.offset, fields)
    fields["slots"] = [
        {
            "slot_id": payload.slot_id,
            "payload_type_id": payload.payload_type_id,
            "row_count": payload.row_count,
            "payload_bytes": len(payload.data),
            "fingerprint": payload.fingerprint.hex(),
        }
        for payload in decode_bundle(frame).payloads
    ]
    return Item("bundle", item.offset, item.end - item.offset, fields)


def _wal_checkpoint(item: Entry) -> Item:
    try:
        place = decode_checkpoint(item.frame)
    except DamageError as error:
        return _damage(error.at("", base=item.offset - error.offset), item.end)
    fields = {
        "wal_seq": item.frame.wal_seq,
        "truncate_generation": place.generation,
        "truncate_offset": place.offset,
    }
    return Item("checkpoint", item.offset, item.end - item.offset, fields)


def _sidecar(disk: Disk, path: str) -> Items:
    with closing(disk.open(path)) as file:
        data = file.read(0, SIDECAR.size + 1)
    place = decode_sidecar(data)
    fields = {"generation": place.generation, "truncate_offset": place.offset}
    yield Item("place", 0, len(data), fields)


# segment ---------------------------------------------------------------------------------------


def _segment(disk: Disk, path: str) -> Items:
    yield _footer(disk, path)
    with SegmentReader.open(disk, path) as reader:
        for stream in reader.streams:
            fields = asdict(stream)
            fields["fingerprint"] = stream.fingerprint.hex()
            fields["crc32c"] = _hex(stream.crc32c)
            if stream.declared_schema is not None:
                fields["declared_schema"] = str(reader.stream_schema(stream.stream_id))
            for name in ("ingestion", "event"):
                for end in ("min", "max"):
                    fields[f"{name}_time_{end}"] = format_time(fields.pop(f"{name}_ns_{end}"))
            offset, length = fields.pop("byte_offset"), fields.pop("byte_length")
            yield Item("stream", offset, length, fields)
            try:
                for index in range(stream.chunk_count):
                    reader.chunk(stream.stream_id, index)
            except DamageError as error:
                yield _damage(error)
        for index in range(reader.bundle_count):
            yield _bundle(reader, index)
        yield from _progress_items(noted_items(disk, reader.info))
        try:
            reader.verify()
        except DamageError as error:
            yield _damage(error)


def _footer(disk: Disk, path: str) -> Item:
    with closing(disk.open(path)) as file:
        file_bytes = file.size()
        end = max(0, file_bytes - TRAILER_BYTES)
        trailer = decode_trailer(file.read(end, TRAILER_BYTES), file_bytes=file_bytes)
        start = end - trailer.footer_length
        footer = decode_footer(file.read(start, trailer.footer_length), offset=start)
    fields = asdict(footer)
    for name in ("directory", "manifest"):
        fields[f"{name}_bytes"] = fields.pop(f"{name}_length")
    extension = fields.pop("extension") or {}
    for name in ("ingestion_ns_min", "ingestion_ns_max"):
        extension[name.replace("_ns_", "_time_")] = format_time(extension.pop(name, None))
    extension["index_bytes"] = extension.pop("index_length", None)
    extension["progress_bytes"] = extension.pop("progress_length", None)
    for name in ("directory_crc32c", "manifest_crc32c", "index_crc32c", "progress_crc32c"):
        extension[name] = _hex(extension.get(name))
    fields.update(extension)
    fields["crc32"] = _hex(trailer.crc32)
    return Item("footer", start, trailer.footer_length + TRAILER_BYTES, fields)


def _hex(checksum: int | None) -> str | None:
    return None if checksum is None else f"{checksum:08x}"


def _bundle(reader: SegmentReader, index: int) -> Item:
    entry = reader.bundle_entry(index)
    fields = {
        "bundle_index": entry.bundle_index,
        "wal_seq": entry.wal_seq,
        "ingestion_time": format_time(entry.ingestion_ns),
        "event_time_min": format_time(entry.event_ns_min),
        "event_time_max": format_time(entry.event_ns_max),
        "payload_bytes": entry.byte_count,
        "refs": [asdict(ref) for ref in entry.refs],
    }
    return Item("bundle", reader.footer.manifest_offset, 0, fields)


# acks, manifest --------------------------------------------------------------------------------


def _acks(disk: Disk, path: str) -> Items:
    with closing(disk.open(path)) as file:
        data = file.read(0, LOG_BYTES_MAX)
    content = read_log(data)
    items = [_damage(error) for error in content.faults]
    if content.base_seq is not None:
        items.append(Item("header", 0, HEADER_SIZE, {"base_record_seq": content.base_seq}))
    for start, stop in content.kept:
        items += _records(data, start, stop)
    if not content.faults and len(data) > content.end:
        fields = {"message": "what follows was never finished", "expected": None, "found": None}
        items.append(Item("torn", content.end, len(data) - content.end, fields))
    yield from sorted(items, key=lambda item: item.offset)


def _records(data: bytes, start: int, stop: int) -> Items:
    """Read the records in a stretch of sound frames."""
    frames: list[Frame] = []
    for offset in range(start, stop, FRAME_SIZE):
        frame = decode_frame(data[offset : offset + FRAME_SIZE])
        frames.append(frame)
        if frame.part + 1 < frame.part_count:
            continue
        record = decode_record(frames)
        length = len(frames) * FRAME_SIZE
        fields: dict[str, Any] = {"record_seq": frame.record_seq}
        name = f"kind {frame.kind}" if record is None else _record_name(record)
        for key, value in _record_fields(record).items():
            is_time = key in ("at_ns", "not_before_ns")
            fields[key.replace("_ns", "_time")] = format_time(value) if is_time else value
        yield Item(name, offset + FRAME_SIZE - length, length, fields)
        frames = []


def _record_fields(record: Record | None) -> dict[str, Any]:
    if record is None:
        return {}
    return record._asdict() if isinstance(record, Ack) else asdict(record)


def _record_name(record: Record) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(record).__name__).lower()


def _checkpoint(disk: Disk, path: str) -> Items:
    with closing(disk.open(path)) as file:
        data = file.read(0, CHECKPOINT_FILE_BYTES_MAX)
    checkpoint, damage = read_copies(data)
    if checkpoint is None:
        raise damage[0]
    floor = checkpoint.floor
    fields: dict[str, Any] = {
        "record_seq": checkpoint.record_seq,
        "next_segment_seq": floor.next_segment_seq,
        "next_wal_seq": floor.next_wal_seq,
        "subscriber_count": len(checkpoint.subscribers),
    }
    yield Item("header", 0, len(data), fields)
    for state in checkpoint.subscribers:
        fields = asdict(state)
        fields["last_seen_time"] = format_time(fields.pop("last_seen_ns") or None)
        for nack in fields["nacks"]:
            nack["not_before_time"] = format_time(nack.pop("not_before_ns"))
        yield Item("subscriber", 0, 0, fields)
    if damage:
        raise damage[0]


def _inbox(disk: Disk, path: str) -> Items:
    with closing(disk.open(path)) as file:
        data = file.read(0, INBOX_BYTES_MAX + 1)
    fields = asdict(decode_inbox(data))
    fields["at_time"] = format_time(fields.pop("at_ns"))
    for nack in fields["nacks"]:
        nack["not_before_time"] = format_time(nack.pop("not_before_ns"))
    yield Item("inbox", 0, len(data), fields)


def _manifest(disk: Disk, path: str) -> Items:
    with closing(disk.open(path)) as file:
        data = file.read(0, _MANIFEST_BYTES_MAX)
    try:
        fields = json.loads(data)
        store_id = fields["store_id"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{disk.locate(path)} is JSON of something else, or damaged") from error
    del store_id
    yield Item("manifest", 0, len(data), fields)


def _progress(disk: Disk, path: str) -> Items:
    return _progress_items(progress_items(disk, path))


def _progress_items(items: Iterable[ProgressItem]) -> Items:
    for offset, length, found in items:
        if isinstance(found, DamageError):
            yield _damage(found, offset + length)
        else:
            yield Item("progress", offset, length, found)


_MAGICS: Final = {
    PROGRESS_MAGIC: "progress",
    WAL_MAGIC: "wal",
    SIDECAR_MAGIC: "sidecar",
    ACKS_MAGIC: "acks",
    CHECKPOINT_MAGIC: "checkpoint",
    INBOX_MAGIC: "inbox",
}
_DISSECTORS: Final[dict[str, Callable[[Disk, str], Items]]] = {
    "wal": _wal,
    "sidecar": _sidecar,
    "segment": _segment,
    "acks": _acks,
    "checkpoint": _checkpoint,
    "inbox": _inbox,
    "manifest": _manifest,
    "progress": _progress,
}
KINDS: Final = tuple(_DISSECTORS)
