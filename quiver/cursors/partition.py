"""One partition as a cursor goes through it: blocks first, then what is in the log, in order.

A partition whose times never fall (``timeline``) is looked at a little at a time: blocks when the
cursor comes to them, the log when they are used up, and again when there may be more. Of one that
follows the clock, which may go back, all is looked at once at the beginning, the log as well: only
so can what overlaps be put in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from quiver.cursors.blocks import Block, Blocks, is_ordered
from quiver.cursors.inside import Opened, Wanted, open_block, open_log
from quiver.cursors.message import Key, Message, Position
from quiver.disk import Disk
from quiver.engine.numbers import core_folder
from quiver.engine.timekeeping import read_timeline
from quiver.errors import InputError, MissingError
from quiver.manifest import StoreManifest
from quiver.scan import OpenBundle, SegmentRef, take_core_snapshot
from quiver.scan.snapshot import list_segments

__all__ = ["Partition"]

_NEVER: Final = 1 << 64
"""Above the number of any segment."""


class Partition:
    """What a cursor asks of one core, in order. Not safe for several threads at once."""

    def __init__(self, disk: Disk, manifest: StoreManifest, core: int, *, wanted: Wanted) -> None:
        """Look at what there is; of a partition in order, at the names of its segments alone."""
        self.core = core
        self._disk = disk
        self._manifest = manifest
        self._wanted = wanted
        saved = read_timeline(disk, core_folder(core))
        self.is_ordered = is_ordered(saved)
        self._ordered_from = saved.ordered_from if saved and self.is_ordered else _NEVER
        self.blocks = Blocks(disk, (), 0)
        self._count = 0
        self.looks = 0
        """How often it was looked at what there is."""
        self._rest: Iterator[Block] = iter(())
        self._next: Block | None = None
        self._heap: list[tuple[tuple[int, int], int, Opened]] = []
        self._seen: OpenBundle | None = None
        """The last bundle of the log that was looked at, if all were given since."""
        self.has_log = False
        """Whether the log was looked at since the last ``rewind``."""
        self.rewind(wanted)

    def rewind(self, wanted: Wanted) -> None:
        """Begin anew with another range, or behind another bundle."""
        self.close()
        self._seen = None
        self._wanted = wanted
        if not self.is_ordered or wanted.backwards:
            self.look()
            return
        self.has_log = False
        if not len(self.blocks):
            self.looks += 1
            self.blocks = Blocks(
                self._disk, list_segments(self._disk, core=self.core), self._ordered_from
            )
        self._begin(())

    def look(self) -> None:
        """Look at all there is now, the log as well, from behind the bundle that was given last."""
        after, self._seen = None if self._heap else self._seen, None
        self.close()
        self.looks += 1
        segments, bundles = take_core_snapshot(self._disk, self._manifest, self.core, after=after)
        if self.is_ordered and not is_ordered(read_timeline(self._disk, core_folder(self.core))):
            raise InputError(
                f"partition {self.core} follows the clock since this cursor was made",
                hint="make another cursor; open the store with the same segment.time as before",
            )
        self._seen = replace(bundles[-1], slots=()) if bundles else after
        self._take(segments, bundles)

    def _take(self, segments: Sequence[SegmentRef], bundles: Sequence[OpenBundle]) -> None:
        before = self.blocks
        self.blocks = Blocks(self._disk, segments, self._ordered_from)
        self.blocks.know(before)
        self.has_log = True
        self._begin(bundles)

    def _begin(self, bundles: Sequence[OpenBundle]) -> None:
        wanted = self._wanted
        start, end = wanted.start_ns, wanted.end_ns
        if wanted.backwards:
            if wanted.after is not None:
                end = min(end, wanted.after.time_ns)
            self._rest = self.blocks.between_backwards(start, end)
        else:
            if wanted.after is not None and self.is_ordered:
                start = max(start, wanted.after.time_ns)
            self._rest = self.blocks.between(start, end)
        self._next = next(self._rest, None)
        self._push(open_log(self._disk, bundles, wanted))
        self._pull()

    def _rank(self, key: Key) -> tuple[int, int]:
        sign = -1 if self._wanted.backwards else 1
        return sign * key.time_ns, sign * key.wal_seq

    def _push(self, opened: Opened) -> None:
        head = opened.head
        if head is None:
            opened.close()
        else:
            self._count += 1
            heapq.heappush(self._heap, (self._rank(head), self._count, opened))

    def _pull(self) -> None:
        """Open every block that may have something before the head of those that are open."""
        while (block := self._next) is not None:
            if self._heap:
                edge = -block.end_ns if self._wanted.backwards else block.start_ns
                if edge > self._heap[0][0][0]:
                    return
            self._next = next(self._rest, None)
            self._push(open_block(self._disk, block, self._wanted))

    @property
    def head(self) -> Key | None:
        """The next bundle, as far as was looked; None if none is left of that."""
        return self._heap[0][2].head if self._heap else None

    def take(self) -> Message:
        """Read the next bundle; ``go_on`` then finds the one behind it.

        MissingError if it left the log, and its segment was deleted or never written.
        """
        head = self.head
        try:
            found = self._heap[0][2].take()
        except MissingError as error:  # It left the log, so it should be in a segment by now.
            self.look()
            if self.head != head:
                raise MissingError(
                    f"a bundle of partition {self.core} left the log before the cursor came to it, "
                    "and is in no segment",
                    path=error.path,
                    hint="go on with what is behind it",
                ) from error
            found = self._heap[0][2].take()
        opened = self._heap[0][2]
        head = opened.head
        if head is None:
            heapq.heappop(self._heap)
            opened.close()
        else:
            self._count += 1
            heapq.heapreplace(self._heap, (self._rank(head), self._count, opened))
        self._wanted = replace(self._wanted, after=Position(found.time_ns, found.wal_seq))
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever found in it: a partition begins with its first bundle."""
        return not len(self.blocks) and self.head is None and self._wanted.after is None

    def go_on(self) -> None:
        """Open what comes next; raises MissingError for a block that was deleted."""
        self._pull()

    def close(self) -> None:
        """Let go of what is open."""
        for *_, opened in self._heap:
            opened.close()
        self._heap, self._next, self._rest = [], None, iter(())
