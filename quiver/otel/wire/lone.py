"""Fields of one message, one after another: where vectors are too dear, or the bytes too odd."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final

from quiver.errors import InputError
from quiver.otel.wire.alike import row_of
from quiver.otel.wire.source import Source, malformed
from quiver.otel.wire.varints import SHORT, VARINT_SIZE_MAX

__all__ = ["DEPTH_MAX", "Lone", "fields_of", "lone_varint", "read_alone", "take_apart"]

DEPTH_MAX: Final = 100
"""How deep groups may lie in each other, as libraries of protobuf have it."""

_ROW_MIN: Final = 16
"""Where so many ranges of the size of the first would fit, they are looked for all at once."""
_TAG_MAX: Final = (1 << 32) - 1
_U64_MAX: Final = (1 << 64) - 1
_VARINT, _WORD, _RANGE, _GROUP, _GROUP_END, _HALF = range(6)


def _longs() -> array[int]:
    return array("Q")


@dataclass(frozen=True, slots=True)
class Lone:
    """Columns of the fields of one tag: whose each is, where its value starts, and the value.

    The value of a range is its end.
    """

    owner: array[int] = field(default_factory=_longs)
    start: array[int] = field(default_factory=_longs)
    value: array[int] = field(default_factory=_longs)


def lone_varint(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Give the varint of at most so many bytes that begins at one, and where it ends.

    ``data`` is padded. Bits above the 64th are nobody's, as libraries of protobuf have it.
    """
    value = 0
    for place in range(most):
        octet = data[at + place]
        value |= (octet & 0x7F) << 7 * place
        if octet < 0x80:  # noqa: PLR2004
            return value & _U64_MAX, at + place + 1
    raise malformed(at, f"a varint goes on after {most} bytes")


def read_alone(
    source: Source, messages: Iterable[tuple[int, int, int]], found: Mapping[int, Lone]
) -> int:
    """Read messages, each given as owner, start and end, into the columns of the tags wanted.

    Gives how many fields there were: others are checked and passed over, groups whole. Raises
    InputError.
    """
    ranges = {tag: (to.start.append, to.value.append) for tag, to in found.items() if tag & 7 == 2}  # noqa: PLR2004
    count = 0
    for owner, at, end in messages:
        count += _read_one(source, (at, end), found, ranges=ranges)
        for column in found.values():
            column.owner.extend(repeat(owner, len(column.start) - len(column.owner)))
    return count


def _read_one(
    source: Source,
    message: tuple[int, int],
    found: Mapping[int, Lone],
    *,
    ranges: Mapping[int, tuple[Callable[[int], None], Callable[[int], None]]],
) -> int:
    data, (at, end), count = source.data, message, 0
    while at < end:
        begin = at
        tag = data[at]
        add = ranges.get(tag)
        if add is not None:  # Thousands of messages in one: no call that can be spared.
            size, at = data[at + 1], at + 2
            if size >= 0x80:  # noqa: PLR2004
                more = data[at]
                if more < 0x80:  # noqa: PLR2004
                    size, at = size & 0x7F | more << 7, at + 1
                else:
                    size, at = lone_varint(data, begin + 1, SHORT)
            add[0](at)
            at += size
            if at > end:
                raise _too_long(begin)
            add[1](at)
        else:
            at = _any_field(source, begin, end, found=found)
        count += 1
    return count


