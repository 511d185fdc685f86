"""A bundle as bytes: what the WAL writes and what the open segment holds until it is a file.

The bytes are ours, never the caller's arrays, so nobody can change a bundle after its append.
This module knows no Arrow but the name of its buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pyarrow import Buffer

__all__ = ["SEQ_MAX", "EncodedBundle", "Octets", "Payload", "StoredBundle"]

SEQ_MAX: Final = (1 << 63) - 1
"""The greatest number of a bundle or a record; what has a greater one on disk is damaged."""

Octets: TypeAlias = "bytes | memoryview | Buffer"
"""Bytes that can be measured, joined, written and viewed; nothing else is common to the three."""


class Payload(NamedTuple):
    """One slot of a bundle: a complete Arrow IPC stream that holds one batch."""

    slot_id: int
    payload_type_id: int
    fingerprint: bytes
    row_count: int
    data: Octets


class StoredBundle(NamedTuple):
    """A bundle that is in the log and was read there, but is not kept in memory.

    ``checksum`` is the CRC32C of the ``length`` bytes behind the length field at ``offset`` of the
    file of this generation: whoever reads them again knows whether they are the same.
    """

    wal_seq: int
    generation: int
    offset: int
    length: int
    checksum: int


class EncodedBundle(NamedTuple):
    """One bundle: its place in the order of appends, when it came, its payloads by slot id."""

    wal_seq: int
    ingestion_ns: int
    payloads: tuple[Payload, ...]
    note: bytes | None = None
    """How far its source was read with it, as ``quiver.progress`` writes it; mostly nothing."""

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads together."""
        size = 0
        for payload in self.payloads:  # Each append asks: a generator takes longer than this.
            size += len(payload.data)
        return size
