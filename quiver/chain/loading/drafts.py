"""Bundles as entries that lack their number and time, in the memory from which they are sent.

::

    large   [ head | block | stream | block | stream | check ]    written once, and sent as it is
    small   streams in memory that is used again                  copied when they are numbered

A batch is copied only once, by whoever encodes it, if it is large enough to be sent alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from quiver.chain.peers import arrows_own
from quiver.config import Config
from quiver.engine.encoding import Batches, Encoder
from quiver.ipc import out_of_memory
from quiver.ipc_room import StreamRoom
from quiver.payload import EncodedBundle, Payload
from quiver.slots import SlotTable
from quiver.wal.format import (
    BEGIN_BYTES,
    BLOCK,
    CRC_BYTES,
    complete_entry,
    entry_bytes,
    entry_parts,
)

__all__ = ["Draft", "Drafts"]

_LARGE_BYTES: Final = 512 << 10
"""Two that are smaller go as one frame, and are copied for that anyway."""
_AROUND_BYTES: Final = 16 << 10
"""So much is around a batch, its dictionaries apart, until it is known."""
_SPARE_BITS: Final = 3
"""Of an entry an eighth may be kept beside it."""


class Draft:
    """A bundle that is checked and encoded."""

    __slots__ = ("_payloads", "memory")

    def __init__(self, payloads: tuple[Payload, ...], memory: pa.Buffer | None = None) -> None:
        """Take its payloads, which lie in ``memory`` where an entry has them, if that is given."""
        self._payloads = payloads
        self.memory = memory

    def entry(self, wal_seq: int, time_ns: int) -> pa.Buffer:
        """Give the entry, in memory of Arrow's own; to be called once."""
        bundle = EncodedBundle(wal_seq, time_ns, self._payloads)
        if self.memory is None:
            return arrows_own(*entry_parts(bundle))
        complete_entry(memoryview(self.memory).cast("B"), bundle)
        return self.memory.slice(0, entry_bytes(self._payloads))


class Drafts:
    """Makes them. Safe for many threads."""

    def __init__(self, slots: SlotTable, config: Config) -> None:
        """Know no schema yet."""
        self._encoder = Encoder(slots, config)
        self._kinds = {slot.slot_id: slot.payload_type_id for slot in slots}
        self._around = _AROUND_BYTES

    def draft(self, bundle: Mapping[str, Any]) -> Draft:
        """Check a bundle and encode it; what is given shares nothing with the caller's.

        Raises InputError, as an append to a store does.
        """
        batches = self._encoder.resolve(bundle)
        size = sum(pa.ipc.get_record_batch_size(batch) for batch, _ in batches.values())
        if size >= _LARGE_BYTES:
            large = self._in_place(batches, size)
            if large is not None:
                return large
        payloads = self._encoder.encode_batches(batches)
        self._encoder.check_room(payloads)
        self._around = max(entry_bytes(payloads) - size, 0) + _AROUND_BYTES
        return Draft(payloads)

    def _in_place(self, batches: Batches, size: int) -> Draft | None:
        """Encode into memory of its own, for batches of this size; None if that is too little."""
        byte_count = size + self._around
        try:
            memory = pa.allocate_buffer(byte_count)
        except MemoryError as error:
            raise out_of_memory() from error
        room = StreamRoom(memory)
        room.skip(BEGIN_BYTES)
        payloads = []
        for slot_id, (batch, fingerprint) in batches.items():
            data = room.encode_stream(batch) if room.skip(BLOCK.size) else None
            if data is None:
                return None
            kind = self._kinds[slot_id]
            payloads.append(Payload(slot_id, kind, fingerprint, batch.num_rows, data))
        if not room.skip(CRC_BYTES):
            return None
        self._encoder.check_room(tuple(payloads))
        used = entry_bytes(tuple(payloads))
        self._around = max(used - size, 0) + _AROUND_BYTES
        if byte_count - used > max(used >> _SPARE_BITS, 2 * _AROUND_BYTES):
            return Draft(tuple(payloads))  # Its entry would keep all of that until it is safe.
        return Draft(tuple(payloads), memory)
