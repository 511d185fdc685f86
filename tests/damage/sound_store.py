"""A small store with everything in it: what its files hold, byte by byte, and what was promised.

::

    bundles       0  1    2  3  4    5  6    7    8  9
    segments    (gone)  [   1   ]  [ 2 ]
    log                               [rotated][active]
    reader a      x  x       x       x             x acked
    reader b              -  -  x                  - nacked

What reader a acked of segment 1 is in the checkpoint, all else behind it in ack.log. Files of
the log were used before if the store recycles them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from quiver.acks.checkpoint import CHECKPOINT_LAYOUT
from quiver.acks.format import FRAME_SIZE, HEADER_SIZE
from quiver.config import Config, Reclaim
from quiver.segment import SegmentReader
from quiver.segment.format import TRAILER_BYTES
from quiver.testing import MemoryDisk
from quiver.testing.file_tree import Tree
from quiver.testing.rehearsal import Rehearsal
from quiver.wal.format import HEADER_BYTES, frame_at
from quiver.wal.reuse import FIRST, MARK_BYTES, generation_in, mark_in, mask_of, masks_of

__all__ = ["CONFIG", "FILES", "READERS", "Region", "SoundStore", "mark_at_end", "sound_store"]

CONFIG = Config.of(
    {
        "wal": {"rotate_size": 2100, "max_size": 100_000, "reclaim": "punch"},
        "acks": {"max_size": 320},
        "limits": {"entry_bytes": 50_000},
    }
)
READERS = ("a", "b")
FILES = {
    "active log": "core_0/wal/quiver.wal",
    "rotated log": "core_0/wal/quiver.wal.4",
    "sidecar": "core_0/wal/truncate.offset",
    "segment": "core_0/segments/0000000000000001.qseg",
    "newest segment": "core_0/segments/0000000000000002.qseg",
    "ack.log": "core_0/acks/ack.log",
    "checkpoint": "core_0/acks/checkpoint",
    "manifest": "quiver.json",
}


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes ``[start, end)`` of a file, and the bundles that are lost at most if they are."""

    name: str
    start: int
    end: int
    at_stake: frozenset[int] = frozenset()


@dataclass(frozen=True)
class SoundStore:
    """The store as its last writer left it when it was killed, and what that one knew."""

    tree: Tree
    sent: int
    next_segment_seq: int
    there: frozenset[int]
    """Bundles that are in a segment or in the log."""
    acked: dict[str, frozenset[int]]

    @cached_property
    def inodes(self) -> dict[str, int]:
        return {path: inode for path, inode in self.tree.walk() if inode in self.tree.blobs}

    def data(self, kind: str) -> bytes:
        return bytes(self.tree.blobs[self.inodes[FILES[kind]]].data)

    @cached_property
    def regions(self) -> dict[str, tuple[Region, ...]]:
        """Each kind of file cut into regions without gaps, in order."""
        found = {}
        for kind, path in FILES.items():
            data = self.data(kind)
            match kind.split()[-1]:
                case "log":
                    parts = _log_regions(data)
                case "segment":
                    parts = self._segment_regions(path)
                case "ack.log":
                    parts = _ack_regions(data)
                case "checkpoint":
                    parts = iter([Region("head", 0, CHECKPOINT_LAYOUT.size)])
                case "manifest":
                    parts = _manifest_regions(data)
                case _:
                    parts = iter(())
            found[kind] = tuple(_without_gaps(parts, len(data)))
        return found

    def _segment_regions(self, path: str) -> Iterator[Region]:
        with SegmentReader.open(MemoryDisk(self.tree), path) as reader:
            entries = [reader.bundle_entry(index) for index in range(reader.bundle_count)]
            everything = frozenset(entry.wal_seq or 0 for entry in entries)
            for stream in reader.streams:
                users = frozenset(
                    entry.wal_seq or 0
                    for entry in entries
                    if any(ref.stream_id == stream.stream_id for ref in entry.refs)
                )
                end = stream.byte_offset + stream.byte_length
                yield Region("stream", stream.byte_offset, end, users)
            footer = reader.footer
            for table in ("directory", "manifest"):
                start = getattr(footer, f"{table}_offset")
                yield Region(table, start, start + getattr(footer, f"{table}_length"), everything)
            end = reader.info.file_bytes
            extra = footer.extension
            start = extra.index_offset + extra.index_length
            yield Region("index", extra.index_offset, start, everything)
            yield Region("footer", start, end - TRAILER_BYTES, everything)
            yield Region("footer length", end - TRAILER_BYTES, end - 12, everything)
            yield Region("magic", end - 12, end - 4, everything)
            yield Region("checksum of the file", end - 4, end)


