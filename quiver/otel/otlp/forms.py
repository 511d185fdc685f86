"""The forms of single values: numbers, texts, ids, and times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.columns import fixed_ids, times, words
from quiver.otel.otlp.entries import Reading, Writing, numbers_of
from quiver.otel.wire import Flags, Ints, Level, Longs, binaries, fixed32, fixed64, last_texts, span
from quiver.otel.wire import varint as varint_tag

__all__ = ["DURATION", "TIME", "Duration", "Id", "Number", "Text", "Wire", "has_last"]

TIME: Final = pa.timestamp("ns")
DURATION: Final = pa.duration("ns")


class Wire(Enum):
    """How a number stands in bytes."""

    VARINT = "varint"
    ZIGZAG = "zigzag"
    FIXED32 = "fixed32"
    FIXED64 = "fixed64"

    def tag(self, number: int) -> int:
        """Give the tag of such a field."""
        if self is Wire.FIXED64:
            return fixed64(number)
        return fixed32(number) if self is Wire.FIXED32 else varint_tag(number)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, an enum, a bool or a time.

    ``needed``: there in every table, 0 where it is not told, or null if it is ``optional``, which
    is of fields for which proto3 tells 0 from none.
    ``rivals``: tags of fields of which only the last one counts, with this one.
    """

    number: int
    name: str
    wire: Wire
    type: pa.DataType
    needed: bool = False
    optional: bool = False
    rivals: tuple[int, ...] = ()

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (self.wire.tag(self.number),)

    def read(self, reading: Reading) -> None:
        """Add the last value of each message."""
        tag = self.wire.tag(self.number)
        if tag not in reading.level and not self.needed:
            return
        values = self._values(reading.level.last(tag))
        absent: Flags | None = None
        if self.optional:
            absent = ~has_last(reading.level, tag, self.rivals)
        elif not self.needed:
            absent = (values.view(np.uint64) if values.itemsize == 8 else values) == 0  # noqa: PLR2004
        if self.needed or absent is None or not absent.all():
            column = pa.array(values, mask=absent)
            column = column if column.type == self.type else column.view(self.type)
            reading.columns.add(self.name, column, nullable=absent is not None)

    def write(self, writing: Writing) -> None:
        """Add the field where it is not the default, or where it is there if that is told."""
        column = writing.rows.array(self.name, self.type)
        if column is None:
            return
        values, valid = numbers_of(column)
        if not self.optional:
            valid = values != 0
        if self.wire is Wire.ZIGZAG:
            signed = values.astype(np.uint32).view(np.int32)
            values = ((signed << 1) ^ (signed >> 31)).view(np.uint32).astype(np.uint64)
        if self.wire is Wire.FIXED64:
            writing.messages.fixed64(self.number, values, valid)
        elif self.wire is Wire.FIXED32:
            writing.messages.fixed32(self.number, values, valid)
        else:
            writing.messages.varint(self.number, values, valid)

    def _values(self, found: Longs) -> np.ndarray[Any, Any]:
        """Cut and turn 64 bits into numbers of the type, as libraries of protobuf do."""
        if pa.types.is_boolean(self.type):
            return found != 0
        if self.wire is Wire.ZIGZAG:
            low = found.astype(np.uint32)
            return (low >> 1).view(np.int32) ^ -(low & 1).view(np.int32)
        if self.type.bit_width == 32:  # noqa: PLR2004
            low = found.astype(np.uint32)
            return low.view(np.int32) if pa.types.is_signed_integer(self.type) else low
        if pa.types.is_floating(self.type):
            return found.view(np.float64)
        return found if pa.types.is_unsigned_integer(self.type) else found.view(np.int64)


@dataclass(frozen=True, slots=True)
class Text:
    """A text. ``again``: it is likely to come again, and a dictionary is shorter then."""

    number: int
    name: str
    needed: bool = False
    again: bool = True

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (span(self.number),)

    def read(self, reading: Reading) -> None:
        """Add the text; an empty one is null, but in a column that is needed."""
        start, end = last_texts(reading.request.source, reading.level, self.number)
        if self.needed:
            end = np.where(start < 0, 0, end)
            start = np.maximum(start, 0)
        else:
            start = np.where(start < end, start, -1)
        if self.needed or bool((start >= 0).any()):
            found = binaries(reading.request.source, start, end)
            column = words(found, start, least=8 if self.again else 16)
            reading.columns.add(self.name, column, nullable=not self.needed)

    def write(self, writing: Writing) -> None:
        """Add the field where it is not empty."""
        column = writing.rows.texts(self.name)
        if column is not None:
            writing.messages.text(self.number, column)


@dataclass(frozen=True, slots=True)
class Id:
    """An id of so many bytes; one of another length stands in a column of ours."""

    number: int
    name: str
    width: int
    needed: bool = False

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (span(self.number),)

    def read(self, reading: Reading) -> None:
        """Add the ids, null where there is none, also if the column is needed."""
        at = reading.level.last_range(self.number)
        column, odd = fixed_ids(reading.request.source, at, self.width)
        if column is None and self.needed:
            column = pa.nulls(at[0].size, pa.binary(self.width))
        reading.columns.add(self.name, column)
        if odd is not None:
            reading.ours.append((odd_name(self.name), odd))

    def write(self, writing: Writing) -> None:
        """Add the field where there is an id, of whatever length."""
        for name in (self.name, odd_name(self.name)):  # No row has a value in both.
            column = writing.rows.octets(name)
            if column is not None:
                writing.messages.text(self.number, column)


@dataclass(frozen=True, slots=True)
class Duration:
    """Start and end, of which OTAP has the start and how long it took; both wrap at 64 bits."""

    start_number: int
    end_number: int
    start_name: str
    name: str

    def tags(self) -> Iterable[int]:
        """Tell both tags."""
        return (fixed64(self.start_number), fixed64(self.end_number))

    def read(self, reading: Reading) -> None:
        """Add both columns."""
        start = reading.level.last(fixed64(self.start_number))
        took = reading.level.last(fixed64(self.end_number)) - start
        reading.columns.add(self.start_name, times(start), nullable=False)
        column = pa.array(took.view(np.int64)).view(DURATION)
        reading.columns.add(self.name, column, nullable=False)

    def write(self, writing: Writing) -> None:
        """Add both fields, each where it is not 0."""
        start = writing.rows.times(self.start_name)
        end = start.copy()
        if (column := writing.rows.array(self.name, DURATION)) is not None:
            end += numbers_of(column)[0]
        writing.messages.fixed64(self.start_number, start, start != 0)
        writing.messages.fixed64(self.end_number, end, end != 0)


def odd_name(name: str) -> str:
    """Name the column for ids of a wrong length."""
    return f"quiver_{name}"


def has_last(level: Level, tag: int, rivals: Iterable[int]) -> Flags:
    """Tell which messages have a field, and behind it none of those that exclude it."""
    at = level.last_at(tag)
    other: Ints = np.full(at.size, -1, np.int64)
    for each in rivals:
        if each in level:
            np.maximum(other, level.last_at(each), out=other)
    return at > other
