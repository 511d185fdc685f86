"""Bundles to payloads: checked, then written as Arrow streams into memory that is used again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from quiver.bundle import KnownSchemas, resolve_bundle
from quiver.config import Config
from quiver.engine.arena import Arena
from quiver.errors import InputError
from quiver.ipc import encode_stream
from quiver.ipc_room import StreamRoom
from quiver.payload import Payload
from quiver.slots import SlotTable
from quiver.wal import entry_bytes

__all__ = ["Batches", "Encoder"]

Batches: TypeAlias = Mapping[int, tuple[pa.RecordBatch, bytes]]
"""What a bundle has, by slot id, ascending, with the fingerprint of each one's schema."""

_LARGE_BYTES: Final = 2 << 20
"""Payloads of that size get memory of their own: slabs are for many in one."""


class Encoder:
    """What turns the bundles of one store into bytes. Safe to use from several threads."""

    def __init__(self, slots: SlotTable, config: Config) -> None:
        """Know no schema and have no memory yet."""
        self._slots = slots
        self._kinds = {slot.slot_id: slot.payload_type_id for slot in slots}
        self._entry_bytes_max = config.limits.entry_bytes
        keep_metadata = config.segment.schema_metadata == "keep"
        self._schemas = KnownSchemas(config.limits, keep_metadata=keep_metadata)
        self._arena = Arena(config.segment.target_size)
        self._large: set[int] = set()
        """Slots whose last payload was large."""

    @property
    def memory_bytes(self) -> int:
        """About how much memory was begun so far, in slabs that are kept by any payload in them."""
        return self._arena.taken_bytes

    def encode(
        self, bundle: Mapping[str, Any], *, note: bytes | None = None
    ) -> tuple[Payload, ...]:
        """Check a bundle and turn its batches into bytes, which share nothing with the caller's.

        Raises InputError that says what is wrong with it, or if an entry has no room for it and the
        ``note``.
        """
        payloads = self.encode_batches(self.resolve(bundle))
        self.check_room(payloads, note)
        return payloads

    def resolve(self, bundle: Mapping[str, Any]) -> Batches:
        """Check a bundle; gives its batches by slot, with the fingerprints of their schemas."""
        return resolve_bundle(bundle, self._slots, self._schemas)

    def check_room(self, payloads: tuple[Payload, ...], note: bytes | None = None) -> None:
        """Raise InputError if an entry has no room for them and the ``note``."""
        byte_count = entry_bytes(payloads, note)
        if byte_count > self._entry_bytes_max:
            raise InputError(
                f"the bundle takes {byte_count:,} bytes, the limit is {self._entry_bytes_max:,}",
                hint="append it in several bundles, or raise limits.entry_bytes",
            )

    def encode_batches(self, batches: Batches) -> tuple[Payload, ...]:
        """Turn checked batches, with the fingerprints of their schemas, into bytes."""
        kinds, large = self._kinds, self._large
        slab = self._arena.begun()
        payloads = []
        for slot_id, (batch, fingerprint) in batches.items():
            is_tried = slot_id not in large
            data = slab.encode_stream(batch) if is_tried else None
            if data is None and is_tried:
                slab, data = self._in_another(slab, batch)
            if data is None:
                data = self._encode_large(slot_id, batch)
                if is_tried and slot_id not in large:
                    self._arena.grow()
            payloads.append(Payload(slot_id, kinds[slot_id], fingerprint, batch.num_rows, data))
        self._arena.give_back(slab)
        return tuple(payloads)

    def _in_another(
        self, slab: StreamRoom, batch: pa.RecordBatch
    ) -> tuple[StreamRoom, pa.Buffer | None]:
        """Encode into another slab than this, which had no room, and say which to go on with.

        If there is no room in that one either, what is left of this is good for smaller ones: else
        a few bytes of a bundle would keep a slab for each large one that comes behind it.
        """
        another = self._arena.new()
        data = another.encode_stream(batch)
        if data is not None:
            return another, data
        self._arena.let_go(another)
        return slab.rest(), None

    def _encode_large(self, slot_id: int, batch: pa.RecordBatch) -> pa.Buffer:
        """Encode into memory of its own, and note whether that slot's next one is to go there."""
        data = encode_stream(batch)
        if len(data) < _LARGE_BYTES:
            self._large.discard(slot_id)
        else:
            self._large.add(slot_id)
        return data
