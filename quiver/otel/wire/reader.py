"""All messages of one level at once: each step reads one field of every message that has more.

A step costs the same few calls for two messages as for ten thousand, so what is left of few
messages is read one field after another: no message costs more than its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from quiver.otel.wire.alike import PLAIN_TAGS, walk
from quiver.otel.wire.lone import Lone, read_alone
from quiver.otel.wire.source import (
    BYTES_MAX,
    Flags,
    Ints,
    Longs,
    Octets,
    Ranges,
    Source,
    malformed,
)
from quiver.otel.wire.varints import SHORT, read_varints

__all__ = ["FEW", "Level", "fixed32", "fixed64", "read", "span", "varint"]

FEW: Final = 24
"""As many messages are dearer in a step than one by one."""

_VARINT, _WORD, _RANGE, _, _, _HALF = range(6)
_SIZES: Final = np.array([0, 8, 0, 0, 0, 4, 0, 0], np.int64)
_FEW_TAGS: Final = 8
_FEW_EACH: Final = 8
"""So few tags, with so many messages each, are sooner read one by one than all at once."""
_LAYOUTS: Final = 4
"""So many layouts of messages are tried, as long as each is that of a good part of the rest."""
_PART: Final = 4
_ALIKE_MIN: Final = 6
_KNOWN: Final = np.array([True, True, True, False, False, True, False, False])


def varint(number: int) -> int:
    """Give the tag of a field that is a varint."""
    return number << 3 | _VARINT


def fixed64(number: int) -> int:
    """Give the tag of a field of 8 bytes."""
    return number << 3 | _WORD


def fixed32(number: int) -> int:
    """Give the tag of a field of 4 bytes."""
    return number << 3 | _HALF


def span(number: int) -> int:
    """Give the tag of a field with a length: a text, bytes, a message, or packed numbers."""
    return number << 3 | _RANGE


@dataclass(slots=True)
class _Found:
    """What was found under one tag: parts of three columns, of a step each."""

    owner: list[Ints] = field(default_factory=list)
    start: list[Ints] = field(default_factory=list)
    value: list[Longs] = field(default_factory=list)

    def add(self, owner: Ints, start: Ints, value: Longs) -> None:
        self.owner.append(owner)
        self.start.append(start)
        self.value.append(value)


class Level:
    """The fields of all messages of one level, by tag, for the tags that were asked for."""

    __slots__ = ("_found", "count")

    def __init__(self, count: int, found: dict[int, _Found]) -> None:
        """``count`` is how many messages there are, with those that had no bytes."""
        self.count = count
        self._found = found

    def __contains__(self, tag: int) -> bool:
        """Whether any message has such a field."""
        return bool(self._found[tag].owner)

    def fields(self, tag: int) -> tuple[Ints, Ints, Longs]:
        """Give all fields of a tag in order: whose each is, where it starts, and its value."""
        found = self._found[tag]
        if not found.owner:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64)
        if len(found.owner) > 1:
            owner, start = np.concatenate(found.owner), np.concatenate(found.start)
            value = np.concatenate(found.value)
            order = np.argsort(start, kind="stable")
            found.owner, found.start = [owner[order]], [start[order]]
            found.value = [value[order]]
        return found.owner[0], found.start[0], found.value[0]

    def ranges(self, number: int) -> Ranges:
        """Give all ranges of a field, in order: of a repeated one, or parts of one message."""
        owner, start, value = self.fields(span(number))
        return Ranges(owner, start, value.view(np.int64))

    def last(self, tag: int, default: int = 0) -> Longs:
        """Give the value of each message: the last one it has, as protobuf has it."""
        if tag not in self:
            return np.full(self.count, default, np.uint64)
        owner, _, value = self.fields(tag)
        if owner.size == self.count and _each_one(owner):
            return value
        out = np.full(self.count, default, np.uint64)
        out[owner] = value
        return out

    def last_at(self, tag: int) -> Ints:
        """Give where the last such field of each message starts, -1 where there is none."""
        out = np.full(self.count, -1, np.int64)
        owner, start, _ = self.fields(tag)
        out[owner] = start
        return out

    def last_range(self, number: int) -> tuple[Ints, Ints]:
        """Give start and end of the last range of each message, -1 and -1 where there is none."""
        ranges = self.ranges(number)
        if ranges.size == self.count and _each_one(ranges.owner):
            return ranges.start, ranges.end
        start, end = np.full(self.count, -1, np.int64), np.full(self.count, -1, np.int64)
        start[ranges.owner], end[ranges.owner] = ranges.start, ranges.end
        return start, end


def _each_one(owner: Ints) -> bool:
    """Whether so many owners, ascending, are all different."""
    return not np.count_nonzero(owner[1:] == owner[:-1])


def read(source: Source, messages: Ranges, tags: Iterable[int], *, count: int) -> Level:
    """Read these messages, ``count`` of them; other fields are checked and passed over.

    Raises InputError with the byte at which something is no protobuf.
    """
    found = {tag: _Found() for tag in tags}
    owner, at, end = messages.owner, messages.start, messages.end
    has_bytes = at < end
    if np.count_nonzero(has_bytes) < at.size:
        owner, at, end = owner[has_bytes], at[has_bytes], end[has_bytes]
    for _ in range(_LAYOUTS):
        before = at.size
        if before > _ALIKE_MIN:
            owner, at, end = _walk(source, (owner, at, end), found)
        if before - at.size <= before // _PART:
            break
    while at.size > FEW:
        owner, at, end = _step(source, (owner, at, end), found)
    _read_alone(source, (owner, at, end), found)
    return Level(count, found)


def _walk(
    source: Source, messages: tuple[Ints, Ints, Ints], found: dict[int, _Found]
) -> tuple[Ints, Ints, Ints]:
    """Read the messages that are laid out as the first of them; give the others."""
    owner, at, end = messages
    alike = walk(source, at, end)
    if alike is None:
        return messages
    rest = ~alike.fine
    mine = owner[alike.fine] if np.count_nonzero(rest) else owner
    for tag in found.keys() & set(alike.tags):
        each, start, value = alike.fields(tag)
        found[tag].add(np.repeat(mine, each) if each > 1 else mine, start, value)
    return owner[rest], at[rest], end[rest]


def _step(
    source: Source, messages: tuple[Ints, Ints, Ints], found: dict[int, _Found]
) -> tuple[Ints, Ints, Ints]:
    """Read one field of each message; give the messages that have more, from there on."""
    owner, at, end = messages
    first = source.octets[at]
    tag = int(first[0])
    tags = [tag]
    if np.count_nonzero(first == tag) < first.size:
        tags = np.flatnonzero(np.bincount(first)).tolist()
    if len(tags) > min(_FEW_TAGS, at.size // _FEW_EACH) or not PLAIN_TAGS.issuperset(tags):
        odd = _odd(source, first, at)
        if np.count_nonzero(odd):
            _read_alone(source, (owner[odd], at[odd], end[odd]), found)
            owner, at, end = owner[~odd], at[~odd], end[~odd]
        after = _read_any(source, owner, at, found=found)
    elif len(tags) == 1:
        start, value, after = _same(source, at, tag)
        if tag in found:
            found[tag].add(owner, start, value)
    else:
        after = np.empty(at.size, np.int64)
        for tag in tags:
            those = np.flatnonzero(first == tag)
            start, value, after[those] = _same(source, at[those], tag)
            if tag in found:
                found[tag].add(owner[those], start, value)
    left = end - after
    least = int(np.minimum.reduce(left, initial=1))
    if least < 0:
        where = int(at[int(np.argmax(left < 0))])
        raise malformed(where, "a field ends behind the message that it is in")
    if least:
        return owner, after, end
    more = left > 0
    return owner[more], after[more], end[more]


def _read_any(source: Source, owner: Ints, at: Ints, *, found: dict[int, _Found]) -> Ints:
    """Read fields of any tags; give where they end."""
    seen, start, value, after = _mixed(source, at)
    there = np.bincount(seen, minlength=max(found, default=0) + 1)
    for tag, to in found.items():
        if there[tag]:
            those = np.flatnonzero(seen == tag)
            to.add(owner[those], start[those], value[those])
    return after


def _odd(source: Source, first: Octets, at: Ints) -> Flags:
    """Tell whose next field is none that vectors read: a group, a long tag, or malformed."""
    return (~_KNOWN[first & 7]) | ((first >= 0x80) & (source.octets[at + 1] >= 0x80))  # noqa: PLR2004


def _same(source: Source, at: Ints, tag: int) -> tuple[Ints, Longs, Ints]:
    """Read one field of one tag of each message: where values start, values, where they end."""
    kind = tag & 7
    start = at + 1
    if kind == _VARINT:
        value, after = read_varints(source, start)
        return start, value, after
    if kind == _RANGE:
        short = source.octets[start]
        if short.tobytes().isascii():  # All lengths have one byte.
            start += 1
            after = start + short
            return start, after.view(np.uint64), after
        size, inside = read_varints(source, start)
        after = _behind(start, inside, size)
        start = inside
        return start, after.view(np.uint64), after
    return start, _words(source, start, kind), start + _SIZES[kind]


def _mixed(source: Source, at: Ints) -> tuple[Ints, Ints, Longs, Ints]:
    """Read one field of each message: its tag, then as those of one tag."""
    octets = source.octets
    tag = octets[at].astype(np.int64)
    start = at + 1
    long = np.flatnonzero(tag >= 0x80)  # noqa: PLR2004
    if long.size:
        tag[long] = (tag[long] & 0x7F) | (octets[start[long]].astype(np.int64) << 7)
        start[long] += 1
    if bool((tag < 8).any()):  # noqa: PLR2004
        raise malformed(int(at[int(np.argmax(tag < 8))]), "there is no field of that number")  # noqa: PLR2004
    kind = tag & 7
    value = np.zeros(at.size, np.uint64)
    after = start + _SIZES[kind]
    varints = np.flatnonzero((kind == _VARINT) | (kind == _RANGE))
    value[varints], after[varints] = read_varints(source, start[varints])
    ranges = np.flatnonzero(kind == _RANGE)
    inside = after[ranges]
    after[ranges] = _behind(start[ranges], inside, value[ranges])
    start[ranges] = inside
    value[ranges] = after[ranges].view(np.uint64)
    for width in (_WORD, _HALF):
        those = np.flatnonzero(kind == width)
        if those.size:
            value[those] = _words(source, start[those], width)
    return tag, start, value, after


def _words(source: Source, at: Ints, kind: int) -> Longs:
    """Give the 8 or 4 bytes from each place on, which is a little past the end at most."""
    if kind == _WORD:
        return source.words64[at]
    return source.words32[at].astype(np.uint64)


def _behind(at: Ints, start: Ints, size: Longs) -> Ints:
    """Give where ranges of these sizes end; the sizes stand from ``at`` to ``start``."""
    worst = int(size.max(initial=0))
    if worst > BYTES_MAX:
        where = int(at[int(np.argmax(size))])
        raise malformed(where, f"a field of {worst} bytes ends behind the message that it is in")
    long = start - at > SHORT
    if np.count_nonzero(long):
        raise malformed(int(at[int(np.argmax(long))]), f"a length goes on after {SHORT} bytes")
    return start + size.view(np.int64)


def _read_alone(
    source: Source, messages: tuple[Ints, Ints, Ints], found: dict[int, _Found]
) -> None:
    """Read what is left of these messages, each for itself."""
    if not messages[0].size:
        return
    mine = {tag: Lone() for tag in found}
    read_alone(source, zip(*(each.tolist() for each in messages), strict=True), mine)
    for tag, those in mine.items():
        if those.start:
            start, value = (
                np.frombuffer(those.start, np.int64),
                np.frombuffer(those.value, np.uint64),
            )
            found[tag].add(np.frombuffer(those.owner, np.int64), start, value)
