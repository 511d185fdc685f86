"""The other side of a queue, written from the reference's tables alone, and entries to append.

It appends without tails, dequeues everything it is told to, takes epochs, and never looks behind
the items of an entry. Nothing of ours is imported here but errors.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from quiver.errors import VersionError

__all__ = ["ForeignEntry", "ForeignQueue"]

FOOTER = struct.Struct("<IQQH")


@dataclass
class ForeignEntry:
    """One entry as they decode it."""

    sequence: int
    location: str
    items: list[tuple[int, int, bytes]]


class ForeignQueue:
    """Their reading and writing of a manifest's bytes; None stands for a missing object."""

    def __init__(self, data: bytes | None) -> None:
        """Take a manifest apart as far as they do."""
        data = bytes(20) + b"\1\0" if data is None else bytes(data)
        self.count, self.next_sequence, self.epoch, version = FOOTER.unpack(data[-22:])
        if version != 1:
            raise VersionError(f"version {version}")
        self.body = data[:-22]

    def bytes(self) -> bytes:
        """Write it."""
        return self.body + FOOTER.pack(self.count, self.next_sequence, self.epoch, 1)

    def append(self, location: str, items: list[tuple[int, int, bytes]] = ()) -> int:
        """Add one entry behind the bytes that are there; old entries are not parsed."""
        entry = struct.pack("<QH", self.next_sequence, len(location)) + location.encode()
        entry += struct.pack("<I", len(items))
        for index, time_ms, payload in items:
            entry += struct.pack("<IqI", index, time_ms, len(payload)) + payload
        self.body += struct.pack("<I", len(entry)) + entry
        self.count += 1
        self.next_sequence += 1
        return self.next_sequence - 1

    def entries(self) -> list[ForeignEntry]:
        """Decode all; whatever stands behind the items of an entry is passed over."""
        found, at = [], 0
        for _ in range(self.count):
            size, sequence, length = struct.unpack_from("<IQH", self.body, at)
            end, at = at + 4 + size, at + 14
            location = self.body[at : at + length].decode()
            at += length
            (count,) = struct.unpack_from("<I", self.body, at)
            at += 4
            items = []
            for _ in range(count):
                index, time_ms, length = struct.unpack_from("<IqI", self.body, at)
                at += 16
                items.append((index, time_ms, self.body[at : at + length]))
                at += length
            found.append(ForeignEntry(sequence, location, items))
            at = end
        assert at == len(self.body)
        return found

    def dequeue(self, through: int) -> int:
        """Remove what is at or below a number, the newest too, and say how many that were."""
        at = removed = 0
        for entry in self.entries():
            if entry.sequence > through:
                break
            at += 4 + struct.unpack_from("<I", self.body, at)[0]
            removed += 1
        self.body, self.count = self.body[at:], self.count - removed
        return removed

    def start(self) -> int:
        """Take the next epoch, which is never 2^64 - 1."""
        self.epoch = 0 if self.epoch >= (1 << 64) - 2 else self.epoch + 1
        return self.epoch
