"""The segments that subscribers read from, opened and with their streams in hand.

A stream is read, and so checked, as a whole when the first of its bundles is claimed; each bundle
is then a matter of picking batches. What is compressed or very large is read bundle by bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.disk import Disk
from quiver.errors import DamageError
from quiver.segment import SegmentReader
from quiver.segment.alike import TOGETHER, may_be_alike
from quiver.segment.tables import SlotRef

__all__ = ["OpenedSegment", "Readers"]

_READERS_MAX: Final = 16
_WHOLE_BYTES_MAX: Final = 1 << 27
_KIN_MIN: Final = 8


class OpenedSegment:
    """One segment and the batches of its streams. Safe for several threads at once."""

    def __init__(self, reader: SegmentReader) -> None:
        """Take over a reader; nothing of its streams is read yet."""
        self.reader = reader
        self._tables: dict[int, pa.Table] = {}
        self._batches: dict[int, list[pa.RecordBatch]] = {}
        self._apart: set[int] = set()
        self._chunk_counts = {entry.stream_id: entry.chunk_count for entry in reader.streams}
        self._kin: dict[int, list[int]] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()
        whole = reader.compression == "none"
        for entry in reader.streams:
            if not whole or entry.byte_length > _WHOLE_BYTES_MAX:
                self._apart.add(entry.stream_id)
            elif may_be_alike(entry):
                kin = self._kin.setdefault(entry.slot_id, [])
                self._places[entry.stream_id] = entry.slot_id, len(kin)
                kin.append(entry.stream_id)

    def bundle(self, index: int, slots: Collection[int] | None = None) -> dict[int, pa.RecordBatch]:
        """Give the batches of a bundle by slot id, ascending; with ``slots`` only those of them.

        Raises DamagedEntry if one of them is damaged, whatever else in its stream is.
        """
        found = {}
        for ref in sorted(self.reader.manifest.refs(index), key=_slot_of):
            if slots is None or ref.slot_id in slots:
                batches = self._whole(ref.stream_id)
                found[ref.slot_id] = (
                    self.reader.chunk(ref.stream_id, ref.chunk_index)
                    if batches is None
                    else batches[ref.chunk_index]
                )
        return found

    def tables(self, first: int, count: int, slot_id: int) -> Iterator[pa.Table | pa.RecordBatch]:
        """Go through what bundles ``[first, first + count)`` have in a slot, in order.

        What lies in one stream in a row comes as one table.
        """
        bundles, streams, chunks = self.reader.manifest.chunks_of(slot_id)
        inside = (bundles >= first) & (bundles < first + count)
        streams, chunks = streams[inside], chunks[inside]
        breaks = np.flatnonzero((np.diff(streams) != 0) | (np.diff(chunks) != 1)) + 1
        for part in np.split(np.arange(len(chunks)), breaks) if len(chunks) else ():
            at = int(part[0])
            yield from self._part(int(streams[at]), int(chunks[at]), len(part))

    def _part(self, stream_id: int, first: int, count: int) -> Iterator[pa.Table | pa.RecordBatch]:
        """Give chunks ``[first, first + count)`` of a stream, together if it is in hand."""
        if first == 0 and count == self._chunk_count(stream_id):
            if stream_id not in self._tables and self._read_kin(stream_id):
                yield from self._batches[stream_id]
                return
            table = self._table(stream_id)
            if table is not None:  # To list its batches would take as long as to read it.
                yield table
                return
        batches = self._whole(stream_id)
        if batches is None:
            yield from (self.reader.chunk(stream_id, first + n) for n in range(count))
        else:
            yield from batches[first : first + count]

    def _table(self, stream_id: int) -> pa.Table | None:
        """Have all of a stream in one; None if it is to be read chunk by chunk."""
        table = self._tables.get(stream_id)
        if table is not None or stream_id in self._apart:
            return table
        with self._lock:
            if stream_id not in self._tables and stream_id not in self._apart:
                try:
                    self._tables[stream_id] = self.reader.table(stream_id)
                except DamageError:  # Whoever asks for the damaged chunk is told.
                    self._apart.add(stream_id)
            return self._tables.get(stream_id)

    def _whole(self, stream_id: int) -> list[pa.RecordBatch] | None:
        """Have all batches of a stream; None if it is to be read chunk by chunk."""
        if self._read_kin(stream_id):
            return self._batches[stream_id]
        batches = self._batches.get(stream_id)
        table = self._table(stream_id)
        if batches is not None or table is None:
            return batches
        batches = table.to_batches()
        with self._lock:
            if len(batches) != self._chunk_count(stream_id):  # Some have no rows or no columns.
                self._apart.add(stream_id)
                del self._tables[stream_id]
                return None
            return self._batches.setdefault(stream_id, batches)

    def _read_kin(self, stream_id: int) -> bool:
        """Read a stream of one chunk with some that come next; whether it is in hand then.

        The more of a slot are behind, the more are read, and the first by itself: who opens a store
        waits for that.
        """
        if stream_id in self._batches:
            return True
        slot_id, place = self._places.get(stream_id, (0, 0))
        if place == 0:
            return False
        kin = self._kin[slot_id]
        some = kin[place : place + min(max(_KIN_MIN, place), TOGETHER)]
        for found in self.reader.kin(some):
            for entry, batch in zip(found.streams, found.batches, strict=True):
                self._batches.setdefault(entry.stream_id, [batch])
        for each in some:
            if each not in self._batches:
                self._places.pop(each, None)  # It is read by itself, and this not tried again.
        return stream_id in self._batches

    def _chunk_count(self, stream_id: int) -> int:
        return self._chunk_counts[stream_id]


def _slot_of(ref: SlotRef) -> int:
    return ref.slot_id


class Readers:
    """Segments that are open, a few at a time. Safe for several threads at once."""

    def __init__(self, disk: Disk, limits: LimitsConfig) -> None:
        self._disk = disk
        self._limits = limits.for_reading()
        self._opened: dict[int, OpenedSegment] = {}
        self._own: set[int] = set()
        self._lock = threading.Lock()

    def get(self, segment_seq: int, path: str) -> OpenedSegment:
        """Open a segment, unless it is; raises what ``SegmentReader.open`` raises."""
        opened = self._opened.get(segment_seq)
        if opened is not None:
            return opened
        is_own = segment_seq in self._own
        reader = SegmentReader.open(self._disk, path, limits=self._limits, is_own=is_own)
        with self._lock:
            opened = self._opened.setdefault(segment_seq, OpenedSegment(reader))
            while len(self._opened) > _READERS_MAX:
                del self._opened[next(iter(self._opened))]
        return opened

    def trust(self, segment_seq: int) -> None:
        """Know a segment as one that this process wrote, of bundles that were validated here."""
        with self._lock:
            self._own.add(segment_seq)

    def get_if_open(self, segment_seq: int) -> OpenedSegment | None:
        """Give a segment that is open; None if it is not."""
        return self._opened.get(segment_seq)

    def forget(self, segment_seq: int) -> None:
        """Let go of a segment; what was read of it stays."""
        with self._lock:
            self._opened.pop(segment_seq, None)
            self._own.discard(segment_seq)

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            self._opened.clear()
            self._own.clear()
