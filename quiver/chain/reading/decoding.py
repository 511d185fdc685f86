"""Entries of a log, or a finished segment, as messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quiver.bundle import RecordBundle
from quiver.chain.peers import BlockName
from quiver.chain.reading.message import ChainMessage
from quiver.errors import DamageError, InputError
from quiver.ipc import decode_stream
from quiver.segment.memory import open_bytes
from quiver.slots import SlotTable
from quiver.wal.format import decode_bundle, frame_at

__all__ = ["messages_in_log", "messages_in_segment"]

_ENTRY_BYTES_MAX: Final = 0xFFFF_FFF7


def messages_in_log(
    piece: memoryview, block: BlockName, slots: SlotTable, *, above: int, offset: int
) -> Iterator[ChainMessage]:
    """Decode whole entries whose numbers are above one; raises DamageError with the block."""
    at = 0
    while at < len(piece):
        try:
            frame = frame_at(piece, at, _ENTRY_BYTES_MAX)
            at = frame.end
            if frame.wal_seq <= above:
                continue
            bundle = decode_bundle(frame)
            batches = {
                _name(slots, payload.slot_id): decode_stream(payload.data, rows=payload.row_count)
                for payload in bundle.payloads
            }
        except DamageError as error:
            raise error.at(f"{block.partition}/{block.number}", base=offset) from error
        yield ChainMessage(
            frame.ingestion_ns, block.partition, frame.wal_seq, RecordBundle(batches)
        )


def messages_in_segment(
    pieces: Iterable[bytes], block: BlockName, slots: SlotTable, *, above: int
) -> Iterator[ChainMessage]:
    """Decode a finished segment, checked as one on a disk is."""
    place = f"{block.partition}/{block.number}"
    reader = open_bytes(b"".join(pieces), place=place)
    for index in range(reader.bundle_count):
        entry = reader.bundle_entry(index)
        if entry.wal_seq is None or entry.ingestion_ns is None:
            raise InputError(f"the segment of {place} does not say its times")
        if entry.wal_seq > above:
            batches = reader.bundle(index)
            named = {_name(slots, slot_id): batch for slot_id, batch in batches.items()}
            yield ChainMessage(
                entry.ingestion_ns, block.partition, entry.wal_seq, RecordBundle(named)
            )


def _name(slots: SlotTable, slot_id: int) -> str:
    return slots[slot_id].name
