"""Messages that are laid out alike: one of them says what to look for, and all are held to it.

A sender writes each record of a kind with the same fields in the same order. So the tags of one
message are a guess at those of all: it is followed blindly, a few calls for each field, and looked
at in the end. What it does not fit is left to others; nothing is believed that was not seen.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from quiver.otel.wire.source import Flags, Ints, Longs, Source

__all__ = ["PLAIN_TAGS", "Alike", "row_of", "walk"]

PLAIN_TAGS: Final = frozenset(tag for tag in range(8, 0x80) if tag & 7 in {0, 1, 2, 5})
"""Tags of one byte that are no groups."""

_FIELDS_MAX: Final = 64
_BREAKS_MAX: Final = 16
_WORD, _RANGE, _HALF = 1, 2, 5
_WIDTHS: Final = {_WORD: 8, _HALF: 4}
_MORE: Final = 0x80
"""From here on a byte says that another one of its varint follows."""


class Alike(NamedTuple):
    """Fields of messages that are laid out alike: a row for each field, a column for each."""

    tags: list[int]
    fine: Flags
    """Which of the messages it is about: the others are laid out otherwise."""
    start: Ints
    value: Longs

    def fields(self, tag: int) -> tuple[int, Ints, Longs]:
        """Give how many of a tag each message has, where they start, and their values."""
        rows = [row for row, each in enumerate(self.tags) if each == tag]
        if len(rows) == 1:
            return 1, self.start[rows[0]], self.value[rows[0]]
        return len(rows), self.start[rows].T.ravel(), self.value[rows].T.ravel()


def walk(source: Source, at: Ints, end: Ints) -> Alike | None:
    """Read messages as one of them is laid out; None if that is short, long, or odd."""
    middle = at.size // 2
    tags = _layout(source, int(at[middle]), int(end[middle]))
    if tags is None:
        return None
    octets, right = source.octets, None
    begin, start, value = (np.empty((len(tags), at.size), np.int64) for _ in range(3))
    for row, tag in enumerate(tags):
        begin[row], kind = at, tag & 7
        inside = np.add(at, 1, out=start[row])
        if kind in _WIDTHS:
            at = inside + _WIDTHS[kind]
            continue
        number = octets.take(inside, mode="clip")
        at = np.add(inside, 1, out=inside if kind == _RANGE else None)
        if not number.tobytes().isascii():  # Some have a second byte.
            number, right = _longer(source, at, number, right=right)
        value[row] = number
        if kind == _RANGE:
            at = np.add(value[row], at, out=value[row])
    fine = octets.take(begin, mode="clip") == np.array(tags, np.uint8)[:, None]
    fine = np.logical_and.reduce(fine, axis=0) & (at == end)
    if right is not None:
        fine &= right
    if np.count_nonzero(fine) < fine.size:
        start, value = start[:, fine], value[:, fine]
    _words(source, tags, start, value=value)
    return Alike(tags, fine, start, value.view(np.uint64))


def _words(source: Source, tags: list[int], start: Ints, *, value: Ints) -> None:
    """Read the numbers of 8 and of 4 bytes."""
    for row, tag in enumerate(tags):
        if tag & 7 == _WORD:
            value[row] = source.words64[start[row]].view(np.int64)
        elif tag & 7 == _HALF:
            value[row] = source.words32[start[row]]


def _longer(
    source: Source, at: Ints, first: Ints, *, right: Flags | None
) -> tuple[Ints, Flags | None]:
    """Give varints of one or two bytes, of which the first was read; ``at`` is moved on."""
    long = first >= _MORE
    second = source.octets.take(at, mode="clip").astype(np.int64)
    number = first + long * ((second << 7) - _MORE)
    np.add(at, long, out=at)
    short = ~long | (second < _MORE)
    return number, short if right is None else right & short


def _layout(source: Source, at: int, end: int) -> list[int] | None:
    """Give the tags of a message, None if it has one alone, too many, or any that is odd."""
    data, tags = source.data, list[int]()
    while at < end:
        tag = data[at]
        if tag not in PLAIN_TAGS or len(tags) == _FIELDS_MAX:
            return None
        tags.append(tag)
        at += 1
        if tag & 7 in _WIDTHS:
            at += _WIDTHS[tag & 7]
            continue
        size, at = data[at], at + 1
        if size >= _MORE:
            size, at = size + (data[at] << 7) - _MORE, at + 1
        at += size if tag & 7 == _RANGE else 0
    return tags if at == end and len(tags) > 1 else None


def row_of(source: Source, at: int, end: int) -> tuple[Ints, Ints]:
    """Give start and end of ranges that lie in a row from a byte on, all of its tag.

    They are looked for by their tag and by what the first of them begins with. The row may end
    early, or be empty.
    """
    octets, tag = source.octets, source.octets[at]
    head = 2 if octets[at + 1] < _MORE else 3
    if head > 2 and octets[at + 2] >= _MORE:  # noqa: PLR2004
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first = octets[at + head]
    likely = octets[at + 2 : end + 2] == first
    likely |= octets[at + 3 : end + 3] == first
    likely &= octets[at:end] == tag
    begin = np.flatnonzero(likely) + at
    size = octets[begin + 1].astype(np.int64)
    second = octets[begin + 2].astype(np.int64)
    long = size >= _MORE
    start = begin + 2 + long
    stop = start + size + long * ((second << 7) - _MORE)
    fine = (octets[start] == first) & ~(long & (second >= _MORE))
    return _in_a_row(begin[fine], start[fine], stop[fine], end=end)


def _in_a_row(begin: Ints, start: Ints, stop: Ints, *, end: int) -> tuple[Ints, Ints]:
    """Leave out what is no link of the chain that begins with the first."""
    parts: list[slice] = []
    low = 0
    breaks = np.flatnonzero(begin[1:] != stop[:-1])
    while len(parts) < _BREAKS_MAX:
        place = int(np.searchsorted(breaks, low))
        high = int(breaks[place]) + 1 if place < breaks.size else begin.size
        parts.append(slice(low, high))
        low = int(np.searchsorted(begin, stop[high - 1]))
        if low == begin.size or begin[low] != stop[high - 1]:
            break
    if len(parts) > 1:
        start, stop = (np.concatenate([each[part] for part in parts]) for each in (start, stop))
    else:
        start, stop = start[parts[0]], stop[parts[0]]
    inside = int(np.searchsorted(stop, end, side="right"))
    return start[:inside], stop[:inside]
