"""The bundles that the next files will hold: one file for each slot, all of the same bundles.

A file's name says that it has every bundle from its first to its last. So a group ends where the
next bundle does not follow its last one. Inside a segment that is told by the index; the first
bundle of a segment follows the last of the one before if it was appended next. Should one come
again that was passed over, because it waited for a retry or another holder had it, then no name
claims that it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from quiver.export.formats import holds_one_batch
from quiver.export.names import FileRange, Place
from quiver.schemas import same_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.subscriber import BundleHandle

__all__ = ["BUNDLES_MAX", "Group", "Part"]

BUNDLES_MAX: Final = 1 << 16
"""Bundles of a group, whatever their rows: each one is held until it is acked."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be written of one bundle: rows by slot, of those in ``slots``."""

    handle: BundleHandle
    slots: frozenset[str]
    rows: Mapping[str, pa.RecordBatch]

    @classmethod
    def of(cls, handle: BundleHandle, slots: frozenset[str]) -> Part:
        """Read a bundle; ``slots`` are those that no file has yet of it."""
        rows = {slot: handle[slot] for slot in handle if slot in slots}
        return cls(handle, slots, {slot: rows[slot] for slot in rows if rows[slot].num_rows})

    @property
    def place(self) -> Place:
        """Where the bundle is in its core."""
        return self.handle.segment_seq, self.handle.bundle_index

    def follows(self, other: Part) -> bool:
        """Whether no bundle of the store can be between the other one and this."""
        ours, theirs = self.handle, other.handle
        if ours.core != theirs.core:
            return False
        if ours.segment_seq == theirs.segment_seq:
            return ours.bundle_index == theirs.bundle_index + 1
        if ours.bundle_index or ours.wal_seq is None or theirs.wal_seq is None:
            return False
        return ours.segment_seq > theirs.segment_seq and ours.wal_seq == theirs.wal_seq + 1


@dataclass(slots=True)
class Group:
    """Bundles that follow each other, of one schema in each slot."""

    kind: str
    rows_max: int
    bytes_max: int
    begun_ns: int
    parts: list[Part]
    batches: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    row_counts: dict[str, int] = field(default_factory=dict)
    byte_counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, part: Part, kind: str, *, rows_max: int, bytes_max: int, now_ns: int) -> Group:
        """Begin files of a format with one bundle, however large that is."""
        group = cls(kind, rows_max, bytes_max, now_ns, [])
        group.add(part)
        return group

    def takes(self, part: Part) -> bool:
        """Whether the files of this group may hold one more bundle."""
        last = self.parts[-1]
        return (
            len(self.parts) < BUNDLES_MAX
            and part.slots == last.slots
            and part.follows(last)
            and all(self._has_room(slot, rows) for slot, rows in part.rows.items())
        )

    def _has_room(self, slot: str, rows: pa.RecordBatch) -> bool:
        batches = self.batches.get(slot)
        if batches is None:
            return True
        return (
            self.row_counts[slot] + rows.num_rows <= self.rows_max
            and self.byte_counts[slot] + rows.nbytes <= self.bytes_max
            and same_schema(batches[0].schema, rows.schema)
            and not holds_one_batch(self.kind, rows.schema)
        )

    def add(self, part: Part) -> None:
        """Take a bundle in."""
        self.parts.append(part)
        for slot, rows in part.rows.items():
            self.batches.setdefault(slot, []).append(rows)
            self.row_counts[slot] = self.row_counts.get(slot, 0) + rows.num_rows
            self.byte_counts[slot] = self.byte_counts.get(slot, 0) + rows.nbytes

    def range_of(self, slot: str) -> FileRange:
        """Say what the file of a slot holds."""
        first, last = self.parts[0], self.parts[-1]
        return FileRange(slot, first.handle.core, first.place, last.place)
