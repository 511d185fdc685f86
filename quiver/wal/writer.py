"""Append to the active WAL file, and make appends durable, many with one sync.

One thread appends at a time (the store sees to it); any number may wait in ``sync``. Whoever gets
the sync lock first syncs for all that were written by then; the others find it done.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain

from quiver.disk import Bytes, File, copy_bytes, write_parts
from quiver.errors import PoisonedError, QuiverError
from quiver.wal.format import Place
from quiver.wal.reuse import MARK_BYTES, dressed, encode_mark, mask_of, split

__all__ = ["ReusedWriter", "Writer"]


class Writer:
    """The end of the active file: where the next entry goes and how far the file is durable."""

    def __init__(self, file: File, generation: int, end: int) -> None:
        """Take over a file whose first ``end`` bytes are good and durable."""
        self.generation = generation
        self.end = end
        self.sync_count = 0
        self._file = file
        self._synced = end
        self.fault: BaseException | None = None
        self._sync_lock = threading.Lock()
        self._hole_lock = threading.RLock()
        self._holes_begun = 0
        self._closed = False

    @property
    def file_bytes(self) -> int:
        """How large the file is."""
        return self.end

    def append(self, *entries: Sequence[Bytes], last_seq: int) -> Place:
        """Write the parts of entries and give the place behind; not durable before ``sync``.

        ``last_seq`` is the number of the last one. If the disk refuses, what was written is taken
        back and nothing has changed.
        """
        if self.fault is not None:
            self.check()
        try:
            byte_count = self._write(entries, last_seq)
        except QuiverError as error:
            try:
                self._take_back()
            except QuiverError as worse:
                self.fault = worse
                raise self._poisoned() from error
            raise
        self.end += byte_count
        return Place(self.generation, self.end)

    def _write(self, entries: Sequence[Sequence[Bytes]], last_seq: int) -> int:  # noqa: ARG002 Others do.
        return write_parts(self._file, self.end, list(chain.from_iterable(entries)))

    def _take_back(self) -> None:
        self._file.truncate(self.end)

    def trim(self) -> None:
        """Give back what is behind the end; nobody else writes to the file meanwhile."""

    def sync(self, offset: int | None = None) -> None:
        """Return once the first ``offset`` bytes (default: all) survive a power cut.

        A failed sync poisons the writer: what is on disk is unknown then, and a second try could
        succeed although the bytes are gone.
        """
        wanted = self.end if offset is None else offset
        if wanted <= self._synced:
            return
        with self._sync_lock:
            if wanted <= self._synced:
                return
            if self.fault is not None:
                self.check()
            reached = self.end
            try:
                self._file.sync()
            except QuiverError as error:
                self.fault = error
                raise self._poisoned() from error
            except BaseException as error:
                self.fault = error  # The answer of the disk, perhaps a refusal, got lost.
                raise
            self._synced = reached
            self.sync_count += 1

    def copy_tail(self, offset: int, target: File, at: int) -> int:
        """Copy all entries from ``offset`` on to ``at`` in another file; give where they end."""
        copy_bytes(self._file, target, offset=offset, length=self.end - offset, at=at)
        return at + self.end - offset

    def punch(self, start: int, end: int) -> bool:
        """Give bytes ``[start, end)`` back to the disk; False if it cannot do that.

        From any thread: a file that was closed before is left alone, since it is not needed, and
        one that is closed meanwhile stays open for so long.
        """
        with self._hole_lock:
            if self._closed:
                return True
            self._holes_begun += 1
        try:
            return self._file.punch(start, end - start)
        finally:
            self._let_go(holes_done=1)

    def poison(self, fault: QuiverError) -> None:
        """Refuse everything from now on."""
        self.fault = self.fault or fault

    def check(self) -> None:
        """Raise PoisonedError if the writer is poisoned."""
        if self.fault is not None:
            raise self._poisoned() from self.fault

    def _poisoned(self) -> PoisonedError:
        return PoisonedError(
            f"the write-ahead log stopped in the middle of a write: {self.fault!r}",
            hint="nothing more is acknowledged; close the store and open it again",
        )

    def close(self) -> None:
        """Let go of the file without a sync, once no sync is running."""
        with self._sync_lock:
            self._closed = True
            self._let_go(holes_done=0)

    def _let_go(self, *, holes_done: int) -> None:
        with self._hole_lock:
            self._holes_begun -= holes_done
            if self._closed and not self._holes_begun:
                self._file.close()


class ReusedWriter(Writer):
    """The end of a file that was used before: a mark, behind which are bytes of that time.

    All but the first bytes of what is appended is written first, and a new mark behind it. Those
    bytes take the place of the old mark then, so that a kill leaves one mark or the other.
    """

    def __init__(
        self, file: File, generation: int, end: int, *, file_bytes: int, last_seq: int
    ) -> None:
        """Take over a file that has a mark behind its first ``end`` bytes, with this number."""
        super().__init__(file, generation, end)
        self._mask = mask_of(generation)
        self._size = file_bytes
        self._mark = encode_mark(last_seq, self._mask)

    @property
    def file_bytes(self) -> int:
        """How large the file is."""
        return max(self._size, self.end + MARK_BYTES)

    def _write(self, entries: Sequence[Sequence[Bytes]], last_seq: int) -> int:
        parts = [part for entry in entries for part in dressed(entry, self._mask)]
        first, rest = split(parts)
        mark = encode_mark(last_seq, self._mask)
        byte_count = write_parts(self._file, self.end + MARK_BYTES, [*rest, mark])
        self._file.write(self.end, first)
        self._mark = mark
        return byte_count

    def trim(self) -> None:
        """Give back what is older behind the mark: the file grows from here on."""
        if self._size > self.end + MARK_BYTES:
            self._file.truncate(self.end + MARK_BYTES)
            self._size = 0

    def _take_back(self) -> None:
        self._file.truncate(self.end + MARK_BYTES)
        self._size = 0
        self._file.write(self.end, self._mark)