def _log_regions(data: bytes) -> Iterator[Region]:
    yield Region("header", 0, HEADER_BYTES)
    masks, offset = masks_of(data[:FIRST], None), HEADER_BYTES
    if masks != (0,):
        yield Region("beginning", offset, FIRST)
        offset = FIRST
    while offset < len(data):
        if masks != (0,) and mark_in(data[offset:], *masks) is not None:
            yield Region("mark", offset, offset + MARK_BYTES)
            offset += MARK_BYTES
            break
        frame = frame_at(memoryview(data), offset, 1 << 20, masks=masks)
        yield Region("length", offset, offset + 4, frozenset({frame.wal_seq}))
        yield Region("entry", offset + 4, frame.end, frozenset({frame.wal_seq}))
        offset = frame.end
    if offset < len(data):
        yield Region("older", offset, len(data))


def mark_at_end(data: bytes) -> int | None:
    """Where the entries of a file end that was used before."""
    generation = generation_in(data[:FIRST])
    places = range(HEADER_BYTES, len(data)) if generation is not None else ()
    mask = mask_of(generation or 0)
    return next(
        (at for at in places if mark_in(data[at : at + MARK_BYTES], mask) is not None), None
    )


def _ack_regions(data: bytes) -> Iterator[Region]:
    yield Region("header", 0, HEADER_SIZE)
    for offset in range(HEADER_SIZE, len(data), FRAME_SIZE):
        yield Region("frame", offset, offset + FRAME_SIZE)


def _manifest_regions(data: bytes) -> Iterator[Region]:
    """Give each line; its name is the key in it."""
    end = 0
    for line in data.splitlines(keepends=True):
        start, end = end, end + len(line)
        name = line.split(b'"')[1].decode() if b'"' in line else "brackets"
        yield Region(name, start, end)


def _without_gaps(regions: Iterator[Region], size: int) -> Iterator[Region]:
    end = 0
    for region in regions:
        if region.start > end:
            yield Region("padding", end, region.start)
        yield region
        end = region.end
    if end < size:
        yield Region("rest", end, size)


@lru_cache(maxsize=2)
def sound_store(reclaim: Reclaim = "punch") -> SoundStore:
    """Lead the life that is drawn above, up to a kill."""
    disk = MemoryDisk()
    life = Rehearsal(disk, config=replace(CONFIG, wal=replace(CONFIG.wal, reclaim=reclaim)))
    acked = {"a": {0, 1, 3, 5}, "b": {4}}
    life.register("a")
    for count in (2, 3):
        life.append(count)
        life.finalize()
    _take(life, "a", acked=acked["a"])
    life.store.maintain()
    life.register("b")
    life.append(2)
    life.finalize()
    _take(life, "a", acked=acked["a"])
    life.take("b", 2, nack=True)
    _take(life, "b", acked=acked["b"])
    life.append(3)
    life.store._core.acks.sync()
    info = life.store.info()
    life.crash()
    return SoundStore(
        tree=disk.tree.pruned(),
        sent=info.next_wal_seq,
        next_segment_seq=info.next_segment_seq,
        there=frozenset(range(2, info.next_wal_seq)),
        acked={name: frozenset(numbers) for name, numbers in acked.items()},
    )


def _take(life: Rehearsal, reader: str, *, acked: set[int]) -> None:
    """Take all there is, ack what shall be acked, and give the rest back."""
    subscription = life.store.subscribe(reader)
    handles = []
    while (handle := subscription.poll()) is not None:
        handles.append(handle)
    for handle in handles:
        if handle.wal_seq in acked:
            handle.ack()
        else:
            handle.defer()
