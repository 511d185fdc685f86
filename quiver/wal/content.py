"""The bytes of one WAL file, each where it is asked for: entries, marks, and what is neither."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from quiver.disk import File, PassingWindow, Window
from quiver.errors import DamageError
from quiver.payload import SEQ_MAX
from quiver.stored_run import StoredRun
from quiver.wal.format import (
    BLOCK,
    BUNDLE,
    ENTRY_OVERHEAD,
    HEAD,
    HEADER_BYTES,
    LENGTH,
    NOTE_LENGTH,
    NOTED,
    Frame,
    frame_at,
    frame_with_damaged_length,
)
from quiver.wal.reuse import FIRST, MARK_BYTES, generation_in, has_tag, mark_in, masks_of, tag_of
from quiver.wal.sweep import sweep_view

__all__ = ["Content"]

_SEARCH: Final = 1 << 20
_NEAR: Final = 1 << 13
_BEGIN_BYTES: Final = LENGTH.size + HEAD.size
_SWEPT_BYTES_MAX: Final = 1 << 25
"""What is larger is looked at by itself, and its memory let go of behind it."""


class Content(Window):
    """The content of a file; frames that are given keep their bytes alive."""

    def __init__(self, file: File, limit: int, generation: int | None = None) -> None:
        super().__init__(file)
        self.limit = limit
        head = file.read(0, FIRST)
        self.generation = generation_in(head)
        """Which one a file says it is of; None for one that was not used before."""
        self.first = HEADER_BYTES if self.generation is None else FIRST
        """From where on bytes may have been given back."""
        self._masks = masks_of(head, generation)
        self._swept = 0
        self._passing: PassingWindow | None = None

    def run(self, offset: int, last_seq: int, generation: int) -> StoredRun | None:
        """Find many good bundles from a file offset on; None if they are not many, or not good."""
        if offset < self._swept or len(self._masks) > 1:
            return None
        passing = self._passing = self._passing or PassingWindow(self._file)
        view, inside = passing.view(offset, ENTRY_OVERHEAD)
        length = int.from_bytes(view[inside : inside + 4], "little")
        if length <= min(self.limit, _SWEPT_BYTES_MAX):
            view, inside = passing.view(offset, length + ENTRY_OVERHEAD)
        run, end = sweep_view(
            view,
            inside,
            base=offset - inside,
            last_seq=last_seq,
            limit=self.limit,
            generation=generation,
            mask=self._masks[0],
        )
        self._swept = offset + end - inside
        return run

    def _passed(self, offset: int) -> bytes | None:
        """Give a copy of the entry at a file offset, if it was read to look for many."""
        if self._passing is None:
            return None
        head = self._passing.copied(offset, ENTRY_OVERHEAD)
        length = 0 if head is None else int.from_bytes(head[:4], "little")
        return self._passing.copied(offset, length + ENTRY_OVERHEAD) if length else None

    def frame(self, offset: int) -> Frame:
        """Check the entry at a file offset; raises as ``frame_at``, with file offsets."""
        inside, ready = offset - self._start, len(self._view)
        ends_inside = False
        if 0 <= inside <= ready - ENTRY_OVERHEAD:
            (length,) = LENGTH.unpack_from(self._view, inside)
            ends_inside = length <= self.limit and inside + length + ENTRY_OVERHEAD <= ready
        view = self._view
        if (copied := self._passed(offset)) is not None:
            view, inside = memoryview(copied), 0
        elif not ends_inside:
            view, inside = self.view(offset, ENTRY_OVERHEAD)
            length = int.from_bytes(view[inside : inside + 4], "little")
            if length <= self.limit:
                view, inside = self.view(offset, length + ENTRY_OVERHEAD)
        try:
            return frame_at(view, inside, self.limit, masks=self._masks)
        except DamageError as error:
            raise error.at(self._file.path, base=offset - inside) from error

    def frame_by_blocks(self, offset: int) -> Frame | None:
        """Find an entry at a file offset whose length field alone is damaged."""
        rest = min(self.size - offset, self.limit + ENTRY_OVERHEAD)
        view, inside = self.view(offset, rest)
        view = view[: inside + rest]
        return frame_with_damaged_length(view, inside, self.limit, masks=self._masks)

    def blocks_fill(self, offset: int, last_seq: int) -> bool:
        """Whether a bad entry is as long as it says: its blocks are, as far as the file has them.

        Then what is wrong is in its payloads, or it was never finished.
        """
        view, inside = self.view(offset, _BEGIN_BYTES)
        if len(view) - inside < _BEGIN_BYTES:
            return False
        (length,) = LENGTH.unpack_from(view, inside)
        kind, _, wal_seq, bitmap = HEAD.unpack_from(view, inside + LENGTH.size)
        if kind not in (BUNDLE, NOTED) or not last_seq < wal_seq <= SEQ_MAX or length > self.limit:
            return False
        end = offset + LENGTH.size + length
        place = offset + _BEGIN_BYTES
        if kind == NOTED:
            view, inside = self.view(place, NOTE_LENGTH.size)
            if len(view) - inside < NOTE_LENGTH.size:
                return place < end
            place += NOTE_LENGTH.size + NOTE_LENGTH.unpack_from(view, inside)[0]
        for _ in range(bitmap.bit_count()):
            if place + BLOCK.size > min(self.size, end):
                return self.size < place + BLOCK.size <= end
            view, inside = self.view(place, BLOCK.size)
            place += BLOCK.size + BLOCK.unpack_from(view, inside)[3]
        return place == end

    def mark(self, offset: int) -> int | None:
        """Read the mark at a file offset: the last number before it; None if there is no mark."""
        if self._masks == (0,):
            return None
        view, inside = self.view(offset, MARK_BYTES)
        data = view[inside : inside + MARK_BYTES]
        return next((seq for m in self._masks if (seq := mark_in(data, m)) is not None), None)

    def is_end(self, offset: int) -> bool:
        """Whether the entries end here: at a mark, of which the first bytes may be gone."""
        if self._masks == (0,):
            return False
        view, inside = self.view(offset, MARK_BYTES)
        data = view[inside : inside + MARK_BYTES]
        return any(has_tag(data, mask) for mask in self._masks) or self.mark(offset) is not None

    def ends_in_mark(self, offset: int) -> bool:
        """Whether the file ends inside of a mark: what cannot be an entry begins like one."""
        rest = self.size - offset
        is_cut = self._masks != (0,) and LENGTH.size <= rest < MARK_BYTES
        return is_cut and not any(self._file.read(offset, LENGTH.size))

    def end_near(self, end: int) -> int | None:
        """Find a mark that begins with zeros, the first other byte being at a file offset."""
        places = range(max(end - MARK_BYTES + 1, self.first), end + 1)
        return next((at for at in places if self.is_end(at)), None)

    def mark_behind(self, offset: int) -> int | None:
        """Find the first mark at or behind a file offset: an append to this file got as far."""
        tags = b"|".join(re.escape(tag_of(mask)) for mask in self._masks)
        marks = re.compile(b"(?=\\0{4}.{%d}(?:%s))" % (MARK_BYTES - 8, tags), re.DOTALL)
        while offset + MARK_BYTES <= self.size:
            rest = min(_SEARCH, self.size - offset)
            view, inside = self.view(offset, rest)
            for found in marks.finditer(view[inside : inside + rest]):
                if self.mark(offset + found.start()) is not None:
                    return offset + found.start()
            offset += rest - MARK_BYTES + 1
        return None

    def was_never_finished(self, offset: int, end: int) -> bool:
        """Whether what has a good beginning at most was never synced: no mark was behind it.

        Zeros where it says that it ends are no older bytes, so perhaps they were a mark.
        """
        if self.generation is None or end < self.size:
            return False
        (length,) = LENGTH.unpack(self._file.read(offset, LENGTH.size).ljust(LENGTH.size, b"\0"))
        mark = self._file.read(offset + length + ENTRY_OVERHEAD, MARK_BYTES)
        return any(mark) or not mark

    def next_nonzero(self, offset: int) -> int:
        """Find the first byte at or after ``offset`` that is not 0; the size if there is none."""
        piece = _NEAR  # Mostly it is there.
        while offset < self.size:
            data_at = self._file.next_data(offset)
            if data_at is None:
                return self.size
            data = self._file.read(data_at, piece)
            is_other = np.frombuffer(data, np.uint8) != 0
            if is_other.any():
                return data_at + int(is_other.argmax())
            offset, piece = data_at + len(data), _SEARCH
        return self.size
