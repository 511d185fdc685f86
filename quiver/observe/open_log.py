"""How much of a core's log is in no segment yet, looked at again and again without a lock.

The first look walks what segments do not cover; each later one goes on where the last one ended,
so that looking every second costs what was appended in that second. If the log is not what it was
(its tail was moved to another file, a power cut took an end and appends went on there), all of it
is walked once more. Damage is passed over here: ``quiver check`` tells of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from quiver.config import HARD_LIMITS
from quiver.disk import Disk, File
from quiver.wal.files import WalFile, open_files
from quiver.wal.format import BLOCK, BUNDLE, CHECKPOINT, HEADER_BYTES, Frame, Place
from quiver.wal.reader import BadRegion, Entry, begin_of, first_entry, walk
from quiver.wal.spares import is_spare
from quiver.wal.start import Start
from quiver.wal.truncate import read_sidecar

__all__ = ["LogLook", "OpenLog"]


class _Anchor(NamedTuple):
    """The last entry of a look: if it is there unchanged, so is what is before it."""

    generation: int
    offset: int
    end: int
    wal_seq: int
    checksum: int


class LogLook(NamedTuple):
    """What one look at a log found."""

    file_count: int
    used_bytes: int
    """What the files take, holes not counted."""
    next_wal_seq: int
    bundle_count: int
    """Bundles that are in no segment yet."""
    payload_bytes: int
    oldest_ns: int | None
    """When the first of them came, in wall time; None if there is none."""


@dataclass(slots=True)
class OpenLog:
    """The log of one core, and what was in it when it was looked at last."""

    disk: Disk
    folder: str
    """That of the log."""
    _anchor: _Anchor | None = None
    _last_seq: int = -1
    _seqs: array[int] = field(default_factory=lambda: array("q"))
    _bytes: array[int] = field(default_factory=lambda: array("q"))
    _times: array[int] = field(default_factory=lambda: array("q"))

    def look(self, covered: int, place: Place | None) -> LogLook:
        """Look at what is there now; segments hold all up to ``covered``, and before ``place``."""
        entries = [] if self.disk.stat(self.folder) is None else self.disk.list_dir(self.folder)
        files = [entry for entry in entries if entry.name.startswith("quiver.wal")]
        with open_files(self.disk, self.folder, newest=place) as opened:
            if not self._go_on(opened):
                self._begin(opened, covered, place)
        gone = bisect_right(self._seqs, covered)
        for column in (self._seqs, self._bytes, self._times):
            del column[:gone]
        return LogLook(
            file_count=sum(not is_spare(file.name) for file in files),
            used_bytes=sum(min(file.size, file.allocated) for file in files),
            next_wal_seq=max(covered, self._last_seq) + 1,
            bundle_count=len(self._seqs),
            payload_bytes=sum(self._bytes),
            oldest_ns=self._times[0] if self._times else None,
        )

    def _go_on(self, files: Sequence[WalFile]) -> bool:
        """Walk on from where the last look ended; False if the log is not what it was then."""
        anchor = self._anchor
        if anchor is None:
            return False
        known = [file for file in files if file.generation == anchor.generation]
        if not known or _entry_at(known[0], anchor.offset) != anchor:
            return False
        behind = [file for file in files if file.generation > anchor.generation]
        starts = [(known[0], anchor.end)]
        starts += [(file, HEADER_BYTES) for file in behind]
        return self._walk(starts, is_strict=True)

    def _begin(self, files: Sequence[WalFile], covered: int, place: Place | None) -> None:
        """Walk all that segments do not cover."""
        self._anchor, self._last_seq = None, -1
        for column in (self._seqs, self._bytes, self._times):
            del column[:]
        sidecar, _ = read_sidecar(self.disk, self.folder)
        by_generation = {file.generation: file.file for file in files}

        def opened(generation: int) -> AbstractContextManager[File | None]:
            return nullcontext(by_generation[generation])

        known = covered if covered >= 0 else None
        limit = HARD_LIMITS.entry_bytes
        first = Start(list(by_generation), opened, known, limit).find(sidecar, place)
        starts = []
        for file in files:
            if file.generation == first.generation:
                starts.append((file, first.offset))
            elif file.generation > first.generation:
                starts.append((file, begin_of(file.file, file.generation, sidecar)))
        self._walk(starts, is_strict=False)

    def _walk(self, starts: Sequence[tuple[WalFile, int]], *, is_strict: bool) -> bool:
        """Take in what is in these files; with ``is_strict`` it ends at the first thing odd."""
        for wal_file, start in starts:
            items = walk(
                wal_file.file,
                start,
                entry_bytes_max=HARD_LIMITS.entry_bytes,
                last_seq=self._last_seq,
                is_active=wal_file.is_active,
                generation=wal_file.generation,
            )
            for item in items:
                if isinstance(item, Entry):
                    if is_strict and not self._follows(item.frame):
                        return False
                    self._take(item.frame)
                    self._anchor = _anchor(wal_file, item.offset, item.frame)
                elif is_strict and isinstance(item, BadRegion):
                    return False
        return True

    def _follows(self, frame: Frame) -> bool:
        return frame.entry_type != BUNDLE or frame.wal_seq == self._last_seq + 1

    def _take(self, frame: Frame) -> None:
        if frame.entry_type == BUNDLE:
            sizes = (BLOCK.unpack_from(frame.body, offset)[3] for offset in frame.blocks)
            self._seqs.append(frame.wal_seq)
            self._bytes.append(sum(sizes))
            self._times.append(max(frame.ingestion_ns, 0))
        if frame.entry_type in (BUNDLE, CHECKPOINT):
            self._last_seq = max(self._last_seq, frame.wal_seq)


def _anchor(wal_file: WalFile, offset: int, frame: Frame) -> _Anchor:
    end = offset + frame.end - frame.offset
    return _Anchor(wal_file.generation, offset, end, frame.wal_seq, frame.checksum)


def _entry_at(wal_file: WalFile, offset: int) -> _Anchor | None:
    frame = first_entry(wal_file.file, offset, HARD_LIMITS.entry_bytes)
    return None if frame is None else _anchor(wal_file, offset, frame)
