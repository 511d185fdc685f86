"""Walk the entries of one log file, and find the way again behind damage.

The same work as in the reader of our own log, over other bytes: here files have no holes, and a
checksum of another kind. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from quiver.disk import File, Window
from quiver.errors import DamageError, TornEntry
from quiver.upstream.format import (
    BUNDLE,
    ENTRY_BYTES_MAX,
    ENTRY_BYTES_MIN,
    ENTRY_OVERHEAD,
    HEAD,
    LENGTH,
    Frame,
    blocks_fit,
    frame_at,
    frame_with_damaged_length,
)

__all__ = ["Entry", "Skipped", "good_at", "walk"]

_SEARCH: Final = 1 << 20
_CHECK_WORK: Final = 4
"""How many times the size of the file a search for the next entry may checksum."""


class Entry(NamedTuple):
    """A good entry in ``[offset, end)`` of the file."""

    offset: int
    end: int
    frame: Frame
    damage: DamageError | None = None
    """Set when the entry is good although its length field was not."""


class Skipped(NamedTuple):
    """Bytes ``[offset, end)`` that are no entries; ``is_torn`` if they were never finished.

    Only the end of a file may be torn: it ends early, or nothing but zeros is there.
    """

    offset: int
    end: int
    error: DamageError
    is_torn: bool


Item: TypeAlias = Entry | Skipped


class _Bytes(Window):
    """The entries of a file, each where it is asked for; frames keep their bytes alive."""

    def entry(self, offset: int) -> tuple[memoryview, int]:
        """Give a buffer with all of the entry at ``offset``, as far as its length can be right."""
        view, inside = self.view(offset, ENTRY_OVERHEAD)
        length = int.from_bytes(view[inside : inside + LENGTH.size], "little")
        if length <= ENTRY_BYTES_MAX:
            return self.view(offset, length + ENTRY_OVERHEAD)
        return view, inside

    def frame(self, offset: int) -> Frame:
        """Check the entry at a file offset; raises as ``frame_at``, with file offsets."""
        view, inside = self.entry(offset)
        try:
            return frame_at(view, inside)
        except DamageError as error:
            raise error.at("", base=offset - inside) from error

    def frame_by_blocks(self, offset: int) -> Frame | None:
        """Find an entry at a file offset whose length field alone is damaged."""
        view, inside = self.view(offset, ENTRY_BYTES_MAX + ENTRY_OVERHEAD)
        return frame_with_damaged_length(view, inside)

    def behind(self, offset: int) -> int:
        """Where an entry ends if its length is right."""
        view, inside = self.view(offset, LENGTH.size)
        return offset + int.from_bytes(view[inside : inside + 4], "little") + ENTRY_OVERHEAD

    def is_blank(self, offset: int) -> bool:
        """Whether nothing but zeros follows."""
        while offset < self.size:
            data = self._file.read(offset, _SEARCH)
            if any(data):
                return False
            offset += len(data)
        return True


def walk(file: File, start: int) -> Iterator[Item]:
    """Go through a file from an entry boundary; what lies between entries is told as skipped."""
    data = _Bytes(file)
    offset, last_seq = start, -1
    while offset < data.size:
        item = _item_at(data, offset, last_seq)
        if isinstance(item, Entry) and item.frame.entry_type == BUNDLE:
            last_seq = item.frame.sequence
        yield item
        offset = item.end


def good_at(file: File, offset: int) -> bool:
    """Whether a good entry begins at this place of a file."""
    return _good(_Bytes(file), offset, -1)


def _item_at(data: _Bytes, offset: int, last_seq: int) -> Item:
    try:
        frame = data.frame(offset)
        return Entry(offset, offset + frame.end - frame.offset, frame)
    except DamageError as error:
        whole = data.frame_by_blocks(offset)
        if whole is not None:
            return Entry(offset, offset + whole.end - whole.offset, whole, error)
        end = _next_entry(data, offset, last_seq)
        is_last = end == data.size
        torn = is_last and (isinstance(error, TornEntry) or data.is_blank(offset))
        return Skipped(offset, end, error, torn)


def _next_entry(data: _Bytes, offset: int, last_seq: int) -> int:
    """Find where the next good entry behind the bad one at ``offset`` starts, or the file's end.

    First where the bad entry's own length says, so that entries inside its payload are not taken
    for entries. Otherwise anywhere, but with a later sequence: the search is vectorised over all
    places, and what it checksums is bounded, so that hostile bytes cannot make it quadratic.
    """
    neighbour = data.behind(offset)
    if _good(data, neighbour, -1):
        return neighbour
    budget = _CHECK_WORK * data.size + _SEARCH
    offset += 1
    while offset + ENTRY_BYTES_MIN <= data.size:
        view, inside = data.view(offset, min(_SEARCH, data.size - offset))
        window = np.frombuffer(view[inside : inside + _SEARCH], np.uint8)
        for candidate in _plausible(window, data.size - offset):
            at = offset + int(candidate)
            if blocks_fit(*data.entry(at)):
                if _good(data, at, last_seq):
                    return at
                budget -= data.behind(at) - at
                if budget < 0:
                    return data.size
        if len(window) < _SEARCH:
            break
        offset += len(window) - ENTRY_BYTES_MIN + 1
    return data.size


def _good(data: _Bytes, offset: int, last_seq: int) -> bool:
    if offset + ENTRY_BYTES_MIN > data.size:
        return False
    try:
        frame = data.frame(offset)
    except DamageError:
        return False
    return frame.sequence > last_seq or frame.entry_type != BUNDLE


def _plausible(
    window: np.ndarray[tuple[int], np.dtype[np.uint8]], rest: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Places in a window where length and type could be those of a bundle."""
    count = len(window) - HEAD.size - 4 + 1
    if count <= 0:
        return np.empty(0, np.int64)
    wide = window.astype(np.int64)
    length = sum(wide[i : i + count] << (8 * i) for i in range(4))
    fits = (length >= HEAD.size) & (length <= ENTRY_BYTES_MAX)
    fits &= length + ENTRY_OVERHEAD + np.arange(count) <= rest
    fits &= window[4 : 4 + count] == BUNDLE
    return np.flatnonzero(fits)