def take_apart(
    source: Source, at: int, end: int, *, tag: int
) -> tuple[array[int], array[int], bytes]:
    """Part a message: where its ranges of one tag start and end, and the bytes of all else.

    Raises InputError.
    """
    data, column, others = source.data, Lone(), list[bytes]()
    start, stop = column.start.append, column.value.append
    begin, is_row = at, True
    while at < end:  # Thousands of messages in one: no step that can be spared.
        begin = at
        if data[at] == tag:
            size = data[at + 1]
            if is_row:
                is_row = False
                long = size + (data[at + 2] << 7) if size >= 0x80 else size  # noqa: PLR2004
                if _ROW_MIN * long < end - at:
                    at = _take_row(source, at, end, column=column)
                    continue
            if size < 0x80:  # noqa: PLR2004
                start(at + 2)
                at += size + 2
                stop(at)
                continue
            more = data[at + 2]
            if more < 0x80:  # noqa: PLR2004
                start(at + 3)
                at += (more << 7) + size - 0x7D
                stop(at)
                continue
        count = len(column.start)
        at = _any_field(source, begin, end, found={tag: column})
        if len(column.start) == count:
            others.append(data[begin:at])
    if at > end:
        raise _too_long(begin)
    return column.start, column.value, b"".join(others)


def _take_row(source: Source, at: int, end: int, *, column: Lone) -> int:
    """Take as many ranges as are found at once; give where the last of them ends."""
    starts, stops = row_of(source, at, end)
    column.start.frombytes(starts.tobytes())
    column.value.frombytes(stops.tobytes())
    return int(stops[-1]) if stops.size else at


def _any_field(source: Source, begin: int, end: int, *, found: Mapping[int, Lone]) -> int:
    """Read one field of any kind; give where it ends."""
    tag, at = lone_varint(source.data, begin, SHORT)
    if tag & 7 == _GROUP:
        return _behind_group(source.data, begin, end)
    start, value, at = _value(source.data, begin, (tag, at))
    if at > end:
        raise _too_long(begin)
    column = found.get(tag)
    if column is not None:
        column.start.append(start)
        column.value.append(value)
    return at


def _too_long(begin: int) -> InputError:
    return malformed(begin, "a field ends behind the message that it is in")


def _value(data: bytes, begin: int, found: tuple[int, int]) -> tuple[int, int, int]:
    """Give where a value starts, the value, and where the field ends; its tag was found."""
    tag, at = found
    kind = tag & 7
    if not 8 <= tag <= _TAG_MAX:  # noqa: PLR2004
        raise malformed(begin, "there is no field of that number")
    if kind == _RANGE:
        size = data[at]
        if size < 0x80:  # noqa: PLR2004
            at += 1
        else:
            size, at = lone_varint(data, at, SHORT)
        return at, at + size, at + size
    if kind == _VARINT:
        value, after = lone_varint(data, at, VARINT_SIZE_MAX)
        return at, value, after
    if kind not in {_WORD, _HALF}:
        raise malformed(begin, f"wire type {kind} has no place there")
    after = at + (8 if kind == _WORD else 4)
    return at, int.from_bytes(data[at:after], "little"), after


def _behind_group(data: bytes, at: int, end: int) -> int:
    """Give where the group ends that begins at a byte."""
    start = at
    inside: list[int] = []
    while at < end:
        begin = at
        tag, at = lone_varint(data, at, SHORT)
        kind = tag & 7
        if kind == _GROUP and 8 <= tag <= _TAG_MAX:  # noqa: PLR2004
            inside.append(tag + 1)
            if len(inside) > DEPTH_MAX:
                raise malformed(begin, f"groups lie deeper than {DEPTH_MAX} in each other")
        elif kind == _GROUP_END:
            if inside.pop() != tag:
                raise malformed(begin, "a group ends that was not begun")
            if not inside and at <= end:
                return at
        else:
            at = _value(data, begin, (tag, at))[2]
    raise malformed(start, "a group does not end in its message")


def fields_of(source: Source, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Go through the fields from a byte on: tag, where its value starts, and the value."""
    data = source.data
    while at < end:
        begin = at
        tag, at = lone_varint(data, begin, SHORT)
        if tag & 7 == _GROUP:
            at = _behind_group(data, begin, end)
            continue
        start, value, at = _value(data, begin, (tag, at))
        if at > end:
            raise _too_long(begin)
        yield tag, start, value
