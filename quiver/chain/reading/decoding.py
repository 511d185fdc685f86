"""Entries of a log, or a finished segment, as messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.chain.peers import BlockName
from quiver.chain.reading.message import ChainMessage, ChainPosition
from quiver.errors import DamagedEntry, DamageError, InputError
from quiver.ipc import decode_stream
from quiver.payload import Octets
from quiver.segment.memory import open_bytes
from quiver.slots import SlotTable
from quiver.wal.format import decode_bundle, frame_at

__all__ = ["ForeignPosition", "UnreadableEntry", "messages_in_log", "messages_in_segment"]

_ENTRY_BYTES_MAX: Final = 0xFFFF_FFF7
_ALIGNMENT: Final = 8
"""Buffers of a stream lie at multiples of this from its begin."""


def messages_in_log(
    piece: memoryview,
    block: BlockName,
    slots: SlotTable,
    *,
    above: ChainPosition,
    offset: int,
    after: ChainPosition | None = None,
) -> Iterator[ChainMessage]:
    """Decode whole entries that are behind one; raises DamageError with the block.

    Raises ForeignPosition if they cannot be of the partition that ``after`` is of.
    """
    at = 0
    while at < len(piece):
        try:
            frame = frame_at(piece, at, _ENTRY_BYTES_MAX)
            at = frame.end
            _check_after(after, frame.wal_seq, frame.ingestion_ns, block=block)
            if (frame.ingestion_ns, frame.wal_seq) <= above:
                continue
        except DamageError as error:
            raise error.at(f"{block.partition}/{block.number}", base=offset) from error
        try:
            batches = {
                _name(slots, payload.slot_id): decode_stream(
                    _aligned(payload.data), rows=payload.row_count
                )
                for payload in decode_bundle(frame).payloads
            }
        except (DamageError, InputError) as error:
            place = frame.wal_seq, frame.ingestion_ns
            raise _unreadable(block, place, offset + frame.offset, why=str(error)) from error
        yield ChainMessage(
            frame.ingestion_ns, block.partition, frame.wal_seq, RecordBundle(batches)
        )


def messages_in_segment(
    pieces: Iterable[bytes],
    block: BlockName,
    slots: SlotTable,
    *,
    above: ChainPosition,
    after: ChainPosition | None = None,
) -> Iterator[ChainMessage]:
    """Decode a finished segment, checked as one on a disk is; raises what the other one does."""
    place = f"{block.partition}/{block.number}"
    reader = open_bytes(b"".join(pieces), place=place)
    for index in range(reader.bundle_count):
        entry = reader.bundle_entry(index)
        if entry.wal_seq is None or entry.ingestion_ns is None:
            raise InputError(f"the segment of {place} does not say its times")
        _check_after(after, entry.wal_seq, entry.ingestion_ns, block=block)
        if (entry.ingestion_ns, entry.wal_seq) > above:
            if lost := reader.lost.get(index):
                why = f"slots {', '.join(map(str, lost))} held no batch when its segment was made"
                raise _unreadable(block, (entry.wal_seq, entry.ingestion_ns), 0, why=why)
            batches = reader.bundle(index)
            named = {_name(slots, slot_id): batch for slot_id, batch in batches.items()}
            yield ChainMessage(
                entry.ingestion_ns, block.partition, entry.wal_seq, RecordBundle(named)
            )


class UnreadableEntry(DamagedEntry):
    """An entry is the same in all copies, and no bundle: nobody else has a better one."""


class ForeignPosition(InputError):
    """A position that is of another partition, or of another chain."""


def _check_after(
    after: ChainPosition | None, wal_seq: int, time_ns: int, *, block: BlockName
) -> None:
    """Raise unless an entry lies before a position in number and in time, or behind it in both."""
    if after is None:
        return
    if wal_seq == after.wal_seq:
        fits = time_ns == after.time_ns
    else:
        fits = time_ns <= after.time_ns if wal_seq < after.wal_seq else time_ns >= after.time_ns
    if not fits:
        raise ForeignPosition(
            f"{block.partition} never was at bundle {after.wal_seq} of time {after.time_ns}: its "
            f"block {block.number} has bundle {wal_seq} of time {time_ns}",
            hint="the position is of another chain, or of a block that was given up; begin at a "
            "time: start=",
        )


def _unreadable(
    block: BlockName, entry: tuple[int, int], offset: int, *, why: str
) -> UnreadableEntry:
    wal_seq, time_ns = entry
    return UnreadableEntry(
        f"entry {wal_seq} is whole, and no bundle: {why}",
        path=f"{block.partition}/{block.number}",
        offset=offset,
        hint=f"position={{{block.partition!r}: ({time_ns}, {wal_seq})}} goes on behind it",
    )


def _aligned(data: Octets) -> pa.Buffer:
    """Give bytes where Arrow's numbers may lie: in a row of entries they begin anywhere."""
    buffer = pa.py_buffer(data)
    if buffer.address % _ALIGNMENT == 0:
        return buffer
    moved = pa.allocate_buffer(buffer.size)
    memoryview(moved)[:] = memoryview(buffer)
    return moved


def _name(slots: SlotTable, slot_id: int) -> str:
    return slots[slot_id].name
